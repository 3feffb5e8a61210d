"""Allocations against brute force, their bounds, and what happens when time or GPUs run out."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.decisions import allocation_bounds, allocation_program
from app.decisions.allocation import (
    NOTHING,
    Options,
    Solution,
    allocate_first_fit,
    allocate_one_kind,
    undominated,
)
from app.decisions.allocation_bounds import bracket
from app.decisions.allocation_program import allocate, allocate_kinds, place_most
from app.decisions.makespan import allocate_makespan
from tests.support.allocations import (
    LIMIT_S,
    assert_least_of_all,
    assert_most_weight_first,
    every_choice,
    fits,
    instance,
    large,
    make_options,
    total,
)


@pytest.mark.lengthy
@pytest.mark.parametrize("n_kinds", [1, 2])
@pytest.mark.parametrize("part", range(4))
def test_least_sum_equals_brute_force(n_kinds: int, part: int) -> None:
    assert_least_of_all(allocate, total, n_kinds, range(50 * part, 50 * (part + 1)), rel=1e-9)


@pytest.mark.lengthy
def test_least_sum_over_many_types_equals_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation_bounds, "_MANY_HEADS", 0)
    monkeypatch.setattr(allocation_bounds, "_ADDED_A_JOB", 1)

    assert_most_weight_first(allocate, total, 3, range(100), rel=1e-9)


@pytest.mark.parametrize("n_kinds", [1, 2])
def test_most_weight_is_placed_first_then_the_value_decides(n_kinds: int) -> None:
    assert_most_weight_first(allocate, total, n_kinds, range(60), rel=1e-6)


@settings(max_examples=50)
@given(seed=st.integers(0, 10_000))
def test_kinds_of_one_agree_with_dynamic_programming(seed: int) -> None:
    options, n_jobs, capacity, weights = instance(seed, 1)

    program = allocate_kinds(options, n_jobs, capacity, weights, time_limit_s=LIMIT_S)
    dynamic = allocate_one_kind(options, n_jobs, int(capacity[0]), weights)

    assert program is not None
    assert dynamic is not None
    assert total(options, program.choice) == pytest.approx(total(options, dynamic.choice))


def test_a_light_job_is_placed_where_there_is_room() -> None:
    options = Options(
        np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([6, 6, 1]), np.array([1.0, 1.0, 9.0])
    )
    weights = np.array([1e3, 1e3, 1e-3])

    allocation = allocate(options, 3, np.array([8, 8]), weights, time_limit_s=LIMIT_S)

    assert allocation is not None
    assert allocation.choice[2] == 2
    assert (allocation.choice[:2] == NOTHING).sum() == 1


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 2.0])
def test_ruling_out_options_changes_no_allocation(share: float) -> None:
    rng = np.random.default_rng(int(100 * share))
    n_jobs, counts = 40, np.array([1, 2, 3, 4, 6, 8, 12, 16])
    job, gpus = np.repeat(np.arange(n_jobs), 8), np.tile(counts, n_jobs)
    # Steps of equal sizes make ties, others none.
    value = np.round(rng.uniform(1, 20, n_jobs))[job] * 100 / gpus**0.8
    value[: 8 * 20] = np.round(value[: 8 * 20])
    options = Options(job, np.zeros(job.size, dtype=np.int64), gpus, value)
    capacity = n_jobs + int(share * 4 * n_jobs)

    allocation = allocate_one_kind(options, n_jobs, capacity)
    program = allocate_kinds(options, n_jobs, np.array([capacity]), time_limit_s=LIMIT_S)

    assert allocation is not None
    assert program is not None
    assert gpus[allocation.choice].sum() <= capacity
    assert allocation.choice.tolist() == sorted(allocation.choice.tolist())
    assert total(options, allocation.choice) == pytest.approx(
        total(options, program.choice), rel=1e-9
    )


def test_dominated_options_are_dropped_and_no_other() -> None:
    for seed in range(100):
        options = make_options(np.random.default_rng(seed), 4, 2)

        kept = set(undominated(options).tolist())

        for row in range(len(options.job)):
            rivals = [
                other
                for other in range(len(options.job))
                if other != row
                and (options.job[other], options.kind[other])
                == (options.job[row], options.kind[row])
                and options.gpus[other] <= options.gpus[row]
                and options.value[other] <= options.value[row]
            ]
            assert (row in kept) == (not rivals)


def test_program_that_runs_out_of_time_states_its_gap() -> None:
    options, capacity = large(60, 3)

    solution = allocate(options, 60, capacity, time_limit_s=0.3)

    assert solution is not None
    assert fits(options, solution, capacity)
    assert (solution.choice != NOTHING).all()
    assert solution.is_exact == (solution.gap == 0.0)


def test_without_any_time_prices_still_give_an_allocation_and_a_bound() -> None:
    options, capacity = large(60, 3)

    solution = allocate(options, 60, capacity, time_limit_s=1e-9)

    assert solution is not None
    assert fits(options, solution, capacity)
    assert solution.is_exact == (solution.gap == 0.0)
    assert solution.gap is not None
    assert solution.gap < 0.05


def test_without_any_time_jobs_that_may_be_left_out_are_placed_where_they_fit() -> None:
    options, capacity = large(60, 3)

    solution = allocate(options, 60, capacity, np.ones(60), time_limit_s=1e-9)

    assert solution is not None
    assert fits(options, solution, capacity)
    assert (solution.choice != NOTHING).all()
    assert solution.gap is not None
    assert solution.gap < 0.05


def test_no_more_than_all_jobs_can_be_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation_program, "_MOST_COLUMNS", 0)  # as if nothing were solved in time
    options, capacity = large(60, 3)

    choice, is_most = place_most(options, 60, capacity, np.ones(60), 1.0)
    assert is_most
    assert (choice != NOTHING).all()

    choice, is_most = place_most(options, 60, capacity // 20, np.ones(60), 1.0)
    assert not is_most
    assert (choice == NOTHING).any()


def test_forty_types_get_an_allocation_and_a_bound() -> None:
    options, capacity = large(300, 40)

    solution = allocate(options, 300, capacity, time_limit_s=1e-9)

    assert solution is not None
    assert fits(options, solution, capacity)
    assert (solution.choice != NOTHING).all()
    assert solution.gap is not None
    assert solution.gap < 0.05


def test_bounds_hold_and_rule_out_no_better_allocation() -> None:
    for seed in range(60):
        options, n_jobs, capacity, _ = instance(seed, 2)
        options = options.take(undominated(options))
        fitting = every_choice(options, n_jobs, capacity, may_leave_out=False)
        if not fitting:
            continue
        best = min(fitting, key=lambda choice: total(options, choice))

        allocation = bracket(options, capacity)

        assert allocation.lower <= total(options, best) * (1 + 1e-9)
        assert allocation.upper >= total(options, best) * (1 - 1e-9)
        if total(options, best) < allocation.upper * (1 - 1e-9):
            assert set(best.tolist()) <= set(allocation.better_than(allocation.upper).tolist())


def test_bounds_without_an_allocation_name_none() -> None:
    n_without = 0
    for seed in range(25):
        options, n_jobs, capacity, _ = instance(seed, 2)
        options = options.take(undominated(options))
        fitting = every_choice(options, n_jobs, capacity, may_leave_out=False)
        bounds = bracket(options, capacity)
        if bounds.choice is not None:
            assert any(np.array_equal(bounds.choice, choice) for choice in fitting)
        else:
            n_without += bool(fitting)
            assert bounds.upper == np.inf
    assert n_without  # the program finds what rounding to the prices did not


def test_what_the_program_proves_has_no_gap_and_places_most_in_a_shortage() -> None:
    n_short = 0
    for seed in range(60):
        options, n_jobs, capacity, weights = instance(seed, 2)
        solution = allocate(options, n_jobs, capacity, time_limit_s=LIMIT_S)
        if solution is not None:
            assert solution.is_exact
            assert solution.gap == 0.0
            continue
        n_short += 1
        assert place_most(options, n_jobs, capacity, weights, LIMIT_S)[1]
    assert n_short


def test_free_options_are_allocated_where_they_fit() -> None:
    options = Options(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.full(4, 2), np.zeros(4))
    capacity = np.array([2, 2])

    solution = allocate(options, 2, capacity, time_limit_s=LIMIT_S)

    assert solution is not None
    assert fits(options, solution, capacity)
    assert (solution.choice != NOTHING).all()
    assert solution.gap == 0.0


def test_first_fit_leaves_out_the_least_weight_per_gpu() -> None:
    options = Options(np.array([0, 1]), np.array([0, 0]), np.array([2, 3]), np.array([5.0, 4.0]))
    capacity = np.array([3, 1])

    lighter = allocate_first_fit(options, 2, capacity, np.array([1.0, 1.4]))
    heavier = allocate_first_fit(options, 2, capacity, np.array([1.0, 1.6]))
    refused = allocate_first_fit(options, 2, capacity)

    assert lighter is not None
    assert lighter.choice.tolist() == [0, NOTHING]
    assert heavier is not None
    assert heavier.choice.tolist() == [NOTHING, 1]
    assert refused is None


def test_no_option_that_fits_is_no_allocation_unless_jobs_may_be_left_out() -> None:
    options = Options(np.array([0]), np.array([0]), np.array([9]), np.array([5.0]))
    capacity = np.array([3, 1])

    must = allocate_kinds(options, 1, capacity, time_limit_s=LIMIT_S)
    may = allocate_kinds(options, 1, capacity, np.ones(1), time_limit_s=LIMIT_S)
    shortest = allocate_makespan(options, 1, capacity, time_limit_s=LIMIT_S)

    assert must is None
    assert may is not None
    assert may.choice.tolist() == [NOTHING]
    assert shortest is None


@pytest.mark.parametrize("n_kinds", [1, 2])
@pytest.mark.parametrize("solve", [allocate, allocate_makespan])
@pytest.mark.parametrize("n_jobs", [0, 2])
def test_without_any_option_every_job_that_may_be_is_left_out(
    n_kinds: int, solve: Callable[..., Solution | None], n_jobs: int
) -> None:
    none = np.empty(0, dtype=np.int64)
    options = Options(none, none, none, np.empty(0))
    capacity = np.full(n_kinds, 4)

    allocation = solve(options, n_jobs, capacity, np.ones(n_jobs), time_limit_s=LIMIT_S)

    assert allocation is not None
    assert allocation.choice.tolist() == [NOTHING] * n_jobs
    assert (allocation.is_exact, allocation.gap) == (True, 0.0)


def scarce(rng: np.random.Generator, gpus: int, size: float) -> Options:
    """Return options of two jobs, of which the first needs all GPUs of the first kind."""
    job, kind = np.array([0, 1, 1, 1, 1, 1]), np.array([0, 0, 0, 0, 0, 1])
    counts = np.array([gpus, 1, 2, 3, 4, 1])
    return Options(job, kind, counts, -size * rng.uniform(0.0, 1.0, 6) * counts)


@pytest.mark.lengthy
@pytest.mark.parametrize("gpus", [4, 64, 8192])
@pytest.mark.parametrize("size", [1e-9, 1e-7, 1e-5, 1e-3, 1e3])
def test_values_of_any_size_keep_the_least_sum(gpus: int, size: float) -> None:
    for seed in range(20):
        options, capacity = scarce(np.random.default_rng(seed), gpus, size), np.array([gpus, 1])
        fitting = every_choice(options, 2, capacity, may_leave_out=False)

        allocation = allocate(options, 2, capacity, time_limit_s=LIMIT_S)
        bounds = bracket(options, capacity)

        best = min(total(options, choice) for choice in fitting)
        assert allocation is not None
        assert total(options, allocation.choice) == pytest.approx(best, rel=1e-6)
        assert bounds.lower <= best <= bounds.upper
        assert bounds.choice is not None
        assert set(bounds.choice.tolist()) <= set(bounds.better_than(bounds.upper).tolist())


@pytest.mark.parametrize("gpus", [8, 64, 8192])
def test_values_in_proportion_to_the_gpus_keep_the_least_sum(gpus: int) -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        counts = np.array([1, *rng.integers(1, gpus, 3)] * 3)
        job = np.repeat(np.arange(3), 4)
        value = -rng.uniform(0.0, 1e-3) * counts
        options = Options(job, np.zeros(12, dtype=np.int64), counts, value)
        fitting = every_choice(options, 3, np.array([gpus]), may_leave_out=False)

        allocation = allocate_one_kind(options, 3, gpus)

        best = min(total(options, choice) for choice in fitting)
        assert allocation is not None
        assert total(options, allocation.choice) == pytest.approx(best, rel=1e-9)
