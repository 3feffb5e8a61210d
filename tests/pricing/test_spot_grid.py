"""Means, costs and upper quantiles of interrupted work agree with simulation on a wide grid."""

from itertools import product

import numpy as np
import pytest

from app.pricing.billing import exact_cost
from app.pricing.spot import (
    MAX_FACTOR,
    SECONDS_PER_HOUR,
    FloatArray,
    Interruptions,
    checkpoints_s,
    completion,
    optimal_checkpoint_interval_s,
    overhead_quantiles,
)
from tests.support.prices import make_offer

_HAZARDS = (0.005, 0.05, 0.3, 1.0, 3.0)
_INTERVALS = (300.0, 1800.0, 7200.0, float("inf"))
_RESTARTS = (0.0, 120.0, 1800.0)
_PROBABILITIES = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
_DRAWS = 60_000
_TOLERANCE = 0.02


def simulate(work_s: float, terms: Interruptions, *, draws: int, seed: int) -> FloatArray:
    """Return wall-clock times, drawn interruption by interruption."""
    generator = np.random.default_rng(seed)
    mean_s = SECONDS_PER_HOUR / terms.per_hour
    totals, done = np.zeros(draws), 0.0
    while done < work_s:
        chunk = min(terms.checkpoint_interval_s, work_s - done)
        done += chunk
        length = chunk + (terms.checkpoint_s if done < work_s else 0.0)
        open_ = np.arange(draws)
        while open_.size:
            until = generator.exponential(mean_s, open_.size)
            failed = until < length
            totals[open_] += np.where(failed, until + terms.restart_s, length)
            open_ = open_[failed]
    return totals


def _finishes(work_s: float, terms: Interruptions) -> bool:
    return bool(completion(np.array([work_s]), terms).expected_s[0] <= MAX_FACTOR * work_s)


@pytest.mark.parametrize("restart_s", _RESTARTS)
@pytest.mark.parametrize("work_s", [1800.0, 5 * 3600.0])
def test_mean_cost_and_upper_quantiles_agree_with_simulation(
    work_s: float, restart_s: float
) -> None:
    offer = make_offer("3.60")
    compared = 0

    for seed, (per_hour, interval_s) in enumerate(product(_HAZARDS, _INTERVALS)):
        terms = Interruptions(per_hour, interval_s, checkpoint_s=20.0, restart_s=restart_s)
        if not _finishes(work_s, terms):
            continue
        drawn = simulate(work_s, terms, draws=_DRAWS, seed=seed)
        expected = float(completion(np.array([work_s]), terms).expected_s[0])
        calm = work_s + checkpoints_s(np.array([work_s]), terms)[0]
        upper = calm + overhead_quantiles(work_s, terms, _PROBABILITIES)

        assert expected == pytest.approx(drawn.mean(), rel=_TOLERANCE)
        assert float(exact_cost(offer, expected)) == pytest.approx(
            drawn.mean() / 1000.0, rel=_TOLERANCE
        )
        # A quantile may stand between being interrupted once more or not: so may the drawn one.
        for probability, told in zip(_PROBABILITIES.tolist(), upper.tolist(), strict=True):
            around = np.quantile(drawn, [probability - 0.004, min(probability + 0.004, 1.0)])
            assert around[0] * (1 - _TOLERANCE) <= told <= around[1] * (1 + _TOLERANCE)
        compared += 1

    assert compared >= 12


@pytest.mark.parametrize("work_s", [7e5, 2e6, 1e7])
@pytest.mark.parametrize(("checkpoint_s", "restart_s"), [(0.0, 0.0), (5.0, 300.0)])
def test_thousands_of_short_losses_add_up(
    work_s: float, checkpoint_s: float, restart_s: float
) -> None:
    terms = Interruptions(5.0, 60.0, checkpoint_s, restart_s)
    moments = completion(np.array([work_s]), terms)
    mean = float((moments.expected_s - work_s - checkpoints_s(np.array([work_s]), terms))[0])
    deviation = float(moments.standard_deviation_s[0])

    lower, median, upper = overhead_quantiles(work_s, terms, np.array([0.05, 0.5, 0.95]))

    # So many are nearly normal.
    assert median == pytest.approx(mean, rel=0.005)
    assert lower == pytest.approx(mean - 1.645 * deviation, abs=0.01 * work_s)
    assert upper == pytest.approx(mean + 1.645 * deviation, abs=0.01 * work_s)


def test_quantiles_rise_with_probability_and_hazard() -> None:
    chances = np.linspace(0.01, 0.999, 60)
    rare, often = (
        overhead_quantiles(7200.0, Interruptions(per_hour=rate), chances) for rate in (0.1, 1.0)
    )

    assert (np.diff(rare) >= 0).all()
    assert (often >= rare).all()
    assert overhead_quantiles(7200.0, Interruptions(per_hour=0.0), chances).tolist() == [0.0] * 60


@pytest.mark.parametrize("per_hour", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("checkpoint_s", [5.0, 60.0])
def test_young_daly_interval_is_within_half_a_percent_of_the_best(
    per_hour: float, checkpoint_s: float
) -> None:
    work = np.array([40 * 3600.0])
    best = optimal_checkpoint_interval_s(Interruptions(per_hour, 1.0, checkpoint_s))

    def expected(interval_s: float) -> float:
        terms = Interruptions(per_hour, interval_s, checkpoint_s, restart_s=300.0)
        return float(completion(work, terms).expected_s[0])

    tried = min(expected(value) for value in np.geomspace(best / 20, best * 20, 400).tolist())
    assert expected(best) <= tried * 1.005


def test_published_extremes() -> None:
    """48.5 h of work ends with a checkpoint every 30 minutes; without any it never does."""
    work_s = 48.5 * 3600.0
    with_checkpoints = Interruptions(per_hour=0.5, checkpoint_interval_s=1800.0)
    without = Interruptions(per_hour=0.5, checkpoint_interval_s=float("inf"))

    assert _finishes(work_s, with_checkpoints)
    drawn = simulate(work_s, with_checkpoints, draws=4000, seed=9)
    told = completion(np.array([work_s]), with_checkpoints).expected_s[0]
    assert told == pytest.approx(drawn.mean(), rel=_TOLERANCE)
    assert not _finishes(work_s, without)
