"""Synthetic workloads with a known law, for the tests of the library."""

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from models import FeatureTable, FittedPortfolio, FloatArray, RunTable, fit_portfolio

SPEED = {"K80": 3.0, "V100": 1.0, "T4": 1.7}


def make_features(rows: Sequence[Mapping[str, float | str]]) -> FeatureTable:
    """Return a table of rows; what a row does not name is missing."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    numeric: dict[str, FloatArray] = {}
    categorical: dict[str, list[str | None]] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            categorical[name] = [None if value is None else str(value) for value in values]
        else:
            numeric[name] = np.array(
                [np.nan if value is None else float(value) for value in values]
            )
    return FeatureTable(numeric, categorical, len(rows))


def law_seconds(row: Mapping[str, float | str]) -> float:
    """Return the true duration: computation over workers, synchronisation and a fixed part."""
    workers, epochs = float(row["workers"]), float(row.get("epochs", 1.0))
    size = float(row.get("dataset_size", 1000.0))
    compute = 0.5 * SPEED[str(row.get("gpu_type", "V100"))] * size * epochs / workers
    return compute + 0.02 * size * epochs * (workers > 1) + 5.0


def make_runs(
    rows: Sequence[Mapping[str, float | str]], *, noise: float = 0.02, seed: int = 0
) -> RunTable:
    """Return runs of the law with log-normal noise."""
    generator = np.random.default_rng(seed)
    truth = np.array([law_seconds(row) for row in rows])
    seconds = truth * np.exp(noise * generator.standard_normal(len(rows)))
    return RunTable(make_features(rows), seconds, [f"run_{index}" for index in range(len(rows))])


def grid(
    workers: Sequence[float] = (1, 2, 4, 8),
    sizes: Sequence[float] = (1000, 4000),
    gpu_types: Sequence[str] = ("V100", "K80"),
    repetitions: int = 1,
) -> list[dict[str, float | str]]:
    """Return every combination, each repeated."""
    return [
        {"workers": w, "dataset_size": size, "epochs": 2.0, "gpu_type": gpu}
        for w in workers
        for size in sizes
        for gpu in gpu_types
        for _ in range(repetitions)
    ]


def fit(
    runs: RunTable, *, seed: int = 0, regressors: Sequence[str] | None = None
) -> FittedPortfolio:
    """Fit with a budget that never binds."""
    return fit_portfolio(runs, seed=seed, time_budget_s=600, regressors=regressors)


@st.composite
def run_tables(draw: st.DrawFn) -> RunTable:
    """Draw runs without any law, from a millisecond to thirty years."""
    n = draw(st.integers(1, 14))
    counts = st.integers(1, 64).map(float)
    sizes = st.floats(1e-3, 1e9, allow_subnormal=False)
    numeric = {"workers": np.array(draw(st.lists(counts, min_size=n, max_size=n)))}
    if draw(st.booleans()):
        optional = st.one_of(st.just(float("nan")), sizes)
        numeric["dataset_size"] = np.array(draw(st.lists(optional, min_size=n, max_size=n)))
    if draw(st.booleans()):
        signed = st.floats(-1e3, 1e3)
        numeric["param.p"] = np.array(draw(st.lists(signed, min_size=n, max_size=n)))
    levels = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=n, max_size=n)
    categorical = {"gpu_type": draw(levels)} if draw(st.booleans()) else {}
    seconds = np.array(draw(st.lists(st.floats(1e-3, 1e9), min_size=n, max_size=n)))
    features = FeatureTable(numeric, categorical, n)
    return RunTable(features, seconds, [str(index) for index in range(n)])
