"""Queues played through: no overlap beyond the capacity, order kept, use counted exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.decisions.capacity import demand, draw_durations, simulate_queue
from app.decisions.progress import remaining
from tests.decisions.test_durations import believe, make_forecast


def test_bounds_of_the_peak_leave_out_as_many_draws_as_the_confidence_says() -> None:
    starts = np.zeros((21, 20))
    ends = np.where(np.arange(20) < np.arange(21)[:, None], 7200.0, 1800.0)

    found = demand(starts, ends, np.ones(20, dtype=np.int64), 2, 0.75)

    assert (found.lower[1], found.upper[1]) == (2.0, 18.0)


@given(seed=st.integers(0, 10_000), n_jobs=st.integers(1, 12), capacity=st.integers(1, 8))
def test_jobs_never_use_more_than_there_is_and_never_overtake(
    seed: int, n_jobs: int, capacity: int
) -> None:
    rng = np.random.default_rng(seed)
    durations = rng.lognormal(0.0, 1.0, (3, n_jobs))
    gpus = rng.integers(1, capacity + 1, n_jobs)

    starts, ends = simulate_queue(durations, gpus, 0, capacity)

    assert (np.diff(starts, axis=1) >= 0).all()
    for draw in range(3):
        for instant in starts[draw]:
            running = (starts[draw] <= instant) & (instant < ends[draw])
            assert gpus[running].sum() <= capacity


def test_job_starts_as_soon_as_enough_is_free() -> None:
    durations = np.array([[10.0, 4.0, 3.0]])

    starts, _ = simulate_queue(durations, np.array([1, 1, 2]), 0, 2)

    assert starts.tolist() == [[0.0, 0.0, 10.0]]


def test_without_a_capacity_all_start_at_once() -> None:
    starts, ends = simulate_queue(np.array([[5.0, 7.0]]), np.array([100, 100]), 0, None)

    assert starts.tolist() == [[0.0, 0.0]]
    assert ends.tolist() == [[5.0, 7.0]]


@given(
    seed=st.integers(0, 10_000),
    n_running=st.integers(0, 6),
    n_queued=st.integers(1, 6),
    capacity=st.integers(1, 8),
)
def test_running_jobs_hold_their_gpus_and_others_wait_until_enough_are_free(
    seed: int, n_running: int, n_queued: int, capacity: int
) -> None:
    rng = np.random.default_rng(seed)
    durations = rng.lognormal(0.0, 1.0, (1, n_running + n_queued))
    gpus = np.append(
        rng.integers(1, 2 * capacity + 1, n_running), rng.integers(1, capacity + 1, n_queued)
    )

    starts, ends = simulate_queue(durations, gpus, n_running, capacity)

    assert (starts[0, :n_running] == 0).all()
    for job in range(n_running, n_running + n_queued):
        before = slice(None, job)
        earlier = starts[0, n_running:job].max(initial=0.0)
        for instant in sorted({earlier, *ends[0, before][ends[0, before] > earlier]}):
            if gpus[job] + gpus[before][ends[0, before] > instant].sum() <= capacity:
                assert starts[0, job] == instant
                break


def test_use_of_an_hour_is_its_mean_and_its_peak() -> None:
    starts, ends = np.array([[0.0, 1800.0]]), np.array([[1800.0, 5400.0]])

    forecast_demand = demand(starts, ends, np.array([4, 2]), 3, 0.9)

    assert forecast_demand.expected.tolist() == pytest.approx([3.0, 1.0, 0.0])
    assert forecast_demand.lower.tolist() == forecast_demand.upper.tolist() == [4.0, 2.0, 0.0]


@given(seed=st.integers(0, 10_000), n_jobs=st.integers(1, 12), capacity=st.integers(1, 8))
def test_peak_is_the_most_that_any_instant_of_the_hour_has(
    seed: int, n_jobs: int, capacity: int
) -> None:
    rng = np.random.default_rng(seed)
    gpus = rng.integers(1, capacity + 1, n_jobs)
    durations = rng.lognormal(7.0, 1.0, (1, n_jobs))
    starts, ends = simulate_queue(durations, gpus, 0, capacity)

    forecast_demand = demand(starts, ends, gpus, 3, 0.9)

    for hour in range(3):
        instants = [3600.0 * hour, *starts[0][(starts[0] // 3600.0) == hour]]
        used = [gpus[(starts[0] <= now) & (now < ends[0])].sum() for now in instants]
        assert forecast_demand.upper[hour] == max(used) <= capacity


def test_draws_have_the_distribution_of_the_beliefs_for_every_seed() -> None:
    forecast = make_forecast(4, 2)
    remaining_jobs = remaining(believe(forecast), np.zeros(2), np.full(2, np.nan))

    sources, noise_shares = np.zeros(2, dtype=np.int64), np.full(2, 0.5)

    first, again, other = (
        draw_durations(remaining_jobs, sources, noise_shares, seed, 101) for seed in (1, 1, 2)
    )

    assert (first == again).all()
    assert (first != other).any()
    assert np.median(first, axis=0) == pytest.approx(forecast.median())
    assert np.sort(first, axis=0) == pytest.approx(np.sort(other, axis=0))


def test_what_a_regressor_does_not_know_makes_all_of_its_jobs_long_or_short_together() -> None:
    jobs = remaining(believe(make_forecast(4, 6)), np.zeros(6), np.full(6, np.nan))
    sources, noise_shares = np.array([0, 0, 0, 1, 1, 1]), np.array([0.0, 0.0, 0.5, 0.0, 0.5, 1.0])

    drawn = draw_durations(jobs, sources, noise_shares, 0, 2000)

    ranks = np.asarray(np.corrcoef(drawn.argsort(axis=0).argsort(axis=0), rowvar=False))
    assert ranks[0, 1] == pytest.approx(1.0)
    assert ranks[0, 2] == pytest.approx(ranks[1, 2])
    assert [ranks[0, 2], ranks[3, 4]] == pytest.approx([0.69, 0.69], abs=0.1)
    assert np.abs(ranks[5, :5]).max() < 0.1
    assert np.abs(ranks[:3, 3:]).max() < 0.1
