"""How much stronger than others a workload responds to hardware, and what follows from it."""

import numpy as np
import pytest

from models import FloatArray, PooledPrior, RunTable, WorkloadSummary, fit_portfolio, summarise
from models.pooling.level_effects import LevelEffects, pool_levels
from models.pooling.summaries import LevelEvidence
from tests.models.workloads import grid, make_features, make_runs

pytestmark = pytest.mark.lengthy

EFFECTS = np.array([0.0, -0.6, -1.2, -1.8])
PRECISIONS = {"fp32": 0.0, "mixed": -0.8}


def pooled(strengths: FloatArray) -> LevelEffects:
    """Return the pool of workloads that respond to four levels with these strengths."""
    levels = ("a", "b", "c", "d")
    evidence = [
        LevelEvidence("color", levels, strength * EFFECTS, 1e-4 * np.eye(4))
        for strength in strengths.tolist()
    ]
    return pool_levels("color", evidence, {})


def runs_of(strength: float, gpu_types: tuple[str, ...], seed: int = 0) -> RunTable:
    """Return runs of which precision and GPU type change the duration by a power of others'."""
    rows: list[dict[str, float | str]] = [
        row | {"param.precision": precision, "gpu_type": gpu_type}
        for row in grid(workers=(1, 2, 4), gpu_types=("V100",))
        for precision in PRECISIONS
        for gpu_type in gpu_types
    ]
    table = make_runs([row | {"gpu_type": "V100"} for row in rows], seed=seed)
    logs = [PRECISIONS[str(row["param.precision"])] for row in rows]
    types = [-1.0 if row["gpu_type"] == "K80" else 0.0 for row in rows]
    factor = np.exp(strength * (np.array(logs) + np.array(types)))
    return RunTable(make_features(rows), table.duration_seconds * factor, table.run_ids)


def diverse() -> list[WorkloadSummary]:
    """Return workloads on two GPU types that respond with very different strengths."""
    strengths = (0.4, 0.7, 1.0, 1.3, 1.6, 0.6, 1.4)
    return [
        summarise(runs_of(strength, ("V100", "K80"), seed=index + 1), f"other-{index}")
        for index, strength in enumerate(strengths)
    ]


def gain(strength: float, prior: PooledPrior) -> float:
    """Return the forecast log ratio of a type without runs to the measured one."""
    portfolio = fit_portfolio(runs_of(strength, ("V100",)), seed=0, time_budget_s=60, prior=prior)
    row: dict[str, float | str] = {"workers": 2.0, "dataset_size": 1000.0, "epochs": 2.0}
    row["param.precision"] = "fp32"
    questions = make_features([{**row, "gpu_type": gpu_type} for gpu_type in ("V100", "K80")])
    return float(np.diff(np.log(portfolio.predict(questions).median()))[0])


def test_pool_learns_how_differently_workloads_respond() -> None:
    diverse = pooled(np.linspace(0.3, 1.7, 8))
    alike = pooled(np.ones(8))

    assert diverse.response > 0.3
    assert alike.response < 0.5 * diverse.response


def test_levels_of_workloads_that_respond_differently_go_together() -> None:
    _, covariance = pooled(np.linspace(0.3, 1.7, 8)).joint(["a", "b", "d"], {})
    to_b, to_d = np.array([-1.0, 1.0, 0.0]), np.array([-1.0, 0.0, 1.0])

    correlation = (to_b @ covariance @ to_d) / np.sqrt(
        (to_b @ covariance @ to_b) * (to_d @ covariance @ to_d)
    )

    assert correlation > 0.7


def test_known_response_scales_effects_and_narrows_them() -> None:
    effects = pooled(np.linspace(0.3, 1.7, 8))
    ends = ["a", "d"]

    plain, doubt = effects.joint(ends, {})
    strong, less_doubt = effects.at_response(0.5, 0.05).joint(ends, {})

    contrast = np.array([-1.0, 1.0])
    assert contrast @ strong == pytest.approx(1.5 * (contrast @ plain))
    assert contrast @ less_doubt @ contrast < 0.5 * (contrast @ doubt @ contrast)


def test_unknown_response_leaves_the_effects_as_they_are() -> None:
    effects = pooled(np.linspace(0.3, 1.7, 8))

    settled = effects.at_response(0.0, effects.response)

    names = ["a", "b", "d"]
    contrast = np.eye(3) - 1 / 3
    for one, other in zip(effects.joint(names, {}), settled.joint(names, {}), strict=True):
        assert contrast @ one == pytest.approx(contrast @ other)


def test_workload_that_gains_much_from_precision_is_told_to_gain_much_from_a_type() -> None:
    prior = PooledPrior.from_summaries(diverse(), {})

    weak, typical, strong = (gain(strength, prior) for strength in (0.4, 1.0, 1.6))

    assert typical == pytest.approx(-1.0, abs=0.2)
    assert weak > typical + 0.12
    assert strong < typical - 0.12
