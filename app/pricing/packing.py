"""How workers are packed onto instances of several sizes: the cheapest way, exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

LARGEST_MIXED: Final = 64
"""Instances that host more workers are never mixed with others."""

_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class Packing:
    """How many instances of each size, and what an hour of all of them costs."""

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
    """Return the cheapest instances that host all workers; of equally cheap ones the fewest.

    Parameters
    ----------
    sizes
        Workers that an instance of each type hosts, positive, at most `LARGEST_MIXED` unless there
        is but one.
    costs
        What an instance of each type costs in the same time, not negative.
    workers
        How many there are, positive.

    Notes
    -----
    An unbounded covering knapsack by dynamic programming. Among as many instances as the type of
    the best price per worker has places, some fill a whole number of that type (pigeonhole), so
    that an optimum has fewer others than that; all workers beyond go to the best type, and the
    table stays small however many they are.

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
    best = _best(sizes, costs)
    beyond = workers - sizes[best] * max(sizes)
    bulk = -(-beyond // sizes[best]) if beyond > 0 else 0
    left = max(workers - bulk * sizes[best], 0)
    counts = [0] * len(sizes)
    counts[best] = bulk
    table = _table(sizes, costs, sizes[best] * max(sizes))
    while left > 0:
        counts[table.last[left]] += 1
        left -= sizes[table.last[left]]
    cost = sum((each * count for each, count in zip(costs, counts, strict=True)), Decimal(0))
    return Packing(tuple(counts), cost)


@lru_cache(maxsize=_REMEMBERED)
def _best(sizes: tuple[int, ...], costs: tuple[Decimal, ...]) -> int:
    """Return the type of the best price per worker, of equal ones the largest."""
    return min(range(len(sizes)), key=lambda index: (costs[index] / sizes[index], -sizes[index]))


@lru_cache(maxsize=_REMEMBERED)
def _table(sizes: tuple[int, ...], costs: tuple[Decimal, ...], most: int) -> _Table:
    table = _Table([Decimal(0)], [0], [0])
    for workers in range(1, most + 1):
        cost, instances, last = min(
            (table.costs[left] + costs[index], table.instances[left] + 1, index)
            for index, size in enumerate(sizes)
            for left in (max(workers - size, 0),)
        )
        table.costs.append(cost)
        table.instances.append(instances)
        table.last.append(last)
    return table
