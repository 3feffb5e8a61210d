"""Beliefs about durations against sampling: exact means, quantiles, updates and truncations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.decisions.durations import DurationBeliefs, FloatArray
from app.decisions.progress import remaining
from models import NORMAL_KNOTS, ForecastDistribution

pytestmark = pytest.mark.lengthy

_SHARES = (np.arange(40_000) + 0.5) / 40_000


def make_forecast(seed: int, n: int = 1) -> ForecastDistribution:
    rng = np.random.default_rng(seed)
    below, above = np.cumsum(rng.uniform(0.3, 1.0, (2, n, 5)), axis=2)
    scale = rng.uniform(0.05, 1.0, n)
    return ForecastDistribution(rng.normal(5.0, 2.0, n), scale, ("a",) * n, below, above)


def believe(forecast: ForecastDistribution) -> DurationBeliefs:
    scale = forecast.scale[:, None]
    below, above = scale * forecast.curves, scale * forecast.upper_curves()
    return DurationBeliefs.from_widths(forecast.log_median, below, above, NORMAL_KNOTS)


def samples(beliefs: DurationBeliefs) -> FloatArray:
    return beliefs.take(np.zeros(_SHARES.size)).quantile(_SHARES)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), probability=st.floats(0.001, 0.999))
def test_beliefs_agree_with_the_forecast_they_are_made_of(seed: int, probability: float) -> None:
    forecast = make_forecast(seed, 3)
    beliefs = believe(forecast)

    quantile = beliefs.quantile(probability)

    assert quantile == pytest.approx(forecast.quantile(probability), rel=1e-9)
    assert beliefs.probability_below(quantile) == pytest.approx(probability, abs=1e-9)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), unit=st.floats(-2.0, 4.0))
def test_truncation_is_that_of_the_samples(seed: int, unit: float) -> None:
    forecast = make_forecast(seed)
    beliefs = believe(forecast)
    bound = forecast.median() * np.exp(unit * forecast.scale)
    drawn = samples(beliefs)
    beyond = drawn[drawn > bound]

    later = beliefs.exceeding(bound)

    if beyond.size > 2000:
        assert later.mean() == pytest.approx(beyond.mean(), rel=0.02)
        assert later.quantile(0.9) == pytest.approx(np.quantile(beyond, 0.9), rel=0.02)
    assert later.probability_below(bound).tolist() == [0.0]


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), unit=st.floats(-2.0, 2.0), precision=st.floats(0.1, 100.0))
def test_update_is_bayes_rule(seed: int, unit: float, precision: float) -> None:
    forecast = make_forecast(seed)
    beliefs = believe(forecast)
    seen = forecast.log_median + unit * forecast.scale
    drawn = samples(beliefs)
    weights = np.exp(-0.5 * precision * (np.log(drawn) - seen) ** 2)

    posterior = beliefs.observing(seen, np.array([precision]))

    expected = (weights * drawn).sum() / weights.sum()
    assert posterior.mean() == pytest.approx(expected, rel=0.02)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_heavier_tails_reach_further_on_both_sides_and_change_nothing_between(seed: int) -> None:
    beliefs = believe(make_forecast(seed))
    heavier = beliefs.with_heavier_tails(np.full(len(beliefs), 3.0))

    edges = np.exp(beliefs.highs[:, 0]), np.exp(beliefs.lows[:, -1])
    for seconds in (*edges, np.sqrt(edges[0] * edges[1])):
        assert heavier.probability_below(seconds) == pytest.approx(
            beliefs.probability_below(seconds), abs=1e-9
        )
    far_below, far_above = edges[0] * np.exp(-6.0), edges[1] * np.exp(6.0)
    assert heavier.probability_below(far_below) > beliefs.probability_below(far_below)
    assert heavier.probability_below(far_above) < beliefs.probability_below(far_above)


def test_mean_is_that_of_the_samples() -> None:
    for seed in range(20):
        beliefs = believe(make_forecast(seed))

        assert beliefs.mean() == pytest.approx(samples(beliefs).mean(), rel=0.01)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10_000),
    progress=st.floats(0.0, 0.999),
    ratio=st.floats(1e-6, 1e6),
    confidences=st.tuples(st.floats(0.05, 0.99), st.floats(0.05, 0.99)),
)
def test_remaining_bounds_are_ordered_nested_and_positive_however_far_the_observation(
    seed: int, progress: float, ratio: float, confidences: tuple[float, float]
) -> None:
    forecast = make_forecast(seed)
    elapsed = forecast.median() * ratio
    remaining_jobs = remaining(believe(forecast), np.array([progress]), elapsed)
    narrow, wide = sorted(confidences)

    inner, outer = remaining_jobs.interval(narrow), remaining_jobs.interval(wide)

    assert 0 <= outer[0] <= inner[0] <= remaining_jobs.quantile(0.5) <= inner[1] <= outer[1]
    assert np.isfinite(remaining_jobs.mean()).all()


def test_later_elapsed_time_never_shortens_the_expected_total() -> None:
    forecast = make_forecast(1)
    beliefs = believe(forecast)
    elapsed = forecast.median() * np.linspace(0.01, 5.0, 50)

    totals = [
        float((remaining(beliefs, np.array([np.nan]), np.array([each])).mean() + each)[0])
        for each in elapsed
    ]

    assert totals == sorted(totals)


def test_half_done_job_ends_after_as_long_again() -> None:
    forecast = make_forecast(2)
    elapsed = forecast.median() * 3.0

    remaining_jobs = remaining(believe(forecast), np.array([0.5]), elapsed, 0.05)

    assert remaining_jobs.quantile(0.5) == pytest.approx(elapsed, rel=0.05)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1])
def test_probability_lies_between_its_bounds(probability: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        believe(make_forecast(3)).quantile(probability)
