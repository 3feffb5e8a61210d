"""Forecasts of interrupted work: the uncertain work and its interruptions combined."""

import numpy as np
import pytest

from app.domain.forecasts import SpotTerms
from app.services.answering.interruptions import interruptions_of, report_of, with_interruptions
from models import ForecastDistribution
from models.distribution import NORMAL_KNOTS
from tests.pricing.test_spot_grid import simulate

pytestmark = pytest.mark.lengthy

_WORK_S = 3 * 3600.0


def make_forecast(*scales: float, work_s: float = _WORK_S) -> ForecastDistribution:
    n = len(scales)
    curves = np.repeat(NORMAL_KNOTS[None, 1:], n, axis=0)
    return ForecastDistribution(
        np.full(n, np.log(work_s)), np.array(scales), ("workers",) * n, curves
    )


@pytest.mark.parametrize("per_hour", [0.05, 0.4, 1.5])
@pytest.mark.parametrize("scale", [0.02, 0.2])
def test_bounds_and_chances_agree_with_simulation(per_hour: float, scale: float) -> None:
    terms = SpotTerms(per_hour, checkpoint_interval_s=900.0, checkpoint_s=10.0, restart_s=240.0)
    forecast, refusals = with_interruptions(make_forecast(scale), {0: (terms, 1)})
    works = _WORK_S * np.exp(scale * np.random.default_rng(1).standard_normal(1500))
    met = interruptions_of(terms, 1)
    drawn = np.concatenate(
        [simulate(work, met, draws=20, seed=seed) for seed, work in enumerate(works.tolist())]
    )

    assert refusals == {}
    for probability in (0.05, 0.5, 0.9, 0.95):
        told = forecast.quantile(probability)[0]
        tolerance = 0.04 if probability < 0.5 else 0.025
        assert told == pytest.approx(np.quantile(drawn, probability), rel=tolerance)
        assert forecast.probability_below(np.array([told]))[0] == pytest.approx(
            probability, abs=1e-3
        )
    assert forecast.median()[0] == forecast.quantile(0.5)[0]
    assert forecast.probability_below(np.array([0.0]))[0] == 0.0
    assert forecast.probability_below(np.array([1.0]))[0] == 0.0


def test_bounds_are_nested_and_other_rows_stay_as_they_are() -> None:
    calm = make_forecast(0.1, 0.1, 0.1)
    forecast, _ = with_interruptions(calm, {1: (SpotTerms(interruptions_per_hour=0.5), 2)})

    for confidence in (0.5, 0.8, 0.9, 0.99):
        lower, upper = forecast.interval(confidence)
        expected = calm.interval(confidence)
        assert lower[[0, 2]].tolist() == expected[0][[0, 2]].tolist()
        assert upper[[0, 2]].tolist() == expected[1][[0, 2]].tolist()
        assert upper[1] > expected[1][1]
    bounds = [forecast.interval(value) for value in np.linspace(0.1, 0.999, 30).tolist()]
    assert (np.diff([upper[1] for _, upper in bounds]) >= 0).all()
    assert (np.diff([lower[1] for lower, _ in bounds]) <= 0).all()


def test_work_that_cannot_end_names_an_interval_that_would_do() -> None:
    terms = SpotTerms(interruptions_per_hour=0.5, checkpoint_interval_s=1e9)

    forecast, refusals = with_interruptions(
        make_forecast(0.1, work_s=48.5 * 3600.0), {0: (terms, 1)}
    )

    assert forecast.rows.size == 0
    assert refusals[0].checkpoint_interval_s is not None
    assert refusals[0].checkpoint_interval_s < 3600.0


@pytest.mark.parametrize("scale", [8.0, 40.0])
def test_work_that_cannot_end_and_is_hardly_known_is_refused(scale: float) -> None:
    terms = SpotTerms(interruptions_per_hour=40.0, checkpoint_interval_s=1e9)

    _, refusals = with_interruptions(make_forecast(0.1, scale), {1: (terms, 1)})

    assert list(refusals) == [1]


def test_report_tells_the_terms_of_the_whole_job() -> None:
    report = report_of(_WORK_S, SpotTerms(interruptions_per_hour=0.1), 4)
    calm = report_of(_WORK_S, SpotTerms(interruptions_per_hour=0.0), 4)

    assert report.interruptions_per_hour == pytest.approx(0.4)
    assert 0.4 * 3 < report.expected_interruptions < 0.4 * report.expected_seconds / 3600
    assert report.expected_seconds > _WORK_S
    assert report.optimal_checkpoint_interval_s is not None
    assert calm.optimal_checkpoint_interval_s is None
    assert calm.expected_interruptions == 0.0
