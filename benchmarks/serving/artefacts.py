"""Loading an artefact, beside LightGBM reading its own text form of the same trees."""

from collections.abc import Iterator
from typing import Final

import lightgbm

from benchmarks.evaluation.workloads import generate_runs
from benchmarks.serving.slices import Figure, Goal, alternate, cpu_seconds
from benchmarks.serving.stage import Stage
from models import dumps, fit_portfolio, loads

_LOAD: Final = Goal("load of an artefact{}", "Booster(model_str)", 3.0)
_REPEATS: Final = 20
_TREES: Final = "boosted_trees"


def measure_loads(stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the figures of the published artefact and of one of trees alone."""
    trees = fit_portfolio(generate_runs(100, 0), seed=0, time_budget_s=60.0, regressors=(_TREES,))
    text = trees.members[_TREES].to_state().texts["trees"]
    for artifact, told in ((stage.artifact, ", default fit"), (dumps(trees), ", trees alone")):
        goal = Goal(_LOAD.what.format(told), _LOAD.floor, _LOAD.bound)
        yield _beside_booster(goal, artifact, text, slices)


def _beside_booster(goal: Goal, artifact: bytes, text: str, slices: int) -> Figure:
    def ours() -> None:
        for _ in range(_REPEATS):
            loads(artifact)

    def floor() -> None:
        for _ in range(_REPEATS):
            lightgbm.Booster(model_str=text)

    found = alternate(cpu_seconds(ours), cpu_seconds(floor), slices)
    note = f"CPU time; {len(artifact) / 1024:.0f} KiB beside {len(text) / 1024:.0f} KiB of trees"
    return Figure.of(goal, found, note=note)
