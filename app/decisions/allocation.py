"""Which option each job takes within the capacity: exact for one kind of GPU."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.decisions.durations import FloatArray
from app.decisions.knapsack import OMITTED, choose_from_all, choose_heaviest

IntArray = npt.NDArray[np.int64]
_MARGIN: Final = 1e-12
"""Relative margin of sums, thousands of times the rounding error of a number."""

_HALVINGS: Final = 60
"""Bisections of the price interval, down to floating-point resolution."""
NOTHING: Final = -1
"""The choice of a job that is left out."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of all jobs in one list, each of shape (n_options,).

    Parameters
    ----------
    job
        The job to which the option belongs, in [0, n_jobs).
    kind
        The kind of GPU that it uses, in [0, n_kinds).
    gpus
        Number of GPUs, positive.
    value
        The value to minimise, finite.
    """

    job: IntArray
    kind: IntArray
    gpus: IntArray
    value: FloatArray

    def take(self, rows: npt.ArrayLike) -> "Options":
        """Return some of the options."""
        chosen = np.asarray(rows)
        return Options(self.job[chosen], self.kind[chosen], self.gpus[chosen], self.value[chosen])


@dataclass(frozen=True, slots=True)
class Solution:
    """One option (or `NOTHING`) for each job, shape (n_jobs,).

    `gap` is the largest possible improvement of the value, as a fraction of it; None where no bound
    is known.
    """

    choice: IntArray
    method: str
    is_exact: bool
    gap: float | None


def undominated(options: Options) -> IntArray:
    """Return the options worth considering, by job, kind and rising GPUs.

    An option is dominated by one of the same job and kind with at most as many GPUs and a value
    that is at most as large.

    Examples
    --------
    >>> zeros = np.zeros(3, dtype=np.int64)
    >>> options = Options(zeros, zeros, np.array([1, 2, 4]), np.array([9.0, 9.0, 3.0]))
    >>> undominated(options).tolist()
    [0, 2]
    """
    order = np.lexsort((options.value, options.gpus, options.kind, options.job))
    if not order.size:
        return order
    group = options.job[order] * (int(options.kind.max()) + 1) + options.kind[order]
    starts = np.concatenate(([True], group[1:] != group[:-1]))
    # The running minimum within each group; ranking the values lets one pass serve all groups.
    ranks = np.argsort(np.argsort(options.value[order], kind="stable"), kind="stable")
    level = np.cumsum(starts) * order.size - ranks
    best_before = np.concatenate(([-1], np.maximum.accumulate(level)[:-1]))
    is_better = starts | (level > best_before)
    kept: IntArray = order[is_better]
    return kept


def allocate_one_kind(
    options: Options, n_jobs: int, capacity: int, weights: FloatArray | None = None
) -> Solution | None:
    """Return the options with the least sum of values, exactly, by dynamic programming.

    ``best[j][g]``, the least sum of the first j jobs on at most g GPUs, is
    ``min over options o of job j of best[j - 1][g - gpus(o)] + value(o)``: O(n_options x GPUs).
    Ties go to the sum that gives later jobs fewer GPUs. Where all jobs fit, bounds from a price per
    GPU rule out nearly all options beforehand (Lagrangian relaxation); in a shortage, what the
    heaviest jobs leave of the capacity does.

    Parameters
    ----------
    options
        All of one kind.
    n_jobs
        The number of jobs.
    capacity
        The number of GPUs.
    weights
        Weights of jobs that may be left out, positive, shape (n_jobs,): only allocations that place
        the most weight are considered. None: every job must get an option.

    Returns
    -------
    The solution, None where the jobs do not fit.

    References
    ----------
    Kellerer, Pferschy, Pisinger (2004), Knapsack problems, ch. 11 (multiple-choice knapsack).
    """
    kept = undominated(options)
    kept = kept[options.gpus[kept] <= capacity]
    candidates = options.take(kept)
    if _all_fit(candidates, n_jobs, capacity):
        kept = kept[_possibly_optimal(candidates, n_jobs, capacity)]
        candidates = options.take(kept)
        edges = np.searchsorted(candidates.job, np.arange(n_jobs + 1))
        choice = kept[choose_from_all(edges, candidates.gpus, candidates.value, capacity)]
    elif weights is None:
        return None
    else:
        edges = np.searchsorted(candidates.job, np.arange(n_jobs + 1))
        shares = weights / weights.sum()
        chosen = choose_heaviest(edges, candidates.gpus, candidates.value, capacity, shares)
        choice = np.where(chosen == OMITTED, NOTHING, np.append(kept, NOTHING)[chosen])
    return Solution(choice, "dynamic_programming", is_exact=True, gap=0.0)


def _all_fit(options: Options, n_jobs: int, capacity: int) -> bool:
    """Return whether all jobs fit with their fewest GPUs; options sorted by job and rising GPUs."""
    has_option = len(np.unique(options.job)) == n_jobs
    return (
        has_option
        and int(options.gpus[np.searchsorted(options.job, np.arange(n_jobs))].sum()) <= capacity
    )


def _possibly_optimal(options: Options, n_jobs: int, capacity: int) -> IntArray:
    """Return the options that a best allocation of all jobs can contain.

    For any price p >= 0 per GPU, the sum over jobs of the least ``value + p gpus``, minus
    ``p capacity``, is a lower bound of the least sum. At the lowest price at which the jobs'
    choices fit, these form an allocation, whose sum is an upper bound. An option whose reduced cost
    exceeds the least of its job by more than the gap between the bounds is in no best allocation
    (Fisher 1981).
    """
    starts = np.searchsorted(options.job, np.arange(n_jobs))
    if not n_jobs:
        return starts
    unpriced = _choice_at_price(options, starts, 0.0)
    if options.gpus[unpriced].sum() <= capacity:
        return unpriced
    low, high, infeasible, feasible = 0.0, 1.0, unpriced, _choice_at_price(options, starts, 1.0)
    while options.gpus[feasible].sum() > capacity:
        low, high, infeasible = high, 4.0 * high, feasible
        feasible = _choice_at_price(options, starts, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        chosen = _choice_at_price(options, starts, middle)
        if options.gpus[chosen].sum() > capacity:
            low, infeasible = middle, chosen
        else:
            high, feasible = middle, chosen
    cost = options.value + high * options.gpus
    least = np.minimum.reduceat(cost, starts)
    choice = _greedily_enlarged(options, feasible, infeasible, capacity)
    return _possible_improvements(options, cost, least, choice, paid=high * capacity)


def _possible_improvements(
    options: Options, cost: FloatArray, least: FloatArray, choice: IntArray, *, paid: float
) -> IntArray:
    """Return the options that an allocation better than a given one can contain, and its own.

    Parameters
    ----------
    options, cost, least
        The options with their reduced costs, shape (n_options,), and the least of each job.
    choice
        An allocation of all jobs, shape (n_jobs,).
    paid
        Cost of all GPUs at the prices of the reduced costs.
    """
    value = options.value[choice]
    lower = lower_bound(least, value, paid)
    is_open = cost - least[options.job] <= float(value.sum()) - lower
    is_open[choice] = True
    return np.flatnonzero(is_open)


def lower_bound(least: FloatArray, value: FloatArray, paid: float) -> float:
    """Return the Lagrangian bound of the sum of values.

    It allows for rounding: the difference of large, nearly equal sums is as uncertain as the sums.

    Parameters
    ----------
    least
        The least reduced cost of each job, shape (n_jobs,).
    value
        The values with whose sum the bound is compared, shape (n_jobs,).
    paid
        Cost of all GPUs at the prices of the reduced costs.
    """
    rounding = _MARGIN * float(np.abs(least).sum() + np.abs(value).sum() + paid)
    return float(least.sum()) - paid - rounding


def _choice_at_price(options: Options, starts: IntArray, price: float) -> IntArray:
    """Return the cheapest option of each job; ties go to the fewest GPUs."""
    cost = options.value + price * options.gpus
    return first_cheapest(options, cost, np.minimum.reduceat(cost, starts))


def first_cheapest(options: Options, cost: FloatArray, least: FloatArray) -> IntArray:
    """Return the first option of each job with the least cost of the job.

    `options` are sorted by job, `cost` is of shape (n_options,), `least` of shape (n_jobs,).
    """
    rows = np.flatnonzero(cost <= least[options.job])
    first: IntArray = rows[np.searchsorted(options.job[rows], np.arange(len(least)))]
    return first


def _greedily_enlarged(
    options: Options, feasible: IntArray, infeasible: IntArray, capacity: int
) -> IntArray:
    """Return an allocation that fits, with the larger options where they gain most per GPU."""
    extra_gpus = options.gpus[infeasible] - options.gpus[feasible]
    gain = options.value[feasible] - options.value[infeasible]
    remaining, choice = capacity - int(options.gpus[feasible].sum()), feasible.copy()
    for job in np.argsort(-gain / np.maximum(extra_gpus, 1), kind="stable").tolist():
        if 0 < extra_gpus[job] <= remaining:
            choice[job], remaining = infeasible[job], remaining - int(extra_gpus[job])
    return choice


def allocate_first_fit(
    options: Options, n_jobs: int, capacity: IntArray, weights: FloatArray | None = None
) -> Solution | None:
    """Return an allocation without a bound on how good it is (heuristic).

    Jobs are placed by falling minimal demand or, where not all find a place and their `weights` say
    that some may be left out, by falling weight per GPU of it. Each takes the kind where its
    smallest option is the smallest share of the remaining capacity. Each kind is then allocated
    exactly among its jobs. None if a job that must be placed finds no place.
    """
    fewest = _least_demand(options, n_jobs, len(capacity))
    demand = fewest.min(axis=1)
    kinds = _first_kinds(fewest, demand, capacity)
    if (kinds == NOTHING).any():
        if weights is None:
            return None
        kinds = _first_kinds(fewest, weights / demand, capacity)
    choice = np.full(n_jobs, NOTHING, dtype=np.int64)
    for kind, gpus in enumerate(capacity.tolist()):
        rows = np.flatnonzero((options.kind == kind) & (kinds[options.job] == kind))
        jobs, renumbered = np.unique(options.job[rows], return_inverse=True)
        subproblem = Options(
            renumbered, options.kind[rows], options.gpus[rows], options.value[rows]
        )
        solution = allocate_one_kind(subproblem, jobs.size, gpus)
        assert solution is not None
        choice[jobs] = rows[solution.choice]
    return Solution(choice, "first_fit", is_exact=False, gap=None)


def _least_demand(options: Options, n_jobs: int, n_kinds: int) -> FloatArray:
    """Return, by job and kind, the GPUs of the smallest option, infinite without one."""
    fewest = np.full((n_jobs, n_kinds), np.inf)
    np.minimum.at(fewest, (options.job, options.kind), options.gpus)
    return fewest


def _first_kinds(fewest: FloatArray, urgency: FloatArray, capacity: IntArray) -> IntArray:
    """Return the kind of each job, placed by falling urgency."""
    kinds = np.full(len(fewest), NOTHING, dtype=np.int64)
    remaining = capacity.astype(np.float64)
    for job in np.argsort(-urgency, kind="stable"):
        share = np.where(fewest[job] <= remaining, fewest[job] / np.maximum(remaining, 1.0), np.inf)
        if np.isfinite(share).any():
            kinds[job] = int(np.argmin(share))
            remaining[kinds[job]] -= fewest[job, kinds[job]]
    return kinds
