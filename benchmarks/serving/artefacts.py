"""Loading an artefact, relative to LightGBM reading its text form of as many trees."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import lightgbm

from benchmarks.evaluation.boosters import booster_text, leaves_of_trees
from benchmarks.evaluation.workloads import generate_runs
from benchmarks.serving.slices import Figure, Goal, alternate, cpu_seconds
from benchmarks.serving.stage import Stage
from models import RunTable, dumps, fit_portfolio, loads

_LOAD: Final = Goal("load of an artefact{}", "Booster(model_str) of as many trees", 3.0)
_REPEATS, _RUNS = 20, 100
_TREES: Final = "boosted_trees"


def measure_loads(stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the figures of the published artefact and of one with only trees."""
    runs = generate_runs(_RUNS, 0)
    trees = fit_portfolio(runs, seed=0, time_budget_s=60.0, regressors=(_TREES,))
    for artifact, suffix in ((stage.artifact, ", default fit"), (dumps(trees), ", trees alone")):
        goal = replace(_LOAD, what=_LOAD.what.format(suffix))
        yield _compare_with_booster(goal, artifact, runs, slices)


def _compare_with_booster(goal: Goal, artifact: bytes, runs: RunTable, slices: int) -> Figure:
    leaves = leaves_of_trees(loads(artifact))
    text = booster_text(runs, leaves)

    def ours() -> None:
        for _ in range(_REPEATS):
            loads(artifact)

    def floor() -> None:
        for _ in range(_REPEATS):
            lightgbm.Booster(model_str=text)

    timings = alternate(cpu_seconds(ours), cpu_seconds(floor), slices)
    text_size = f"{len(text) / 1024:.0f} KiB of {len(leaves)} trees"
    sizes = f"{len(artifact) / 1024:.0f} KiB beside {text_size}"
    return Figure.of(goal, timings, note=f"CPU time; {sizes}")
