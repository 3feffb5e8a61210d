"""Runs that differ by seconds: short ones are forecast less surely than long ones."""

from dataclasses import replace

import numpy as np
import pytest

from models import (
    FeatureTable,
    FittedPortfolio,
    RunTable,
    dumps,
    fit_portfolio,
    joint_forecast,
    loads,
)
from models.runs.configurations import collapse
from models.runs.jitter import Jitter, find_jitter
from models.runs.outliers import find_outliers

N = 60
NOISE, JITTER_SECONDS = 0.02, 3.0
SHORT_AND_LONG = FeatureTable({"dataset_size": np.array([10.0, 1000.0])}, {}, 2)


def make_runs(jitter_seconds: float, n_repetitions: int = 2, unit: float = 1.0) -> RunTable:
    """Runs of 10 to 1,000 seconds, each several times."""
    rng = np.random.default_rng(0)
    size = np.tile(np.geomspace(10, 1000, N), n_repetitions)
    seconds = size * np.exp(NOISE * rng.normal(size=len(size)))
    seconds += jitter_seconds * rng.exponential(size=len(size))
    names = [f"run_{row:03}" for row in range(len(size))]
    return RunTable(FeatureTable({"dataset_size": size}, {}, len(size)), unit * seconds, names)


@pytest.fixture(scope="module")
def portfolio() -> FittedPortfolio:
    return fit_portfolio(make_runs(JITTER_SECONDS), seed=0, time_budget_s=60)


def test_portfolio_tells_the_noise_of_short_and_long_runs(portfolio: FittedPortfolio) -> None:
    short, long = portfolio.noise_factors(np.log([10.0, 1000.0]))

    assert portfolio.report.noise_floor is not None
    assert 0.1 < short**0.5 * portfolio.report.noise_floor < 0.5
    assert 0.01 < long**0.5 * portfolio.report.noise_floor < 0.04


def test_seconds_of_jitter_are_found() -> None:
    measured = collapse(make_runs(JITTER_SECONDS))

    assert measured.jitter is not None
    assert 1.5 < np.exp(measured.jitter.log_seconds) < 4.5
    assert measured.jitter.relative_variance**0.5 == pytest.approx(NOISE, rel=0.6)
    noise = measured.noise_variances[np.argsort(measured.log_duration)] ** 0.5
    assert noise[0] > 0.1
    assert noise[-1] < 0.03


@pytest.mark.parametrize("n_repetitions", [1, 2, 3])
def test_noise_that_is_a_share_of_the_duration_is_no_jitter(n_repetitions: int) -> None:
    measured = collapse(make_runs(0.0, n_repetitions))

    assert measured.jitter is None
    assert (measured.noise_variances == measured.noise_variance).all()


@pytest.mark.parametrize("row", [0, 1, 30])
def test_one_straggler_is_no_jitter(row: int) -> None:
    runs = make_runs(0.0)
    runs.duration_seconds[row] *= 8

    assert collapse(runs).jitter is None


def share_found(n_configurations: int, jitter_seconds: float) -> float:
    """Of 200 draws of pairs of repetitions, the share in which jitter is found."""
    rng = np.random.default_rng(1)
    shape = n_configurations, 2
    found = 0
    for _ in range(200):
        size = np.exp(rng.uniform(np.log(10), np.log(1000), n_configurations))
        seconds = size[:, None] * np.exp(NOISE * rng.normal(size=shape))
        logs = np.log(seconds + jitter_seconds * rng.exponential(size=shape))
        mean, variance = logs.mean(axis=1), logs.var(axis=1, ddof=1)
        found += find_jitter(mean, variance, np.ones(n_configurations)) is not None
    return found / 200


@pytest.mark.parametrize("n_configurations", [8, 12, 40])
def test_hardly_any_noise_is_taken_for_jitter(n_configurations: int) -> None:
    assert share_found(n_configurations, 0.0) <= 0.02


@pytest.mark.parametrize(("n_configurations", "share"), [(8, 0.2), (16, 0.6), (40, 0.9)])
def test_more_configurations_show_jitter_more_often(n_configurations: int, share: float) -> None:
    assert share_found(n_configurations, JITTER_SECONDS) > share


def test_a_second_of_jitter_shows_in_half_of_the_workloads_with_forty_configurations() -> None:
    assert share_found(40, 1.0) > 0.5


def test_long_runs_are_forecast_more_surely_than_short_ones(portfolio: FittedPortfolio) -> None:
    lower, upper = portfolio.predict(SHORT_AND_LONG).interval(0.9)
    short, long = np.log(upper / lower)
    assert short > 2.5 * long
    assert long < 0.25


def test_without_jitter_they_are_forecast_alike() -> None:
    portfolio = fit_portfolio(make_runs(0.0), seed=0, time_budget_s=60)

    lower, upper = portfolio.predict(SHORT_AND_LONG).interval(0.9)
    short, long = np.log(upper / lower)
    assert portfolio.jitter is None
    assert short == pytest.approx(long, rel=0.2)


def test_artefact_keeps_it(portfolio: FittedPortfolio) -> None:
    restored = loads(dumps(portfolio))

    assert restored.jitter is not None
    assert restored.jitter == portfolio.jitter
    found, expected = (each.predict(SHORT_AND_LONG).scale for each in (restored, portfolio))
    assert found.tolist() == expected.tolist()


def test_unit_of_durations_is_no_matter() -> None:
    seconds, milliseconds = (collapse(make_runs(JITTER_SECONDS, unit=unit)) for unit in (1, 1000))

    assert seconds.jitter is not None
    assert milliseconds.jitter is not None
    assert milliseconds.jitter.relative_variance == seconds.jitter.relative_variance
    assert milliseconds.spreads.tolist() == seconds.spreads.tolist()


def test_short_runs_that_differ_by_their_jitter_are_no_outliers() -> None:
    runs = make_runs(JITTER_SECONDS, 3)
    measured = collapse(runs)

    assert measured.jitter is not None
    blind = find_outliers(runs, replace(measured, jitter=None))
    assert len(find_outliers(runs, measured)) < len(blind)


def test_measuring_short_runs_again_leaves_more_open(portfolio: FittedPortfolio) -> None:
    (joint,) = joint_forecast(portfolio, SHORT_AND_LONG, SHORT_AND_LONG)

    short, long = joint.noise[:2]
    assert short > 4 * long


def test_variance_keeps_what_is_no_noise() -> None:
    jitter = Jitter(relative_variance=0.01, log_seconds=0.0, usual_variance=0.05)
    log_duration = np.log([0.5, 100.0])

    variance = jitter.with_noise(np.array([0.15, 0.15]), log_duration)

    assert variance == pytest.approx([0.11 + np.log(5), 0.11 + 1e-4], rel=1e-3)
    # Less than the usual noise cannot hold all of it.
    assert jitter.with_noise(np.array([0.02]), log_duration[1:]) == pytest.approx(
        0.02 * 0.202, rel=1e-3
    )
