"""Loading an artefact, beside LightGBM reading its own text form of as many trees."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import lightgbm
import numpy as np

from benchmarks.evaluation.workloads import generate_runs
from benchmarks.serving.slices import Figure, Goal, alternate, cpu_seconds
from benchmarks.serving.stage import Stage
from models import dumps, fit_portfolio, loads

_LOAD: Final = Goal("load of an artefact{}", "Booster(model_str) of as many trees", 3.0)
_REPEATS, _RUNS = 20, 100
_TREES: Final = "boosted_trees"


def measure_loads(stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the figures of the published artefact and of one of trees alone."""
    runs = generate_runs(_RUNS, 0)
    trees = fit_portfolio(runs, seed=0, time_budget_s=60.0, regressors=(_TREES,))
    X = np.column_stack(list(runs.features.numeric.values()))
    leaves = trees.members[_TREES].to_state().arrays["trees.leaves"]
    text = _text(X, np.log(runs.duration_seconds), leaves)
    for artifact, told in ((stage.artifact, ", default fit"), (dumps(trees), ", trees alone")):
        yield _beside_booster(
            replace(_LOAD, what=_LOAD.what.format(told)), artifact, text, slices, len(leaves)
        )


def _text(X: np.ndarray, y: np.ndarray, leaves: np.ndarray) -> str:
    """Return LightGBM's text of as many trees of as many leaves at most."""
    parameters = {
        "num_leaves": int(leaves.max()),
        "min_data_in_leaf": 5,
        "num_threads": 1,
        "verbosity": -1,
    }
    text: str = lightgbm.train(
        parameters, lightgbm.Dataset(X, label=y), num_boost_round=len(leaves)
    ).model_to_string()
    return text


def _beside_booster(goal: Goal, artifact: bytes, text: str, slices: int, trees: int) -> Figure:
    def ours() -> None:
        for _ in range(_REPEATS):
            loads(artifact)

    def floor() -> None:
        for _ in range(_REPEATS):
            lightgbm.Booster(model_str=text)

    found = alternate(cpu_seconds(ours), cpu_seconds(floor), slices)
    sizes = f"{len(artifact) / 1024:.0f} KiB beside {len(text) / 1024:.0f} KiB of {trees} trees"
    return Figure.of(goal, found, note=f"CPU time; {sizes}")
