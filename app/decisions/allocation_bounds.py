"""Bounds of allocations over several kinds of GPU, from prices per GPU (Lagrange multipliers)."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from app.decisions.allocation import (
    NOTHING,
    IntArray,
    Options,
    allocate_one_kind,
    first_cheapest,
    possible_improvements,
)
from app.decisions.durations import FloatArray

_ITERATIONS: Final = 240
_ITERATIONS_PER_ALLOCATION: Final = 40
_PATIENCE: Final = 12


@dataclass(frozen=True, slots=True)
class Bracket:
    """Lower and upper bounds of the least sum of values.

    Parameters
    ----------
    lower
        No allocation of all jobs has a smaller sum.
    choice
        An allocation with the sum `upper`, shape (n_jobs,); None where none was found.
    upper
        Its sum, infinite without one.
    kept
        The options of `choice` and of any better allocation; all others are ruled out.
    """

    lower: float
    choice: IntArray | None
    upper: float
    kept: IntArray


@dataclass(slots=True)
class _Search:
    """Subgradient ascent on the prices; options are sorted by job and every job has some.

    `unit` is the magnitude of a value, by which the first steps aim to raise the bound.
    """

    options: Options
    n_jobs: int
    capacity: IntArray
    starts: IntArray
    prices: FloatArray
    best_prices: FloatArray
    unit: float
    lower: float = -np.inf
    upper: float = np.inf
    choice: IntArray | None = None
    step: float = 1.0
    stalled: int = field(default=0)

    def reduced(self, prices: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the reduced cost of each option (value and GPUs), and the least of each job."""
        cost = self.options.value + prices[self.options.kind] * self.options.gpus
        return cost, np.minimum.reduceat(cost, self.starts)

    def ascend(self, *, is_allocating: bool) -> None:
        """Take one step; if `is_allocating`, also make an allocation that the prices suggest."""
        cost, least = self.reduced(self.prices)
        bound = float(least.sum() - self.prices @ self.capacity)
        chosen = first_cheapest(self.options, cost, least)
        if is_allocating:
            kinds = self._kinds(cost)
            if (kinds != NOTHING).all():
                self._allocate(kinds)
        self.stalled += 1
        if bound > self.lower:
            self.lower, self.best_prices, self.stalled = bound, self.prices, 0
        if self.stalled > _PATIENCE:
            self.step, self.stalled = self.step / 2.0, 0
            self.prices = self.best_prices
        excess = (
            np.bincount(self.options.kind[chosen], self.options.gpus[chosen], len(self.capacity))
            - self.capacity
        )
        target = self.upper if np.isfinite(self.upper) else bound + 0.1 * abs(bound) + self.unit
        step_length = self.step * max(target - bound, 0.0) / max(float(excess @ excess), 1.0)
        self.prices = np.maximum(self.prices + step_length * excess, 0.0)

    def _kinds(self, cost: FloatArray) -> IntArray:
        """Return for each job the cheapest kind with room; jobs with the most regret come first."""
        shape = (self.n_jobs, len(self.capacity))
        group = self.options.job * shape[1] + self.options.kind
        heads = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        least = np.minimum.reduceat(cost, heads)
        sizes = np.diff(np.append(heads, group.size))
        rows = np.flatnonzero(cost <= np.repeat(least, sizes))
        gpus = self.options.gpus[rows[np.searchsorted(group[rows], group[heads])]]
        costs, preferred_gpus, fewest_gpus = np.full((3, *shape), np.inf)
        costs.flat[group[heads]], preferred_gpus.flat[group[heads]] = least, gpus
        fewest_gpus.flat[group[heads]] = self.options.gpus[heads]
        ordered = np.sort(costs, axis=1)
        regret = ordered[:, min(1, shape[1] - 1)] - ordered[:, 0]
        kinds = np.full(self.n_jobs, NOTHING, dtype=np.int64)
        remaining, reserve = self.capacity.astype(np.float64), self.capacity.astype(np.float64)
        for job in np.argsort(-regret, kind="stable").tolist():
            feasible_costs = np.where(fewest_gpus[job] <= reserve, costs[job], np.inf)
            if not np.isfinite(feasible_costs).any():
                break
            fitting_costs = np.where(preferred_gpus[job] <= remaining, feasible_costs, np.inf)
            kind = int(
                np.argmin(fitting_costs if np.isfinite(fitting_costs).any() else feasible_costs)
            )
            kinds[job] = kind
            remaining[kind] -= preferred_gpus[job, kind]
            reserve[kind] -= fewest_gpus[job, kind]
        return kinds

    def _allocate(self, kinds: IntArray) -> None:
        """Allocate each kind exactly among the jobs that were assigned to it."""
        choice = np.full(self.n_jobs, NOTHING, dtype=np.int64)
        for kind, gpus in enumerate(self.capacity.tolist()):
            is_of_kind = (self.options.kind == kind) & (kinds[self.options.job] == kind)
            rows = np.flatnonzero(is_of_kind)
            jobs, renumbered = np.unique(self.options.job[rows], return_inverse=True)
            subproblem = Options(
                renumbered,
                self.options.kind[rows],
                self.options.gpus[rows],
                self.options.value[rows],
            )
            solution = allocate_one_kind(subproblem, jobs.size, gpus)
            assert solution is not None
            choice[jobs] = rows[solution.choice]
        value = float(self.options.value[choice].sum())
        if value < self.upper:
            self.upper, self.choice = value, choice


def bracket(options: Options, n_jobs: int, capacity: IntArray) -> Bracket:
    """Return bounds of the least sum of values when every job gets an option.

    For any prices p >= 0 per GPU of each kind, the sum over jobs of the least ``value + p gpus``,
    minus ``p capacity``, is a lower bound of the least sum. Prices are raised where GPUs are short
    (subgradient ascent). An option whose reduced cost exceeds that of its job's best by more than
    the gap is in no better allocation.

    Parameters
    ----------
    options
        Sorted by job; every job has at least one.
    n_jobs
        The number of jobs.
    capacity
        GPUs of each kind, shape (n_kinds,).

    References
    ----------
    Fisher (1981), The Lagrangian relaxation method for solving integer programming problems,
    Management Science 27(1). Held, Wolfe, Crowder (1974), Validation of subgradient optimization,
    Math. Programming 6.
    """
    starts = np.searchsorted(options.job, np.arange(n_jobs))
    zero = np.zeros(len(capacity))
    unit = float(np.abs(options.value).mean()) or 1.0
    search = _Search(options, n_jobs, capacity, starts, zero, zero, unit)
    for iteration in range(_ITERATIONS):
        search.ascend(
            is_allocating=iteration % _ITERATIONS_PER_ALLOCATION == _ITERATIONS_PER_ALLOCATION - 1
        )
    if search.choice is None:
        return Bracket(-np.inf, None, np.inf, np.arange(len(options.job)))
    cost, least = search.reduced(search.best_prices)
    paid = float(search.best_prices @ capacity)
    kept, lower = possible_improvements(options, cost, least, search.choice, paid=paid)
    return Bracket(lower, search.choice, search.upper, kept)
