"""Bounds of allocations over several kinds of GPU, from prices per GPU (Lagrange multipliers)."""

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from app.decisions.allocation import NOTHING, IntArray, Options, allocate_one_kind, lower_bound
from app.decisions.durations import FloatArray

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS: Final = 50
_ADDED_A_JOB: Final = 3
_MANY_HEADS: Final = 10_000
_TOLERANCE: Final = 1e-6
_INFEASIBLE: Final = 2
"""HiGHS's status of a program without a solution."""

_ROUNDING: Final = 1e-12
_LARGEST_COST: Final = 1e4
"""To which values are scaled: the solver's tolerances are absolute."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Lower and upper bounds of the least sum of values.

    Parameters
    ----------
    lower
        No allocation of the jobs has a smaller sum; infinite where there is none.
    choice
        An allocation, shape (n_jobs,); None where none was found.
    upper
        Its sum, infinite without one.
    excess
        What the sum exceeds `lower` by at least if an option is taken, shape (n_options,).
    priced
        The options from which the prices came: good ones, whether ruled out or not. Without a
        `choice`, the options with the fewest GPUs too: if these do not fit, none do.
    """

    lower: float
    choice: IntArray | None
    upper: float
    excess: FloatArray
    priced: IntArray

    def better_than(self, upper: float) -> IntArray:
        """Return the options that an allocation with a smaller sum can contain."""
        return np.flatnonzero(self.excess <= upper - self.lower)


