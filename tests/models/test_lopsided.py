"""What may take longer than any trend says: below the batches, above the workers."""

import numpy as np
import pytest

from models import (
    NORMAL_KNOTS,
    FeatureTable,
    FittedPortfolio,
    FloatArray,
    ForecastDistribution,
    RunTable,
    dumps,
    loads,
)
from tests.models.workloads import fit, grid, make_features, make_runs


def in_batches(*pairs: tuple[float, float]) -> FeatureTable:
    return make_features(
        [
            {"workers": workers, "dataset_size": 4000.0, "epochs": 2.0, "batch_size": batch}
            for batch, workers in pairs
        ]
    )


@pytest.fixture(scope="module")
def batched() -> FittedPortfolio:
    """Batches so large that what a step costs at least does not show."""
    rows = [(batch, workers) for batch in (512.0, 1024.0, 2048.0, 4096.0) for workers in (1, 2, 4)]
    features = in_batches(*rows)
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal(len(rows))
    seconds = np.array([8000 * 0.01 / workers for _, workers in rows]) * noise
    return fit(RunTable(features, seconds, [f"run_{index}" for index in range(len(rows))]))


def _sides(portfolio: FittedPortfolio, *pairs: tuple[float, float]) -> tuple[FloatArray, ...]:
    forecast = portfolio.predict(in_batches(*pairs))
    lower, upper = forecast.interval(0.9)
    median = forecast.median()
    return np.log(median / lower), np.log(upper / median)


def test_intervals_below_the_batches_reach_further_up_than_down(batched: FittedPortfolio) -> None:
    below, above = _sides(batched, (2048.0, 2), (8192.0, 1), (64.0, 1), (8.0, 1))

    np.testing.assert_allclose(below[:2], above[:2])
    assert (above[2:] > 1.5 * below[2:]).all()
    assert above[3] > above[2] > 1.645 * 0.4 * np.log(128 / 64)


def test_more_workers_make_the_batch_of_each_small(batched: FittedPortfolio) -> None:
    (below, wide_below), (above, wide_above) = _sides(batched, (1024.0, 4), (1024.0, 64))

    assert above == pytest.approx(below)
    assert wide_above > 1.2 * wide_below


def test_batches_below_all_reason_have_bounds(batched: FittedPortfolio) -> None:
    lower, upper = batched.predict(in_batches((1e-300, 1))).interval(0.99)

    assert 0 < lower[0] < upper[0] < np.inf


def test_sides_agree_in_all_that_a_distribution_tells() -> None:
    curves = NORMAL_KNOTS[None, 1:]
    forecast = ForecastDistribution(
        np.log([100.0]), np.array([0.1]), ("batch_size",), curves, 3 * curves
    )
    lower, upper = forecast.interval(0.9)

    assert np.log(upper / 100) == pytest.approx(3 * np.log(100 / lower))
    np.testing.assert_allclose(forecast.quantile(0.95), upper)
    np.testing.assert_allclose(forecast.quantile(0.05), lower)
    assert forecast.probability_below(upper) == pytest.approx(0.95)
    assert forecast.probability_below(lower) == pytest.approx(0.05)
    assert 0.07 < forecast.typical_error()[0] < 0.22


@pytest.fixture(scope="module")
def scaled() -> FittedPortfolio:
    return fit(make_runs(grid((1, 2, 4, 8), (1000.0, 2000.0, 4000.0))))


def on_workers(*counts: float) -> FeatureTable:
    return make_features(
        [
            {"workers": count, "dataset_size": 2000.0, "epochs": 2.0, "gpu_type": "V100"}
            for count in counts
        ]
    )


def _reach(portfolio: FittedPortfolio, question: FeatureTable) -> tuple[FloatArray, FloatArray]:
    forecast = portfolio.predict(question)
    lower, upper = forecast.interval(0.9)
    median = forecast.median()
    return np.log(median / lower), np.log(upper / median)


def test_intervals_above_the_workers_reach_further_up_than_down(scaled: FittedPortfolio) -> None:
    below, above = _reach(scaled, on_workers(8, 1, 0.5, 16, 64))

    np.testing.assert_allclose(below[:3], above[:3])
    assert (above[3:] > 1.1 * below[3:]).all()
    assert above[4] > above[3] > 1.645 * 0.1 * np.log(16 / 8)


def test_a_little_beyond_the_workers_changes_little(scaled: FittedPortfolio) -> None:
    (below, _), (above, _) = _reach(scaled, on_workers(8.2, 8))

    assert above == pytest.approx(below, rel=0.01)


def test_rows_beside_such_ones_are_answered_as_they_are_alone(scaled: FittedPortfolio) -> None:
    counts = (32.0, 2.0, 0.25, 8.0)

    together = scaled.predict(on_workers(*counts)).interval(0.9)

    alone = [scaled.predict(on_workers(count)).interval(0.9) for count in counts]
    for bound, each in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(bound, np.concatenate(each))


def test_few_configurations_and_loaded_artefacts_reach_further_up_as_well() -> None:
    few = fit(make_runs(grid((1, 4), (1000.0, 2000.0), ("V100",))))
    question = on_workers(16)

    (below,), (above,) = _reach(few, question)

    assert above > 1.1 * below
    loaded = loads(dumps(few)).predict(question)
    np.testing.assert_array_equal(loaded.interval(0.9), few.predict(question).interval(0.9))
