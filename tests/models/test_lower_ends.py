"""Questions below the range of an axis: half answered as those inside it are."""

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
    joint_forecast,
    loads,
)
from tests.models.workloads import fit, grid, make_features, make_runs

SIZES = (1000.0, 2000.0, 4000.0)


@pytest.fixture(scope="module")
def portfolio() -> FittedPortfolio:
    return fit(make_runs(grid((1, 2, 4, 8), SIZES)))


def asked(*sizes: float) -> FeatureTable:
    return make_features(
        [
            {"workers": 4.0, "dataset_size": size, "epochs": 2.0, "gpu_type": "V100"}
            for size in sizes
        ]
    )


def weights(portfolio: FittedPortfolio, size: float) -> FloatArray:
    return portfolio.answering[portfolio.ask(asked(size)).answering[0]].weights


def test_half_of_the_weights_below_an_axis_are_those_inside(portfolio: FittedPortfolio) -> None:
    inside, above, below = (weights(portfolio, size) for size in (2000.0, 9000.0, 200.0))

    assert not np.allclose(inside, above)
    np.testing.assert_allclose(below, (inside + above) / 2)
    assert portfolio.predict(asked(200.0)).regimes == ("dataset_size",)


def test_rows_of_both_sides_are_answered_as_they_are_alone(portfolio: FittedPortfolio) -> None:
    sizes = (200.0, 2000.0, 9000.0, 300.0)

    together = portfolio.predict(asked(*sizes))

    alone = [portfolio.predict(asked(size)) for size in sizes]
    np.testing.assert_allclose(together.median(), [each.median()[0] for each in alone])
    np.testing.assert_allclose(together.scale, [each.scale[0] for each in alone])


def test_few_configurations_answer_both_sides_alike() -> None:
    few = fit(make_runs(grid((1, 4), SIZES, ("V100",))))

    np.testing.assert_array_equal(weights(few, 200.0), weights(few, 9000.0))


def test_loaded_artefacts_lessons_and_joint_forecasts_know_the_lower_end(
    portfolio: FittedPortfolio,
) -> None:
    question = asked(200.0, 9000.0)

    loaded = loads(dumps(portfolio))

    np.testing.assert_array_equal(
        loaded.predict(question).median(), portfolio.predict(question).median()
    )
    assert all(portfolio.taught_by(question))
    joints = joint_forecast(portfolio, asked(2000.0), question)
    assert [joint.targets.tolist() for joint in joints] == [[0], [1]]


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