@dataclass(frozen=True, slots=True)
class _Relaxation:
    """The linear relaxation; options sorted by job, kind and rising GPUs, and some for every job.

    `sizes` are what the options take of the capacity of their kind. A group has the options of one
    job and kind; `heads` are the first of each.
    """

    options: Options
    sizes: FloatArray
    capacity: FloatArray
    starts: IntArray
    group: IntArray
    heads: IntArray

    @classmethod
    def of(cls, options: Options, sizes: FloatArray, capacity: FloatArray) -> "_Relaxation":
        group = options.job * len(capacity) + options.kind
        heads = np.flatnonzero(np.diff(group, prepend=-1))
        starts = np.flatnonzero(np.diff(options.job, prepend=-1))
        return cls(options, sizes, capacity, starts, group, heads)

    def reduced(self, prices: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the reduced cost of each option (value and GPUs), and the least of each job."""
        cost = self.options.value + prices[self.options.kind] * self.sizes
        return cost, np.minimum.reduceat(cost, self.starts)

    def prices(self) -> tuple[FloatArray, IntArray] | None:
        """Return the prices with the highest bound, and the options from which they came.

        The program starts with the options of the fewest GPUs, of which it keeps, if they are many,
        those that its solution takes. It grows by the options that its prices make the cheapest of
        their group, a few of each job at a time (column generation). None if the jobs do not fit
        even in parts.
        """
        scale = (float(np.abs(self.options.value).max()) or 1.0) / _LARGEST_COST
        scaled = replace(self, options=replace(self.options, value=self.options.value / scale))
        rows = self.heads
        best, highest = np.zeros(len(self.capacity)), -np.inf
        for number in range(_ROUNDS):
            duals = _duals(scaled.options.take(rows), self.sizes[rows], self.capacity)
            if duals is None:
                return None
            cost, least = scaled.reduced(duals.prices)
            bound = float(least.sum() - duals.prices @ self.capacity)
            if bound > highest:
                best, highest = duals.prices, bound
            added = self._cheapest_of_jobs(cost, duals.limits)
            if np.isin(added, rows).all():
                break
            if number == 0 and len(rows) > _MANY_HEADS:
                rows = rows[duals.is_taken]
            rows = np.union1d(rows, added)
        return best * scale, rows

    def _cheapest_of_jobs(self, cost: FloatArray, limits: FloatArray) -> IntArray:
        """Return some options of each job that cost less than a limit, each of another group."""
        cheapest = self._cheapest_of_groups(cost)
        excess = cost[cheapest] - limits[self.options.job[cheapest]]
        cheapest, excess = cheapest[excess < -_TOLERANCE], excess[excess < -_TOLERANCE]
        jobs = self.options.job[cheapest]
        order = np.lexsort((excess, jobs))
        starts = np.flatnonzero(np.diff(jobs[order], prepend=-1))
        ranks = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        return cheapest[order[ranks < _ADDED_A_JOB]]

    def _cheapest_of_groups(self, cost: FloatArray) -> IntArray:
        """Return the first option of each group with the least cost."""
        least = np.minimum.reduceat(cost, self.heads)
        sizes = np.diff(np.append(self.heads, len(cost)))
        rows = np.flatnonzero(cost <= np.repeat(least, sizes))
        first: IntArray = rows[np.searchsorted(rows, self.heads)]
        return first

    def allocation(self, cost: FloatArray) -> IntArray | None:
        """Return an allocation that reduced costs suggest, shape (n_jobs,); None without one."""
        kinds = self._kinds(cost)
        return None if (kinds == NOTHING).any() else self._allocation_of(kinds)

    def _kinds(self, cost: FloatArray) -> IntArray:
        """Return for each job the cheapest kind with room; jobs with the most regret come first."""
        shape = (len(self.starts), len(self.capacity))
        cheapest, groups = self._cheapest_of_groups(cost), self.group[self.heads]
        costs, preferred, fewest = np.full((3, *shape), np.inf)
        costs.flat[groups], preferred.flat[groups] = cost[cheapest], self.sizes[cheapest]
        fewest.flat[groups] = self.sizes[self.heads]
        ordered = np.sort(costs, axis=1)
        regret = ordered[:, min(1, shape[1] - 1)] - ordered[:, 0]
        kinds = np.full(shape[0], NOTHING, dtype=np.int64)
        remaining, reserve = self.capacity.copy(), self.capacity.copy()
        for job in np.argsort(-regret, kind="stable").tolist():
            feasible_costs = np.where(fewest[job] <= reserve, costs[job], np.inf)
            if not np.isfinite(feasible_costs).any():
                break
            fitting_costs = np.where(preferred[job] <= remaining, feasible_costs, np.inf)
            kind = int(
                np.argmin(fitting_costs if np.isfinite(fitting_costs).any() else feasible_costs)
            )
            kinds[job] = kind
            remaining[kind] -= preferred[job, kind]
            reserve[kind] -= fewest[job, kind]
        return kinds

    def _allocation_of(self, kinds: IntArray) -> IntArray:
        """Allocate each kind exactly among the jobs that were assigned to it."""
        choice = np.full(len(kinds), NOTHING, dtype=np.int64)
        for kind, capacity in enumerate(self.capacity.tolist()):
            is_of_kind = (self.options.kind == kind) & (kinds[self.options.job] == kind)
            rows = np.flatnonzero(is_of_kind)
            jobs, renumbered = np.unique(self.options.job[rows], return_inverse=True)
            if not self.options.gpus[rows].any():
                choice[jobs] = rows
                continue
            subproblem = replace(self.options.take(rows), job=renumbered)
            solution = allocate_one_kind(subproblem, jobs.size, int(capacity))
            assert solution is not None
            choice[jobs] = rows[solution.choice]
        return choice


class _Duals(NamedTuple):
    """The optimum of the linear program: prices of GPUs, limits of jobs' costs, options taken."""

    prices: FloatArray
    limits: FloatArray
    is_taken: npt.NDArray[np.bool_]


def _duals(options: Options, sizes: FloatArray, capacity: FloatArray) -> _Duals | None:
    """Return the optimum of the linear program, None if there is none."""
    from scipy import sparse  # noqa: PLC0415 - heavy: not before it is needed
    from scipy.optimize import linprog  # noqa: PLC0415 - heavy: not before it is needed

    columns, n_jobs = np.arange(len(sizes)), int(options.job[-1]) + 1
    usage = (sizes, (options.kind, columns)), (len(capacity), len(sizes))
    assignment = (np.ones(len(sizes)), (options.job, columns)), (n_jobs, len(sizes))
    solve: Callable[..., Any] = linprog  # its types know no sparse matrices
    result = solve(
        options.value,
        A_ub=sparse.csr_array(*usage),
        b_ub=capacity,
        A_eq=sparse.csr_array(*assignment),
        b_eq=np.ones(n_jobs),
    )
    if result.status == _INFEASIBLE:
        return None
    if result.x is None:
        return _Duals(
            np.zeros(len(capacity)), np.full(n_jobs, -np.inf), np.ones(len(sizes), np.bool_)
        )
    prices = np.maximum(-result.ineqlin.marginals, 0.0)
    return _Duals(prices, result.eqlin.marginals, result.x > 0.0)


def bracket(
    options: Options,
    capacity: IntArray,
    known: IntArray | None = None,
    weights: FloatArray | None = None,
) -> Bracket:
    """Return bounds of the least sum of values.

    For any prices p >= 0 per GPU of each kind, the sum over jobs of the least ``value + p gpus``,
    minus ``p capacity``, is a lower bound of the least sum (Lagrangian relaxation). The prices with
    the highest bound are the duals of the linear relaxation, which grows by the options that its
    prices make cheap. An option whose reduced cost exceeds that of its job's best by more than the
    gap is in no better allocation. Leaving a job out is an option that takes its weight from one
    more capacity, the weight that may be left out.

    Parameters
    ----------
    options
        Sorted by job, kind and rising GPUs; without `weights` every job has at least one.
    capacity
        GPUs of each kind, shape (n_kinds,).
    known
        An allocation, shape (n_jobs,), without `weights` of all jobs; None if none is known.
    weights
        Positive, shape (n_jobs,): jobs may be left out, at most the weight that `known` leaves out.
        None: every job must get an option.

    References
    ----------
    Fisher (1981), The Lagrangian relaxation method for solving integer programming problems,
    Management Science 27(1). Geoffrion (1974), Lagrangean relaxation for integer programming, Math.
    Programming Study 2. Lubbecke, Desrosiers (2005), Selected topics in column generation,
    Operations Research 53(6).
    """
    rows = np.arange(len(options.job))
    extended, sizes = options, options.gpus.astype(np.float64)
    capacities = capacity.astype(np.float64)
    if known is not None and weights is not None:
        extended, sizes, capacities, rows = _with_omissions(options, capacities, known, weights)
    relaxation = _Relaxation.of(extended, sizes, capacities)
    priced = relaxation.prices()
    if priced is None:
        return Bracket(np.inf, None, np.inf, np.full(len(options.job), np.inf), rows[:0])
    prices, columns = priced
    cost, least = relaxation.reduced(prices)
    choices = [relaxation.allocation(cost)]
    if known is not None:
        choices.append(_extended_rows(rows, known))
    found = [choice for choice in choices if choice is not None]
    sums = [float(extended.value[choice].sum()) for choice in found]
    upper, choice = min(zip(sums, found, strict=True), key=itemgetter(0), default=(np.inf, None))
    if choice is None:
        columns = np.union1d(columns, relaxation.heads)
    paid = float(prices @ capacities)
    taken = np.empty(0) if choice is None else extended.value[choice]
    is_option = rows != NOTHING
    return Bracket(
        lower_bound(least, taken, paid),
        None if choice is None else rows[choice],
        upper,
        (cost - least[extended.job])[is_option],
        rows[columns[is_option[columns]]],
    )


def _with_omissions(
    options: Options, capacity: FloatArray, known: IntArray, weights: FloatArray
) -> tuple[Options, FloatArray, FloatArray, IntArray]:
    """Return options with those to leave jobs out, their sizes, the capacities, and their rows.

    An option to leave a job out has no GPUs, a kind of its own, and no row (`NOTHING`).
    """
    n_jobs, n_kinds = len(weights), len(capacity)
    jobs = np.arange(n_jobs)
    nothing = np.full(n_jobs, NOTHING)
    # Weights are brought to the magnitude of GPUs: the solver's tolerances are absolute.
    weights = weights * float(capacity.sum()) / float(weights.sum())
    left_out = float(weights[known == NOTHING].sum()) + _ROUNDING * float(weights.sum())
    extended = Options(
        np.concatenate([options.job, jobs]),
        np.concatenate([options.kind, np.full(n_jobs, n_kinds)]),
        np.concatenate([options.gpus, np.zeros(n_jobs, dtype=np.int64)]),
        np.concatenate([options.value, np.zeros(n_jobs)]),
    )
    sizes = np.concatenate([options.gpus.astype(np.float64), weights])
    rows = np.concatenate([np.arange(len(options.job)), nothing])
    order = np.argsort(extended.job, kind="stable")
    return extended.take(order), sizes[order], np.append(capacity, left_out), rows[order]


def _extended_rows(rows: IntArray, choice: IntArray) -> IntArray:
    """Return a choice as rows of the options with those to leave jobs out."""
    extended = np.append(np.flatnonzero(rows != NOTHING), NOTHING)[choice]
    is_left_out = choice == NOTHING
    if is_left_out.any():
        extended[is_left_out] = np.flatnonzero(rows == NOTHING)[is_left_out]
    return extended
