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
_MOST_COLUMNS: Final = 16_000
"""Of a program: the solver heeds its time limit less, the more there are."""


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

    Where all jobs must get an option and no allocation was found in time, they are placed first-fit
    and each kind is then allocated exactly (heuristic); None where that does not place all either.
    """
    if len(capacity) == 1:
        return allocate_one_kind(options, n_jobs, int(capacity[0]), weights)
    try:
        return allocate_kinds(options, n_jobs, capacity, weights, time_limit_s=time_limit_s)
    except NotSolvedError:
        return allocate_first_fit(options, n_jobs, capacity)


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
        most weight that fits, which the second must place; where the first is not solved in time,
        the second keeps the best weight found, without a gap. None: every job must get an option.
    time_limit_s
        Seconds after which the best solution so far is taken, with its gap to the bound.

    Returns
    -------
    The solution, None where the jobs do not fit.

    Raises
    ------
    NotSolvedError
        If every job must get an option and not even a first solution was found in time.

    References
    ----------
    Huangfu and Hall (2018), Parallelizing the dual revised simplex method, Math. Prog. Comp. 10
    (HiGHS).
    """
    if not n_jobs:
        return Solution(np.empty(0, dtype=np.int64), "milp", is_exact=True, gap=0.0)
    ends_at = time.monotonic() + time_limit_s
    kept = _that_fit(options, capacity)
    candidates = options.take(kept)
    if weights is None:
        is_placeable = np.unique(candidates.job).size == n_jobs
        found = _least_sum(candidates, n_jobs, capacity, ends_at) if is_placeable else None
    else:
        heaviest, is_most = place_most(candidates, n_jobs, capacity, weights, time_limit_s / 2)
        is_short = bool((heaviest == NOTHING).any())
        found = _least_sum(
            candidates, n_jobs, capacity, ends_at, heaviest, weights if is_short else None
        )
        if found is not None and not is_most:
            found = replace(found, is_exact=False, gap=None)
    return None if found is None else replace(found, choice=rows_of(kept, found.choice))


def _that_fit(options: Options, capacity: IntArray) -> IntArray:
    kept = undominated(options)
    return kept[options.gpus[kept] <= capacity[options.kind[kept]]]


def place_most(
    options: Options, n_jobs: int, capacity: IntArray, weights: FloatArray, time_limit_s: float
) -> tuple[IntArray, bool]:
    """Return an allocation that places as much weight as possible, and whether that is proven.

    Only the option of each job and kind with the fewest GPUs counts. If the program is too large or
    not solved in time, the heavier of its and the first-fit allocation is returned.

    Parameters
    ----------
    options, n_jobs, capacity, weights, time_limit_s
        As for `allocate_kinds`.
    """
    by_weight = replace(options, value=-weights[options.job])
    rows = _that_fit(by_weight, capacity)
    solution = _UNSOLVED
    if len(rows) <= _MOST_COLUMNS:
        solution = _Program(by_weight, n_jobs, capacity, weights).solve(rows, time_limit_s)
    choices = [] if solution.choice is None else [solution.choice]
    if not solution.is_optimal:
        first_fit = allocate_first_fit(options, n_jobs, capacity, weights)
        assert first_fit is not None
        choices.append(first_fit.choice)
    choice = max(choices, key=lambda each: float(weights[each != NOTHING].sum()))
    n_placeable, n_placed = np.unique(options.job[rows]).size, int((choice != NOTHING).sum())
    return choice, solution.is_optimal or n_placed == n_placeable


