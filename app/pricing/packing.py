"""The exactly cheapest way to pack workers onto instances of several sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

LARGEST_MIXED: Final = 64
"""Instances that host more workers are never mixed with others."""

_CACHE_SIZE: Final = 1024


@dataclass(frozen=True, slots=True)
class Packing:
    """The number of instances of each size, and the cost of an hour of all of them."""

    counts: tuple[int, ...]
    cost: Decimal

    @property
    def instances(self) -> int:
        """The number of instances."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class _Table:
    """The cheapest way for each number of workers from 0 on: cost, instances, last size taken."""

    costs: list[Decimal]
    instances: list[int]
    last: list[int]


def pack(sizes: Sequence[int], costs: Sequence[Decimal], workers: int) -> Packing:
    """Return the cheapest instances that host all workers; ties go to the fewest instances.

    Parameters
    ----------
    sizes
        Workers that an instance of each type hosts, positive, at most `LARGEST_MIXED` unless there
        is only one type.
    costs
        Cost of an instance of each type for the same time, not negative.
    workers
        Number of workers, positive.

    Notes
    -----
    An unbounded covering knapsack by dynamic programming. Let s be the size of the type with the
    best price per worker. Among any s other instances, some host a multiple of s workers together
    (pigeonhole) and can be replaced by that type, so an optimum has fewer than s others. All
    further workers go to the best type, and the table stays small however many they are.

    References
    ----------
    Gilmore and Gomory (1966), The theory and computation of knapsack functions, Oper. Res. 14(6).

    Examples
    --------
    >>> pack([1, 4], [Decimal("1.10"), Decimal("4.00")], 5)
    Packing(counts=(1, 1), cost=Decimal('5.10'))
    """
    if len(sizes) == 1:
        count = -(-workers // sizes[0])
        return Packing((count,), costs[0] * count)
    sizes, costs = tuple(sizes), tuple(costs)
    best = _best_value(sizes, costs)
    excess = workers - sizes[best] * max(sizes)
    bulk = -(-excess // sizes[best]) if excess > 0 else 0
    remaining = max(workers - bulk * sizes[best], 0)
    counts = [0] * len(sizes)
    counts[best] = bulk
    table = _table(sizes, costs, sizes[best] * max(sizes))
    while remaining > 0:
        counts[table.last[remaining]] += 1
        remaining -= sizes[table.last[remaining]]
    cost = sum((hourly * count for hourly, count in zip(costs, counts, strict=True)), Decimal(0))
    return Packing(tuple(counts), cost)


@lru_cache(maxsize=_CACHE_SIZE)
def _best_value(sizes: tuple[int, ...], costs: tuple[Decimal, ...]) -> int:
    """Return the type with the best price per worker; ties go to the largest."""
    return min(range(len(sizes)), key=lambda index: (costs[index] / sizes[index], -sizes[index]))


@lru_cache(maxsize=_CACHE_SIZE)
def _table(sizes: tuple[int, ...], costs: tuple[Decimal, ...], max_workers: int) -> _Table:
    table = _Table([Decimal(0)], [0], [0])
    for workers in range(1, max_workers + 1):
        cost, instances, last = min(
            (table.costs[remaining] + costs[index], table.instances[remaining] + 1, index)
            for index, size in enumerate(sizes)
            for remaining in (max(workers - size, 0),)
        )
        table.costs.append(cost)
        table.instances.append(instances)
        table.last.append(last)
    return table
