"""What the pool says of the differences between levels: what it can tell, and nothing else."""

import numpy as np
import pytest

from models import HardwareDescription, PooledPrior, RunTable, fit_portfolio, summarise
from models.features.hardware import SPECIFICATION_EXPONENTS, UNKNOWN_SD, level_offsets
from models.features.layout import Layout
from models.laws.law_priors import law_prior
from models.pooling.level_effects import LevelEffects, _Rows, pool_levels, specification_effects
from models.pooling.summaries import LevelEvidence
from models.tables import FloatArray
from tests.models.workloads import grid, make_features, make_runs

V100 = HardwareDescription(15.7, 125.0, 16.0, 900.0)
A100 = HardwareDescription(19.5, 312.0, 40.0, 1555.0)
SHEETS = {"V100": V100, "V100-large": V100, "A100": A100}


def pooled(*apart: float) -> LevelEffects:
    """Return effects of workloads on which the large board takes so much longer, in log units."""
    levels = ("A100", "V100", "V100-large")
    evidence = [
        LevelEvidence("gpu_type", levels, np.array([-0.6, 0.0, more]), 1e-4 * np.eye(3))
        for more in apart
    ]
    return pool_levels("gpu_type", evidence, SHEETS)


def test_boards_that_the_pool_cannot_tell_apart_do_not_differ() -> None:
    effects = pooled(0.2, -0.2, 0.15, -0.1)

    faster, twin = effects.differences(["A100", "V100", "V100-large"], SHEETS)

    mean, _ = effects.joint(["V100", "V100-large"], SHEETS)
    assert mean[0] != mean[1]
    assert twin == 0
    assert faster == pytest.approx(0.6, abs=0.2)


def test_difference_that_workloads_agree_on_is_kept() -> None:
    effects = pooled(0.2, 0.2, 0.25, 0.15)

    differences = effects.differences(["V100", "V100-large"], SHEETS)

    mean, _ = effects.joint(["V100", "V100-large"], SHEETS)
    assert differences[0] == pytest.approx(mean[1] - mean[0])
    assert differences[0] > 0.05


@pytest.mark.parametrize("names", [("V100", "A100"), ("A100", "V100")])
def test_data_sheets_alone_tell_every_difference(names: tuple[str, str]) -> None:
    effects = specification_effects("gpu_type")

    mean, _ = effects.joint(names, SHEETS)

    assert effects.differences(names, SHEETS).tolist() == pytest.approx([mean[1] - mean[0]])


def test_type_without_a_data_sheet_leaves_the_others_what_theirs_tell() -> None:
    described = level_offsets(("V100", "A100"), SHEETS)
    offsets = level_offsets(("V100", "mine", "A100", None), SHEETS)
    prior = law_prior(Layout((), (4,), (offsets,)), "data", ("compute",), 1.0)

    assert described == (offsets[0], offsets[2])
    assert offsets[0] == -offsets[2] > 0.15
    assert (offsets[1], offsets[3]) == (0.0, 0.0)
    assert prior.means[1:].tolist() == list(offsets)
    assert prior.sds[1:].tolist() == [0.35, 0.5, 0.35, 0.5]


def test_type_like_the_measured_one_is_forecast_as_it() -> None:
    def on_both(seed: int) -> RunTable:
        table = make_runs(grid(gpu_types=("K80", "V100")), seed=seed)
        # The T4 of these workloads is a V100, a little faster or slower by chance.
        twin = make_runs(grid(gpu_types=("V100",)), seed=seed + 50)
        features = make_features(
            [*grid(gpu_types=("K80", "V100")), *grid(gpu_types=("T4",))],
        )
        factor = 1 + 0.1 * (-1) ** seed
        durations = np.append(table.duration_seconds, factor * twin.duration_seconds)
        return RunTable(features, durations, [str(index) for index in range(len(durations))])

    summaries = [summarise(on_both(seed), f"other-{seed}") for seed in range(1, 7)]
    prior = PooledPrior.from_summaries(summaries, {})
    portfolio = fit_portfolio(
        make_runs(grid(gpu_types=("V100",))), seed=0, time_budget_s=60, prior=prior
    )
    row: dict[str, float | str] = {"workers": 4, "dataset_size": 1000, "epochs": 2}

    forecast = portfolio.predict(
        make_features([{**row, "gpu_type": gpu} for gpu in ("V100", "T4")])
    )

    median, (lower, upper) = forecast.median(), forecast.interval(0.9)
    assert median[1] == pytest.approx(median[0], rel=1e-2)
    assert upper[1] / lower[1] > upper[0] / lower[0]


