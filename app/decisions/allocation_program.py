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

_LEAST_LIMIT_S: Final = 1e-3


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
        return allocate_first_fit(options, n_jobs, capacity, must=weights is None)


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
    found = bracket(options.take(kept), n_jobs, capacity)
    open_rows = kept[found.kept]
    few = options.take(open_rows)
    left_s = max(ends_at - time.monotonic(), _LEAST_LIMIT_S)
    try:
        solved = _Program(few, n_jobs, capacity, None).solve(few.value, left_s)
    except NotSolvedError:
        if found.choice is None:
            raise
        bounded = _solution(options, kept[found.choice], found.lower, is_optimal=False)
        return replace(bounded, method="lagrangian")
    if solved is None:
        return None
    choice = np.full(n_jobs, NOTHING, dtype=np.int64)
    choice[few.job[solved.columns]] = open_rows[solved.columns]
    if float(options.value[choice].sum()) > found.upper and found.choice is not None:
        choice = kept[found.choice]
    # Options that were ruled out are in no allocation better than `found.choice`.
    lower = max(min(solved.bound, found.upper), found.lower)
    return _solution(options, choice, lower, is_optimal=solved.is_optimal)


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
    few = options.take(kept)
    program = _Program(few, n_jobs, capacity, weights)
    ends_at = time.monotonic() + time_limit_s
    placed = program.solve(-weights[few.job], time_limit_s / 2)
    assert placed is not None
    # Even if this weight is not proven to be the most, it can be placed.
    program = replace(program, least_weight=float(weights[few.job[placed.columns]].sum()))
    found = program.solve(few.value, max(ends_at - time.monotonic(), _LEAST_LIMIT_S))
    if found is None:
        return None
    choice[few.job[found.columns]] = kept[found.columns]
    is_optimal = placed.is_optimal and found.is_optimal
    return _solution(options, choice, found.bound, is_optimal=is_optimal)


@dataclass(frozen=True, slots=True)
class _Found:
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

    def solve(self, value: FloatArray, time_limit_s: float) -> _Found | None:
        from scipy.optimize import Bounds, milp  # noqa: PLC0415 - heavy: not before it is needed

        # HiGHS stops at an absolute gap of 1e-6 in any unit; scaling to large costs makes it small.
        scale = (float(np.abs(value).max()) or 1.0) / _LARGEST_COST
        found = milp(
            value / scale,
            integrality=np.ones(value.size, dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=self._constraints(),
            options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
        )
        if found.status == _INFEASIBLE:
            return None
        if found.x is None:
            raise NotSolvedError
        columns = np.flatnonzero(found.x > 0.5)  # noqa: PLR2004 - a binary, rounded
        return _Found(columns, float(found.mip_dual_bound) * scale, found.status == 0)

    def _constraints(self) -> "list[LinearConstraint]":
        from scipy import sparse  # noqa: PLC0415 - heavy: not before it is needed
        from scipy.optimize import LinearConstraint  # noqa: PLC0415 - heavy: not before it is needed

        few, columns = self.options, np.arange(len(self.options.job))
        one = sparse.csr_array(
            (np.ones(columns.size), (few.job, columns)), (self.n_jobs, columns.size)
        )
        use = sparse.csr_array(
            (few.gpus.astype(np.float64), (few.kind, columns)),
            (len(self.capacity), columns.size),
        )
        limits = [
            LinearConstraint(one, 1.0 if self.weights is None else 0.0, 1.0),
            LinearConstraint(use, -np.inf, self.capacity),
        ]
        if self.weights is not None and self.least_weight:
            # In units of the lightest job, so that the solver's tolerance leaves no job out.
            unit = float(self.weights[few.job].min())
            weight = self.weights[few.job] / unit
            least = self.least_weight / unit - _WEIGHT_TOLERANCE
            limits.append(LinearConstraint(weight[None, :], least, np.inf))
        return limits


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
    whole = _fits(options, n_jobs, capacity, weights, time_limit_s)
    if whole is None or not options.job.size:
        return whole
    wanted = 0.0 if weights is None else float(weights[whole.choice != NOTHING].sum())
    levels = np.unique(options.value)
    best, proven = whole, -1
    high = _level(options, whole, levels)
    low, is_sure = 0, whole.is_exact
    while low < high and time.monotonic() < ends_at:
        middle = (low + high) // 2
        below = options.take(rows := np.flatnonzero(options.value <= levels[middle]))
        found = _fits(below, n_jobs, capacity, weights, max(ends_at - time.monotonic(), 0.01))
        if found is None or not _places(found, weights, wanted):
            is_sure &= len(capacity) == 1 or found is None or found.is_exact
            low, proven = middle + 1, middle
            continue
        choice = np.where(found.choice == NOTHING, NOTHING, rows[found.choice])
        best = replace(found, choice=choice)
        high = _level(options, best, levels)
    is_exact = is_sure and low >= high
    floor = float(levels[max(proven + 1, 0)]) if is_sure else float(levels[0])
    gap = 0.0 if is_exact or not levels[high] else 1.0 - floor / float(levels[high])
    rows = np.flatnonzero(options.value <= levels[high])
    left_s = max(ends_at - time.monotonic(), _LEAST_LIMIT_S)
    spread = allocate(options.take(rows), n_jobs, capacity, weights, time_limit_s=left_s)
    choice = best.choice
    if spread is not None and _places(spread, weights, wanted):
        choice = np.where(spread.choice == NOTHING, NOTHING, rows[spread.choice])
    return Solution(choice, best.method, is_exact, gap)


def _fits(
    options: Options,
    n_jobs: int,
    capacity: IntArray,
    weights: FloatArray | None,
    time_limit_s: float,
) -> Solution | None:
    """Return an allocation with the fewest GPUs, as shares of the capacity of their kind."""
    share = options.gpus / np.maximum(capacity[options.kind], 1)
    level = replace(options, value=share)
    return allocate(level, n_jobs, capacity, weights, time_limit_s=time_limit_s)


def _places(found: Solution, weights: FloatArray | None, wanted: float) -> bool:
    if weights is None:
        return True
    return float(weights[found.choice != NOTHING].sum()) >= wanted * (1 - 1e-12)


def _level(options: Options, found: Solution, levels: FloatArray) -> int:
    placed = found.choice[found.choice != NOTHING]
    largest = float(options.value[placed].max()) if placed.size else float(levels[0])
    return int(np.searchsorted(levels, largest))
