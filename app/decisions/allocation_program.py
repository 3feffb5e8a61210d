"""Allocations over several kinds of GPU: a mixed-integer program for HiGHS, with its gap."""

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.decisions.allocation import (
    NOTHING,
    IntArray,
    Options,
    Solution,
    allocate_first_fit,
    allocate_one_kind,
    undominated,
)
from app.decisions.allocation_bounds import bracket
from app.decisions.durations import FloatArray

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

_INFEASIBLE: Final = 2
"""HiGHS's status of a program without a solution."""

_LARGEST_COST: Final = 1e4
_ROUNDING: Final = 1e-6
_WEIGHT_TOLERANCE: Final = 1e-5
"""In units of the lightest job's weight: ten times the tolerance of HiGHS."""

_MIN_TIME_LIMIT_S: Final = 1e-3


class NotSolvedError(Exception):
    """The time limit passed before any allocation was found."""


def allocate(
    options: Options,
    n_jobs: int,
    capacity: IntArray,
    weights: FloatArray | None = None,
    *,
    time_limit_s: float,
) -> Solution | None:
    """Return the options with the least sum of values, for one or several kinds of GPU.

    Where several kinds cannot be solved in time, jobs are placed first-fit and each kind is then
    allocated exactly (heuristic); None where that does not place all required jobs either.
    """
    if len(capacity) == 1:
        return allocate_one_kind(options, n_jobs, int(capacity[0]), weights)
    try:
        return allocate_kinds(options, n_jobs, capacity, weights, time_limit_s=time_limit_s)
    except NotSolvedError:
        return allocate_first_fit(options, n_jobs, capacity, must_place_all=weights is None)


def allocate_kinds(
    options: Options,
    n_jobs: int,
    capacity: IntArray,
    weights: FloatArray | None = None,
    *,
    time_limit_s: float,
) -> Solution | None:
    """Return the options with the least sum of values over several kinds of GPU.

    With a binary x for each option, minimise ``value . x`` subject to at most one option per job
    (exactly one without `weights`) and ``gpus . x <= capacity`` of each kind, by branch and cut.

    Parameters
    ----------
    options
        The options.
    n_jobs
        The number of jobs.
    capacity
        GPUs of each kind, shape (n_kinds,).
    weights
        Weights of jobs that may be left out, positive, shape (n_jobs,): a first program finds the
        most weight that fits, which the second must place. None: every job must get an option.
    time_limit_s
        Seconds after which the best solution so far is taken, with its gap to the bound.

    Returns
    -------
    The solution, None where the jobs do not fit.

    Raises
    ------
    NotSolvedError
        If not even a first solution was found in time.

    References
    ----------
    Huangfu and Hall (2018), Parallelizing the dual revised simplex method, Math. Prog. Comp. 10
    (HiGHS).
    """
    kept = undominated(options)
    kept = kept[options.gpus[kept] <= capacity[options.kind[kept]]]
    if weights is not None:
        return _place_most(options, kept, n_jobs, capacity, weights, time_limit_s=time_limit_s)
    if np.unique(options.job[kept]).size < n_jobs:
        return None
    return _place_all(options, kept, n_jobs, capacity, time_limit_s=time_limit_s)


def _place_all(
    options: Options, kept: IntArray, n_jobs: int, capacity: IntArray, *, time_limit_s: float
) -> Solution | None:
    """Return the best allocation of all jobs, by a program of the options left by bounds."""
    if not n_jobs:
        return Solution(np.empty(0, dtype=np.int64), "milp", is_exact=True, gap=0.0)
    ends_at = time.monotonic() + time_limit_s
    bounds = bracket(options.take(kept), n_jobs, capacity)
    open_rows = kept[bounds.kept]
    candidates = options.take(open_rows)
    remaining_s = max(ends_at - time.monotonic(), _MIN_TIME_LIMIT_S)
    try:
        solution = _Program(candidates, n_jobs, capacity, None).solve(candidates.value, remaining_s)
    except NotSolvedError:
        if bounds.choice is None:
            raise
        bounded = _solution(options, kept[bounds.choice], bounds.lower, is_optimal=False)
        return replace(bounded, method="lagrangian")
    if solution is None:
        return None
    choice = np.full(n_jobs, NOTHING, dtype=np.int64)
    choice[candidates.job[solution.columns]] = open_rows[solution.columns]
    if float(options.value[choice].sum()) > bounds.upper and bounds.choice is not None:
        choice = kept[bounds.choice]
    # Options that were ruled out are in no allocation better than `bounds.choice`.
    lower = max(min(solution.bound, bounds.upper), bounds.lower)
    return _solution(options, choice, lower, is_optimal=solution.is_optimal)


