"""The closed forms of interrupted work agree with simulation and behave at their limits."""

from dataclasses import replace

import numpy as np
import pytest

from app.pricing.spot import (
    MAX_FACTOR,
    Interruptions,
    completion,
    optimal_checkpoint_interval_s,
)


def _simulate(work_s: float, terms: Interruptions, *, draws: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    mean_s = 3600.0 / terms.per_hour
    totals = np.zeros(draws)
    done = 0.0
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


@pytest.mark.parametrize("per_hour", [0.02, 0.2, 1.0])
@pytest.mark.parametrize("interval_s", [600.0, 3600.0])
def test_mean_and_deviation_agree_with_simulation(per_hour: float, interval_s: float) -> None:
    terms = Interruptions(per_hour, interval_s, checkpoint_s=20.0, restart_s=240.0)

    moments = completion(np.array([5 * 3600.0]), terms)
    simulated = _simulate(5 * 3600.0, terms, draws=40_000, seed=1)

    assert moments.expected_s[0] == pytest.approx(simulated.mean(), rel=0.02)
    assert moments.standard_deviation_s[0] == pytest.approx(simulated.std(), rel=0.05)


def test_without_interruptions_only_checkpoints_are_added() -> None:
    terms = Interruptions(per_hour=0.0, checkpoint_interval_s=1000.0, checkpoint_s=10.0)

    moments = completion(np.array([500.0, 1000.0, 2500.0]), terms)

    assert moments.expected_s.tolist() == [500.0, 1000.0, 2520.0]
    assert moments.interruptions.tolist() == [0.0, 0.0, 0.0]


def test_long_work_ends_with_checkpoints_and_never_without() -> None:
    work = np.array([48.5 * 3600.0])
    terms = Interruptions(per_hour=0.5, checkpoint_interval_s=1800.0, checkpoint_s=30.0)

    with_checkpoints = completion(work, terms).expected_s / work
    without = completion(work, replace(terms, checkpoint_interval_s=float("inf"))).expected_s / work

    assert with_checkpoints[0] < 1.5
    assert without[0] > MAX_FACTOR


def test_optimal_interval_beats_its_neighbours() -> None:
    terms = Interruptions(per_hour=0.4, checkpoint_s=45.0)
    best = optimal_checkpoint_interval_s(terms)
    work = np.array([200 * 3600.0])

    def expected(interval_s: float) -> float:
        changed = replace(terms, checkpoint_interval_s=interval_s)
        return float(completion(work, changed).expected_s[0])

    assert expected(best) <= min(expected(best / 2), expected(best * 2))


def test_optimal_interval_at_its_limits() -> None:
    assert optimal_checkpoint_interval_s(Interruptions(per_hour=0.0)) == float("inf")
    assert optimal_checkpoint_interval_s(Interruptions(per_hour=3600.0, checkpoint_s=9.0)) == 1.0


def test_hopeless_capacity_has_a_finite_and_immense_duration() -> None:
    moments = completion(np.array([1e6]), Interruptions(per_hour=3600.0, checkpoint_s=600.0))

    assert np.isfinite(moments.standard_deviation_s).all()
    assert moments.expected_s[0] / 1e6 > MAX_FACTOR
