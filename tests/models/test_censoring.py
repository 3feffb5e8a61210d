"""Unfinished runs: lower bounds raise forecasts, progress estimates them, the rest is dropped."""

import numpy as np
import pytest

from models import (
    Evidence,
    FeatureTable,
    FittedPortfolio,
    RunTable,
    UnfinishedCounts,
    UnfinishedRuns,
    dumps,
    fit_portfolio,
    loads,
)
from models.screening.censoring import impute

NAN = float("nan")


def make_features(sizes: list[float]) -> FeatureTable:
    return FeatureTable(
        {"dataset_size": np.array(sizes), "workers": np.ones(len(sizes))}, {}, len(sizes)
    )


def make_completed() -> RunTable:
    sizes = [1e3, 2e3, 4e3, 8e3]
    return RunTable(make_features(sizes), np.array(sizes) / 10, list("abcd"))


def make_unfinished(rows: list[tuple[float, float, float]]) -> UnfinishedRuns:
    sizes, elapsed, progress = zip(*rows, strict=True)
    names = [f"stopped_{row}" for row in range(len(rows))]
    return UnfinishedRuns(make_features(list(sizes)), np.array(elapsed), np.array(progress), names)


def fit(unfinished: UnfinishedRuns | None) -> FittedPortfolio:
    return fit_portfolio(
        make_completed(),
        seed=0,
        time_budget_s=20,
        regressors=["log_linear"],
        evidence=Evidence(unfinished=unfinished),
    )


def test_a_bound_above_the_trend_raises_the_forecast_beyond_it() -> None:
    questions = make_features([3.2e4])

    plain = fit(None).predict(questions).median()[0]
    raised = fit(make_unfinished([(3.2e4, 9000.0, NAN)])).predict(questions).median()[0]

    assert plain == pytest.approx(3200, rel=0.3)
    assert raised > 1.4 * plain


def test_a_bound_that_the_trend_exceeds_anyway_changes_nothing() -> None:
    low = make_unfinished([(3.2e4, 300.0, NAN)])

    imputed = impute(make_completed(), low)

    assert imputed.runs.n_runs == 4
    assert imputed.counts == UnfinishedCounts(uninformative=1)
    np.testing.assert_array_equal(
        fit(low).predict(make_features([3.2e4])).median(),
        fit(None).predict(make_features([3.2e4])).median(),
    )


def test_known_progress_gives_the_duration_itself() -> None:
    imputed = impute(make_completed(), make_unfinished([(3.2e4, 2500.0, 0.5)]))

    assert imputed.runs.duration_seconds[-1] == pytest.approx(5000.0)
    assert imputed.runs.run_ids[-1] == "stopped_0"
    assert imputed.counts == UnfinishedCounts(by_progress=1)


def test_hardly_any_progress_is_a_bound_only() -> None:
    imputed = impute(make_completed(), make_unfinished([(3.2e4, 9000.0, 0.01)]))

    assert imputed.counts == UnfinishedCounts(as_bounds=1)
    assert 9000 < imputed.runs.duration_seconds[-1] < 9000 / 0.01


def test_the_most_telling_run_of_each_configuration_counts() -> None:
    imputed = impute(
        make_completed(),
        make_unfinished(
            [(3.2e4, 900.0, 0.25), (3.2e4, 2000.0, 0.5), (3.2e4, 9999.0, NAN), (1e3, 70.0, 0.9)]
        ),
    )

    assert imputed.counts == UnfinishedCounts(by_progress=1, uninformative=3)
    assert imputed.runs.duration_seconds[-1] == pytest.approx(4000.0)


def test_a_long_bound_counts_for_more_than_hardly_any_progress() -> None:
    imputed = impute(make_completed(), make_unfinished([(3.2e4, 10.0, 0.05), (3.2e4, 9000.0, NAN)]))

    assert imputed.counts == UnfinishedCounts(as_bounds=1, uninformative=1)
    assert imputed.runs.run_ids[-1] == "stopped_1"


def test_the_order_of_unfinished_runs_is_no_matter() -> None:
    alike = make_unfinished([(3.2e4, 2500.0, 0.5), (3.2e4, 2500.0, 0.5)])

    assert dumps(fit(alike.take(np.array([1, 0])))) == dumps(fit(alike))


def test_a_configuration_that_no_run_completed_is_not_called_measured() -> None:
    portfolio = fit(make_unfinished([(3.2e4, 2500.0, 0.5)]))
    loaded = loads(dumps(portfolio))

    for each in (portfolio, loaded):
        support = each.support(make_features([3.2e4, 8e3]))
        assert [row.basis for row in support] == ["interpolated", "measured"]
    assert portfolio.report.n_runs == 4
    assert portfolio.report.n_configurations == 4
    assert portfolio.report.evidence.unfinished == UnfinishedCounts(by_progress=1)
    assert loaded.report.evidence == portfolio.report.evidence
    assert portfolio.report.training_fingerprint != fit(None).report.training_fingerprint


_GRID = [(workers, size) for workers in (1.0, 2.0, 4.0, 8.0) for size in (1e3, 4e3, 16e3, 64e3)]


def _on_grid(rows: list[tuple[float, float]]) -> FeatureTable:
    workers, sizes = np.array(rows).T
    return FeatureTable({"dataset_size": sizes, "workers": workers}, {}, len(rows))


def _counts_on_grid(
    n_completed: int, stopped: list[tuple[float, float]], elapsed: list[float]
) -> UnfinishedCounts:
    """Return what became of stopped runs beside completed ones of ``size / 2 workers`` seconds."""
    known = _GRID[:n_completed]
    noise = np.random.default_rng(0).normal(0, 0.02, len(known))
    seconds = np.array([size / 2 / workers for workers, size in known]) * np.exp(noise)
    runs = RunTable(_on_grid(known), seconds, [str(row) for row in range(len(known))])
    names = [f"stopped_{row}" for row in range(len(stopped))]
    progress = np.full(len(stopped), NAN)
    return impute(
        runs, UnfinishedRuns(_on_grid(stopped), np.array(elapsed), progress, names)
    ).counts


@pytest.mark.parametrize("n_completed", [4, 8, 16])
@pytest.mark.parametrize("place", [(3.0, 8e3), (3.0, 128e3)])
def test_a_run_that_hung_for_months_is_no_bound(
    n_completed: int, place: tuple[float, float]
) -> None:
    assert _counts_on_grid(n_completed, [place], [1e7]) == UnfinishedCounts(uninformative=1)


def test_a_bound_above_what_all_runs_around_it_say_is_refuted() -> None:
    stopped = [(3.0, 8e3), (3.0, 2e3)]

    assert _counts_on_grid(16, stopped, [1e4, 1e4]) == UnfinishedCounts(uninformative=2)
    # Nobody has tried so much data on a worker: its memory may overflow.
    assert _counts_on_grid(16, [(1.0, 128e3)], [4e5]) == UnfinishedCounts(as_bounds=1)


def test_bounds_that_are_too_many_to_be_accidents_are_believed() -> None:
    stopped = [(3.0, 1e3), (3.0, 2e3), (3.0, 8e3), (3.0, 32e3), (5.0, 8e3), (6.0, 2e3)]
    elapsed = [4 * size / 2 / workers for workers, size in stopped]

    assert _counts_on_grid(16, stopped, elapsed) == UnfinishedCounts(as_bounds=6)