def _solution(options: Options, choice: IntArray, lower: float, *, is_optimal: bool) -> Solution:
    value = float(options.value[choice[choice != NOTHING]].sum())
    gap = max(value - lower, 0.0) / max(abs(value), 1e-300)
    is_exact = is_optimal and gap <= _ROUNDING
    return Solution(choice, "milp", is_exact, 0.0 if is_exact else gap)


def _place_most(
    options: Options,
    kept: IntArray,
    n_jobs: int,
    capacity: IntArray,
    weights: FloatArray,
    *,
    time_limit_s: float,
) -> Solution | None:
    """Return the best allocation of those that place the most weight."""
    choice = np.full(n_jobs, NOTHING, dtype=np.int64)
    if not kept.size:
        return Solution(choice, "milp", is_exact=True, gap=0.0)
    candidates = options.take(kept)
    program = _Program(candidates, n_jobs, capacity, weights)
    ends_at = time.monotonic() + time_limit_s
    heaviest = program.solve(-weights[candidates.job], time_limit_s / 2)
    assert heaviest is not None
    # Even if this weight is not proven to be the most, it can be placed.
    program = replace(program, least_weight=float(weights[candidates.job[heaviest.columns]].sum()))
    solution = program.solve(candidates.value, max(ends_at - time.monotonic(), _MIN_TIME_LIMIT_S))
    if solution is None:
        return None
    choice[candidates.job[solution.columns]] = kept[solution.columns]
    is_optimal = heaviest.is_optimal and solution.is_optimal
    return _solution(options, choice, solution.bound, is_optimal=is_optimal)


@dataclass(frozen=True, slots=True)
class _ProgramSolution:
    columns: IntArray
    bound: float
    is_optimal: bool