def _least_sum(
    options: Options,
    n_jobs: int,
    capacity: IntArray,
    ends_at: float,
    known: IntArray | None = None,
    weights: FloatArray | None = None,
) -> Solution | None:
    """Return the best allocation, by a program of the options that are left by bounds.

    Where bounds leave more than the options from which they came, a program of these comes first:
    its solution rules out more, or is the answer where too many are left.
    """
    program = _Program(options, n_jobs, capacity)
    if known is not None and weights is not None:
        least_weight = float(weights[known != NOTHING].sum())
        program = replace(program, weights=weights, least_weight=least_weight)
    bounds = bracket(options, capacity, known, weights)
    if bounds.lower == np.inf:
        return None
    best = _Best(options.value, bounds.choice, bounds.upper, bounds.lower)
    if len(bounds.better_than(best.upper)) > len(bounds.priced):
        best.take(program.solve(bounds.priced, (ends_at - time.monotonic()) / 2), is_whole=False)
    open_rows = bounds.better_than(best.upper)
    if len(open_rows) <= max(_MOST_COLUMNS, len(bounds.priced)):
        best.take(program.solve(open_rows, ends_at - time.monotonic()), is_whole=True)
    if best.lower == np.inf:
        return None
    if best.choice is None:
        raise NotSolvedError
    gap = max(best.upper - best.lower, 0.0) / max(abs(best.upper), 1e-300)
    is_exact = best.is_optimal and gap <= _ROUNDING
    return Solution(best.choice, best.method, is_exact, 0.0 if is_exact else gap)


def rows_of(rows: IntArray, choice: IntArray) -> IntArray:
    """Return the rows that a choice takes of some rows, shape (n_jobs,)."""
    return np.where(choice == NOTHING, NOTHING, np.append(rows, NOTHING)[choice])


@dataclass(frozen=True, slots=True)
class _ProgramSolution:
    """The choice of a program, shape (n_jobs,), and a bound of its sum of values.

    `choice` is None where none was found; then `bound` is infinite if there is none.
    """

    choice: IntArray | None
    bound: float
    is_optimal: bool


_UNSOLVED: Final = _ProgramSolution(None, -np.inf, is_optimal=False)


@dataclass(slots=True)
class _Best:
    """The best allocation so far, its sum, and a bound of all sums."""

    value: FloatArray
    choice: IntArray | None
    upper: float
    lower: float
    method: str = "lagrangian"
    is_optimal: bool = False

    def take(self, solution: _ProgramSolution, *, is_whole: bool) -> None:
        """Take a program's solution if it is better; `is_whole` if no better option was left out.

        As long as none is known, each program has the options with the fewest GPUs. One without an
        allocation then means that there is none.
        """
        if solution.choice is not None:
            self.method = "milp"
            upper = float(self.value[solution.choice[solution.choice != NOTHING]].sum())
            if upper < self.upper:
                self.choice, self.upper = solution.choice, upper
        if is_whole or (solution.bound == np.inf and self.choice is None):
            self.lower = max(self.lower, min(solution.bound, self.upper))
            self.is_optimal = solution.is_optimal


@dataclass(frozen=True, slots=True)
class _Program:
    """The constraints on options; with `weights`, a placed weight of at least `least_weight`."""

    options: Options
    n_jobs: int
    capacity: IntArray
    weights: FloatArray | None = None
    least_weight: float = 0.0

    def solve(self, rows: IntArray, time_limit_s: float) -> _ProgramSolution:
        """Return the options among some `rows` with the least sum of values."""
        from scipy.optimize import Bounds, milp  # noqa: PLC0415 - heavy: not before it is needed

        choice = np.full(self.n_jobs, NOTHING, dtype=np.int64)
        if not rows.size:
            return _ProgramSolution(choice, 0.0, is_optimal=True)
        options = self.options.take(rows)
        # HiGHS stops at an absolute gap of 1e-6 in any unit; scaling to large costs makes it small.
        scale = (float(np.abs(options.value).max()) or 1.0) / _LARGEST_COST
        result = milp(
            options.value / scale,
            integrality=np.ones(rows.size, dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=self._constraints(options),
            options={"time_limit": max(time_limit_s, _MIN_TIME_LIMIT_S), "mip_rel_gap": 0.0},
        )
        if result.status == _INFEASIBLE:
            return _ProgramSolution(None, np.inf, is_optimal=False)
        if result.x is None:
            return _UNSOLVED
        chosen = np.flatnonzero(result.x > 0.5)  # noqa: PLR2004 - a binary, rounded
        choice[options.job[chosen]] = rows[chosen]
        return _ProgramSolution(choice, float(result.mip_dual_bound) * scale, result.status == 0)

    def _constraints(self, options: Options) -> "list[LinearConstraint]":
        from scipy import sparse  # noqa: PLC0415 - heavy: not before it is needed
        from scipy.optimize import LinearConstraint  # noqa: PLC0415 - heavy: not before it is needed

        columns = np.arange(len(options.job))
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
