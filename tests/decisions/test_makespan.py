"""Allocations with the least largest value against brute force, and their bounds."""

import itertools
from collections.abc import Callable

import pytest

from app.decisions import makespan
from app.decisions.allocation import Solution
from app.decisions.allocation_program import NotSolvedError, allocate_kinds
from app.decisions.makespan import allocate_makespan
from tests.support.allocations import (
    LIMIT_S,
    assert_least_of_all,
    assert_most_weight_first,
    every_choice,
    fits,
    instance,
    large,
    largest,
)


@pytest.mark.lengthy
@pytest.mark.parametrize("n_kinds", [1, 2])
@pytest.mark.parametrize("part", range(4))
def test_least_largest_value_equals_brute_force(n_kinds: int, part: int) -> None:
    seeds = range(50 * part, 50 * (part + 1))

    assert_least_of_all(allocate_makespan, largest, n_kinds, seeds, rel=1e-12)


@pytest.mark.parametrize("n_kinds", [1, 2])
def test_most_weight_is_placed_first_then_the_largest_value_decides(n_kinds: int) -> None:
    assert_most_weight_first(allocate_makespan, largest, n_kinds, range(40), rel=1e-9)


def test_without_any_time_the_largest_value_has_a_bound() -> None:
    options, capacity = large(60, 3)

    solution = allocate_makespan(options, 60, capacity, time_limit_s=1e-9)
    solved = allocate_makespan(options, 60, capacity, time_limit_s=LIMIT_S)

    assert solution is not None
    assert solved is not None
    assert fits(options, solution, capacity)
    assert solution.gap is not None
    bound = largest(options, solution.choice) * (1.0 - solution.gap)
    assert 0.5 * largest(options, solved.choice) < bound <= largest(options, solved.choice)


def test_a_level_that_was_not_solved_in_time_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(40):
        options, n_jobs, capacity, _ = instance(seed, 2)
        fitting = every_choice(options, n_jobs, capacity, may_leave_out=False)
        if not fitting:
            continue
        monkeypatch.setattr(makespan, "allocate_kinds", only_once(allocate_kinds))

        allocation = allocate_makespan(options, n_jobs, capacity, time_limit_s=LIMIT_S)

        best = min(largest(options, choice) for choice in fitting)
        assert allocation is not None
        assert allocation.gap is not None
        assert largest(options, allocation.choice) * (1.0 - allocation.gap) <= best * (1 + 1e-12)
        if allocation.is_exact:
            assert largest(options, allocation.choice) == pytest.approx(best, rel=1e-12)


def only_once(function: Callable[..., Solution | None]) -> Callable[..., Solution | None]:
    """Return a function that runs out of time from its second call on."""
    calls = itertools.count()

    def call(*args: object, **kwargs: object) -> Solution | None:
        if next(calls):
            raise NotSolvedError
        return function(*args, **kwargs)

    return call