def test_gpu_type_of_which_nothing_is_known_is_as_uncertain_as_types_differ() -> None:
    rows = [{**row, "param.mode": "fast"} for row in grid(gpu_types=("K80",))]
    rows += [{**row, "param.mode": "slow"} for row in grid(gpu_types=("V100",))]
    portfolio = fit_portfolio(make_runs(rows), seed=0, time_budget_s=60)
    row: dict[str, float | str] = {"workers": 4, "dataset_size": 1000, "epochs": 2}
    questions = [
        {**row, "gpu_type": "V100", "param.mode": "other"},
        {**row, "gpu_type": "TPU", "param.mode": "slow"},
    ]

    lower, upper = portfolio.predict(make_features(questions)).interval(0.9)

    assert upper[1] / lower[1] > 1.3 * upper[0] / lower[0]
    assert upper[1] / lower[1] > 4


def test_posterior_is_that_of_the_whole_covariance() -> None:
    rng = np.random.default_rng(0)
    hardware = {"A100": A100, "V100": V100}
    evidence = [_random_evidence(rng, size) for size in (2, 3, 2, 4)]
    rows = _Rows.of("gpu_type", evidence, hardware).with_pattern(rng.normal(size=7))
    logs, typical = np.log([0.3, 0.2, 0.1, 0.4]), np.log([0.2, 0.2, 0.2, 0.2])

    mean, covariance = rows.posterior(np.exp(logs))
    found, slope = rows.loss(logs, typical)

    total, latent = _dense(rows, evidence, np.exp(logs))
    cross = rows.design * latent
    gain = np.linalg.solve(total, cross).T
    prior_mean = np.concatenate([np.zeros(4), SPECIFICATION_EXPONENTS])
    np.testing.assert_allclose(mean, prior_mean + gain @ rows.residual, rtol=1e-9)
    np.testing.assert_allclose(covariance, np.diag(latent) - gain @ cross, atol=1e-12)
    off = (logs - typical) / 0.7
    square = rows.residual @ np.linalg.solve(total, rows.residual)
    expected = (square + np.linalg.slogdet(total)[1] + off @ off) / 2
    assert found == pytest.approx(expected, rel=1e-10)
    for number, axis in enumerate(np.eye(4)):
        after, before = (rows.loss(logs + step * axis, typical)[0] for step in (1e-5, -1e-5))
        assert slope[number] == pytest.approx((after - before) / 2e-5, abs=1e-2)


def _random_evidence(rng: np.random.Generator, size: int) -> LevelEvidence:
    levels = tuple(sorted(rng.choice(["A100", "V100", "TPU", "K80"], size, replace=False).tolist()))
    root = 0.1 * rng.normal(size=(size, size))
    return LevelEvidence("gpu_type", levels, rng.normal(size=size), root @ root.T)


def _dense(
    rows: _Rows, evidence: list[LevelEvidence], sds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the covariance of all rows, written out, and the variances of the latent effects."""
    own, deviation, slope, response = sds**2
    which = np.repeat(np.arange(len(evidence)), [len(item.levels) for item in evidence])
    same = np.equal.outer(which, which).astype(np.float64)
    errors = np.zeros((len(which), len(which)))
    for number, item in enumerate(evidence):
        errors[np.ix_(which == number, which == number)] = item.covariance
    latent = np.concatenate([own + UNKNOWN_SD**2 * rows.is_vague, np.full(3, 0.25**2)])
    x = rows.design[:, -3:]
    responses = np.outer(rows.pattern, rows.pattern) * (same - 1 / len(evidence))
    total = (rows.design * latent) @ rows.design.T + slope * (x @ x.T) * same
    total += errors + 25.0 * same + response * responses + deviation * np.eye(len(which))
    return total, latent
