"""Generated workloads of any size: a law with noise over workers, data, batches and GPU types."""

import numpy as np

from models import FeatureTable, FloatArray, RunTable

_GPU_SECONDS = {"K80": 3.0, "T4": 1.7, "V100": 1.0, "A100-40GB": 0.4}


def generate_features(n: int, seed: int) -> FeatureTable:
    """Return configurations that hardly repeat, like those that users ask."""
    generator = np.random.default_rng(seed)
    numeric: dict[str, FloatArray] = {
        "workers": np.exp2(generator.integers(0, 7, n)).astype(np.float64),
        "dataset_size": np.rint(np.exp(generator.uniform(7, 14, n))),
        "batch_size": np.exp2(generator.integers(5, 11, n)).astype(np.float64),
        "param.layers": generator.integers(2, 48, n).astype(np.float64),
    }
    levels = generator.choice(list(_GPU_SECONDS), n).tolist()
    return FeatureTable(numeric, {"gpu_type": levels}, n)


def generate_runs(n: int, seed: int) -> RunTable:
    """Return measured runs with 3 % noise."""
    features = generate_features(n, seed)
    numeric = features.numeric
    speed = np.array([_GPU_SECONDS[str(gpu)] for gpu in features.categorical["gpu_type"]])
    work = 1e-3 * numeric["dataset_size"] * numeric["param.layers"] ** 0.9 * speed
    steps = numeric["dataset_size"] / numeric["batch_size"]
    seconds = work / numeric["workers"] + 0.02 * steps * np.log2(2 * numeric["workers"]) + 20
    noise = 0.03 * np.random.default_rng(seed + 1).standard_normal(n)
    return RunTable(features, seconds * np.exp(noise), [f"run_{index}" for index in range(n)])