@dataclass(frozen=True, slots=True)
class _Program:
    """The constraints on options; with `weights`, a placed weight of at least `least_weight`."""

    options: Options
    n_jobs: int
    capacity: IntArray
    weights: FloatArray | None
    least_weight: float = 0.0

    def solve(self, value: FloatArray, time_limit_s: float) -> _ProgramSolution | None:
        from scipy.optimize import Bounds, milp  # noqa: PLC0415 - heavy: not before it is needed

        # HiGHS stops at an absolute gap of 1e-6 in any unit; scaling to large costs makes it small.
        scale = (float(np.abs(value).max()) or 1.0) / _LARGEST_COST
        result = milp(
            value / scale,
            integrality=np.ones(value.size, dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=self._constraints(),
            options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
        )
        if result.status == _INFEASIBLE:
            return None
        if result.x is None:
            raise NotSolvedError
        columns = np.flatnonzero(result.x > 0.5)  # noqa: PLR2004 - a binary, rounded
        return _ProgramSolution(columns, float(result.mip_dual_bound) * scale, result.status == 0)

    def _constraints(self) -> "list[LinearConstraint]":
        from scipy import sparse  # noqa: PLC0415 - heavy: not before it is needed
        from scipy.optimize import LinearConstraint  # noqa: PLC0415 - heavy: not before it is needed

        options, columns = self.options, np.arange(len(self.options.job))
        assignment = sparse.csr_array(
            (np.ones(columns.size), (options.job, columns)), (self.n_jobs, columns.size)
        )
        usage = sparse.csr_array(
            (options.gpus.astype(np.float64), (options.kind, columns)),
            (len(self.capacity), columns.size),
        )
        constraints = [
            LinearConstraint(assignment, 1.0 if self.weights is None else 0.0, 1.0),
            LinearConstraint(usage, -np.inf, self.capacity),
        ]
        if self.weights is not None and self.least_weight:
            # In units of the lightest job, so that the solver's tolerance leaves no job out.
            unit = float(self.weights[options.job].min())
            weight = self.weights[options.job] / unit
            least_weight = self.least_weight / unit - _WEIGHT_TOLERANCE
            constraints.append(LinearConstraint(weight[None, :], least_weight, np.inf))
        return constraints


def allocate_makespan(
    options: Options,
    n_jobs: int,
    capacity: IntArray,
    weights: FloatArray | None = None,
    *,
    time_limit_s: float,
) -> Solution | None:
    """Return the options that minimise the largest value over all kinds of GPU.

    This is a binary search over the distinct values. With a limit on the value, each job needs at
    most one option of each kind (the one with the fewest GPUs), which leaves a small feasibility
    program. Its bounds are far tighter than those of one program with the largest value as a
    variable. Among the allocations with the least largest value, one with a small sum is taken.

    Parameters
    ----------
    options, n_jobs, capacity, time_limit_s
        As for `allocate_kinds`.
    weights
        Weights of jobs that may be left out, shape (n_jobs,): placing as much weight as possible
        comes first. None: every job must get an option.
    """
    ends_at = time.monotonic() + time_limit_s
    initial = _fewest_gpus(options, n_jobs, capacity, weights, time_limit_s)
    if initial is None or not options.job.size:
        return initial
    least_weight = 0.0 if weights is None else float(weights[initial.choice != NOTHING].sum())
    levels = np.unique(options.value)
    best, highest_infeasible = initial, -1
    high = _level_index(options, initial, levels)
    low, is_proven = 0, initial.is_exact
    while low < high and time.monotonic() < ends_at:
        middle = (low + high) // 2
        subset = options.take(rows := np.flatnonzero(options.value <= levels[middle]))
        solution = _fewest_gpus(
            subset, n_jobs, capacity, weights, max(ends_at - time.monotonic(), 0.01)
        )
        if solution is None or not _places_weight(solution, weights, least_weight):
            is_proven &= len(capacity) == 1 or solution is None or solution.is_exact
            low, highest_infeasible = middle + 1, middle
            continue
        choice = np.where(solution.choice == NOTHING, NOTHING, rows[solution.choice])
        best = replace(solution, choice=choice)
        high = _level_index(options, best, levels)
    is_exact = is_proven and low >= high
    lower_bound = float(levels[max(highest_infeasible + 1, 0)]) if is_proven else float(levels[0])
    gap = 0.0 if is_exact or not levels[high] else 1.0 - lower_bound / float(levels[high])
    rows = np.flatnonzero(options.value <= levels[high])
    remaining_s = max(ends_at - time.monotonic(), _MIN_TIME_LIMIT_S)
    balanced = allocate(options.take(rows), n_jobs, capacity, weights, time_limit_s=remaining_s)
    choice = best.choice
    if balanced is not None and _places_weight(balanced, weights, least_weight):
        choice = np.where(balanced.choice == NOTHING, NOTHING, rows[balanced.choice])
    return Solution(choice, best.method, is_exact, gap)


def _fewest_gpus(
    options: Options,
    n_jobs: int,
    capacity: IntArray,
    weights: FloatArray | None,
    time_limit_s: float,
) -> Solution | None:
    """Return an allocation with the fewest GPUs, as shares of the capacity of their kind."""
    share = options.gpus / np.maximum(capacity[options.kind], 1)
    by_share = replace(options, value=share)
    return allocate(by_share, n_jobs, capacity, weights, time_limit_s=time_limit_s)


def _places_weight(solution: Solution, weights: FloatArray | None, least_weight: float) -> bool:
    if weights is None:
        return True
    return float(weights[solution.choice != NOTHING].sum()) >= least_weight * (1 - 1e-12)


def _level_index(options: Options, solution: Solution, levels: FloatArray) -> int:
    placed = solution.choice[solution.choice != NOTHING]
    largest = float(options.value[placed].max()) if placed.size else float(levels[0])
    return int(np.searchsorted(levels, largest))
