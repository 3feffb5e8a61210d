"""Allocations with the least largest value (makespan), by a search over its levels."""

import itertools
import time
from bisect import bisect_left
from dataclasses import replace
from typing import Final

import numpy as np

from app.decisions.allocation import (
    NOTHING,
    IntArray,
    Options,
    Solution,
    allocate_first_fit,
    allocate_one_kind,
)
from app.decisions.allocation_program import (
    NotSolvedError,
    allocate,
    allocate_kinds,
    place_most,
    rows_of,
)
from app.decisions.durations import FloatArray

_MARGIN: Final = 1e-12
_ROUNDING: Final = 1e-9


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
    variable. The search starts where the kinds taken as one would have enough GPUs. Among the
    allocations with the least largest value, one with a small sum is taken.

    Parameters
    ----------
    options, n_jobs, capacity, time_limit_s
        As for `allocate_kinds`.
    weights
        Weights of jobs that may be left out, shape (n_jobs,): placing as much weight as possible
        comes first. None: every job must get an option.
    """
    ends_at = time.monotonic() + time_limit_s
    initial, is_most = _fewest_gpus(options, n_jobs, capacity, weights, time_limit_s)
    if initial is None or not options.job.size:
        return initial
    weight = np.ones(n_jobs) if weights is None else weights
    # Sums of other jobs with the same weight may differ in their last digits.
    least_weight = _weight_of(initial.choice, weight) * (1.0 - _MARGIN)
    levels = np.unique(options.value)
    best, high = initial, _level_index(options, initial.choice, levels)
    # No allocation is known to be below `low`, and none exists below `proven`.
    low = proven = _least_level(options, capacity, weight, least_weight, levels)
    while low < high and time.monotonic() < ends_at:
        middle = (low + high) // 2
        subset = options.take(rows := np.flatnonzero(options.value <= levels[middle]))
        remaining_s = ends_at - time.monotonic()
        solution, is_proof = _fewest_gpus(subset, n_jobs, capacity, weights, remaining_s)
        if solution is None or _weight_of(solution.choice, weight) < least_weight:
            low = middle + 1
            proven = low if is_proof else proven
            continue
        best = replace(solution, choice=rows_of(rows, solution.choice))
        high = _level_index(options, best.choice, levels)
    rows = np.flatnonzero(options.value <= levels[high])
    remaining_s = ends_at - time.monotonic()
    balanced = allocate(options.take(rows), n_jobs, capacity, weights, time_limit_s=remaining_s)
    choice = best.choice
    if balanced is not None and _weight_of(balanced.choice, weight) >= least_weight:
        choice = rows_of(rows, balanced.choice)
    largest = float(levels[_level_index(options, choice, levels)])
    gap = max(1.0 - float(levels[proven]) / largest, 0.0) if largest else 0.0
    return Solution(choice, best.method, is_most and gap == 0.0, gap if is_most else None)


def _least_level(
    options: Options,
    capacity: IntArray,
    weights: FloatArray,
    least_weight: float,
    levels: FloatArray,
) -> int:
    """Return a level below which no allocation places a weight, as an index of `levels`.

    The kinds are taken as one whole capacity, of GPUs or of shares of their kinds, into which the
    jobs go with their fewest GPUs, the lightest per weight first and the last one in part (Dantzig
    1957, Discrete-variable extremum problems, Operations Research 5).
    """
    n_jobs, offered = len(weights), capacity[options.kind]
    demand = np.stack([options.gpus, options.gpus / np.maximum(offered, 1)])
    demand[:, options.gpus > offered] = np.inf
    # A row without a value keeps the place of a job without options.
    job = np.concatenate([options.job, np.arange(n_jobs)])
    order = np.argsort(job, kind="stable")
    starts = np.searchsorted(job[order], np.arange(n_jobs))
    value = np.concatenate([options.value, np.full(n_jobs, np.inf)])[order]
    demand = np.concatenate([demand, np.full((2, n_jobs), np.inf)], axis=1)[:, order]
    whole = np.array([capacity.sum(), np.count_nonzero(capacity)], dtype=np.float64)

    def may_fit(level: float) -> bool:
        open_demand = np.where(value <= level, demand, np.inf)
        fewest = np.minimum.reduceat(open_demand, starts, axis=1)
        bounds = map(_most_weight, fewest, itertools.repeat(weights), whole)
        return min(bounds) >= least_weight * (1.0 - _ROUNDING)

    return bisect_left(levels, 1, hi=len(levels) - 1, key=may_fit)


def _most_weight(demand: FloatArray, weights: FloatArray, whole: float) -> float:
    """Return the most weight that fits into a whole if one job may be placed in part."""
    finite = np.flatnonzero(np.isfinite(demand))
    order = finite[np.argsort(demand[finite] / weights[finite])]
    before = np.cumsum(demand[order]) - demand[order]
    share = np.clip((whole - before) / demand[order], 0.0, 1.0)
    return float(share @ weights[order])


def _fewest_gpus(
    options: Options,
    n_jobs: int,
    capacity: IntArray,
    weights: FloatArray | None,
    time_limit_s: float,
) -> tuple[Solution | None, bool]:
    """Return an allocation with the fewest GPUs, as shares of the capacity of their kind.

    With weights, it places as much weight as possible, with any number of GPUs. Also return whether
    it is proven that no other one places all jobs or, with weights, more of it.
    """
    if len(capacity) == 1:
        by_gpus = replace(options, value=options.gpus.astype(np.float64))
        return allocate_one_kind(by_gpus, n_jobs, int(capacity[0]), weights), True
    if weights is not None:
        choice, is_most = place_most(options, n_jobs, capacity, weights, time_limit_s)
        return Solution(choice, "milp", is_most, 0.0 if is_most else None), is_most
    by_share = replace(options, value=options.gpus / np.maximum(capacity[options.kind], 1))
    try:
        return allocate_kinds(by_share, n_jobs, capacity, time_limit_s=time_limit_s), True
    except NotSolvedError:
        return allocate_first_fit(by_share, n_jobs, capacity), False


def _weight_of(choice: IntArray, weights: FloatArray) -> float:
    return float(weights[choice != NOTHING].sum())


def _level_index(options: Options, choice: IntArray, levels: FloatArray) -> int:
    placed = choice[choice != NOTHING]
    largest = float(options.value[placed].max()) if placed.size else float(levels[0])
    return int(np.searchsorted(levels, largest))
