"""Parameters that a workload's runs never varied, and what its project's others say of them."""

import numpy as np
import pytest

from models import (
    FittedPortfolio,
    PooledPrior,
    RunTable,
    WorkloadSummary,
    dumps,
    fit_portfolio,
    loads,
    summarise,
)
from tests.models.workloads import grid, make_features, make_runs

pytestmark = pytest.mark.lengthy

LENGTH = "param.sequence_length"
QUESTIONS: list[dict[str, float | str]] = [
    {"workers": 2, "dataset_size": 1000, "epochs": 2, "gpu_type": "V100", LENGTH: length}
    for length in (512, 128, 64)
]


def runs_with(lengths: tuple[float, ...], *, exponent: float = 1.0, seed: int = 0) -> RunTable:
    """Return runs whose durations go with a power of the length of sequences."""
    rows = [{**row, LENGTH: length} for row in grid() for length in lengths]
    table = make_runs(rows, seed=seed)
    factor = (table.features.numeric[LENGTH] / 512) ** exponent
    return RunTable(table.features, table.duration_seconds * factor, table.run_ids)


def others(exponent: float = 1.0) -> list[WorkloadSummary]:
    """Return summaries of workloads that varied the length of sequences."""
    return [
        summarise(runs_with((128, 512), exponent=exponent, seed=seed + 1), f"other-{seed}")
        for seed in range(4)
    ]


def fit(runs: RunTable, own: list[WorkloadSummary]) -> FittedPortfolio:
    prior = PooledPrior.from_summaries(own, {}) if own else None
    return fit_portfolio(runs, seed=0, time_budget_s=60, prior=prior)


@pytest.fixture(scope="module")
def taught() -> FittedPortfolio:
    return fit(runs_with((512,)), others())


def test_constant_parameter_goes_on_as_in_the_other_workloads(taught: FittedPortfolio) -> None:
    measured, quarter, eighth = taught.predict(make_features(QUESTIONS)).median()

    assert quarter / measured == pytest.approx(1 / 4, rel=0.2)
    assert eighth / measured == pytest.approx(1 / 8, rel=0.3)


def test_interval_is_as_wide_as_the_workloads_differ(taught: FittedPortfolio) -> None:
    lower, upper = taught.predict(make_features(QUESTIONS[1:2])).interval(0.9)
    ignorant = fit(runs_with((512,)), [])
    lowest, highest = ignorant.predict(make_features(QUESTIONS[1:2])).interval(0.9)

    assert upper / lower < highest / lowest
    assert lower < ignorant.predict(make_features(QUESTIONS[:1])).median() / 4 < upper


def test_what_is_measured_does_not_change(taught: FittedPortfolio) -> None:
    rows = [{**row, LENGTH: 512} for row in QUESTIONS]
    without = [{name: value for name, value in row.items() if name != LENGTH} for row in QUESTIONS]

    medians = taught.predict(make_features(rows)).median()

    assert np.array_equal(medians, taught.predict(make_features(without)).median())


def test_one_row_and_many_are_answered_alike(taught: FittedPortfolio) -> None:
    together = taught.predict(make_features(QUESTIONS)).median()
    alone = [taught.predict(make_features([row])).median()[0] for row in QUESTIONS]

    assert together.tolist() == pytest.approx(alone, rel=1e-12)


def test_artefact_keeps_what_is_believed(taught: FittedPortfolio) -> None:
    questions = make_features(QUESTIONS)

    read = loads(dumps(taught))

    assert np.array_equal(read.predict(questions).median(), taught.predict(questions).median())


def test_parameter_that_no_workload_varied_is_ignored_with_doubt() -> None:
    untold = [summarise(make_runs(grid(), seed=seed + 1), f"other-{seed}") for seed in range(2)]

    forecast = fit(runs_with((512,)), untold).predict(make_features(QUESTIONS[:2]))

    lower, upper = forecast.interval(0.9)
    measured, quarter = forecast.median()
    assert quarter == pytest.approx(measured, rel=0.05)
    assert (upper / lower)[1] > 2 * (upper / lower)[0]


def test_workloads_that_disagree_leave_doubt() -> None:
    agreeing = fit(runs_with((512,)), others())
    disagreeing = fit(runs_with((512,)), [*others(1.0)[:2], *others(-1.0)[2:]])

    widths = [
        np.divide(*reversed(each.predict(make_features(QUESTIONS[1:2])).interval(0.9)))
        for each in (agreeing, disagreeing)
    ]
    assert widths[1] > 1.5 * widths[0]
