"""Random configurations with their true peaks of memory, and laws of them."""

from dataclasses import dataclass

import numpy as np

from models import BoolArray, FeatureTable, FloatArray, HardwareDescription, MemoryRuns
from models.accelerator_memory.fit import fit_memory_law
from models.accelerator_memory.law import MemoryLaw

GIB = 2.0**30
HARDWARE = {
    "small": HardwareDescription(10.0, 100.0, 16.0, 900.0),
    "large": HardwareDescription(10.0, 100.0, 40.0, 900.0),
}


@dataclass(frozen=True)
class World:
    """Random configurations with their true peaks."""

    features: FeatureTable
    is_out: BoolArray
    peak_bytes: FloatArray

    def runs(self, *, measured: bool) -> MemoryRuns:
        peaks = np.where(self.is_out | (not measured), np.nan, self.peak_bytes)
        return MemoryRuns(self.features, self.is_out, peaks)


def make_world(n: int, seed: int, gpus: tuple[str, ...] = ("small", "large")) -> World:
    rng = np.random.default_rng(seed)
    batch = np.exp2(rng.integers(4, 11, n).astype(np.float64))
    workers = np.exp2(rng.integers(0, 4, n).astype(np.float64))
    depth, precision = rng.choice([18.0, 50.0, 101.0], n), rng.choice(["fp16", "fp32"], n)
    gpu = rng.choice(gpus, n)
    peak = 0.8 * GIB * depth / 50 + 60 * 2**20 * (depth / 50) ** 0.8 * batch / workers
    peak = peak * np.where(precision == "fp16", 0.6, 1) * np.exp(rng.normal(0, 0.04, n))
    limit = 0.94 * GIB * np.where(gpu == "large", 40, 16)
    features = FeatureTable(
        {"batch_size": batch, "workers": workers, "param.depth": depth},
        {"gpu_type": gpu.tolist(), "param.precision": precision.tolist()},
        n,
    )
    return World(features, peak > limit, peak)


def law_of(runs: MemoryRuns, seed: int = 0) -> MemoryLaw:
    law = fit_memory_law(runs, HARDWARE, seed=seed)
    assert law is not None
    return law


def ask(law: MemoryLaw, gpu: str | None = "small", **numeric: list[float]) -> FloatArray:
    n = len(next(iter(numeric.values())))
    columns = {"workers": np.ones(n)} | {
        name.replace("param_", "param."): np.array(v) for name, v in numeric.items()
    }
    features = FeatureTable(columns, {"gpu_type": [gpu] * n, "param.precision": ["fp32"] * n}, n)
    return law.feasibility(features).probability
