"""Multiple-choice knapsacks by dynamic programming: one option of each group within a capacity.

Kellerer, Pferschy, Pisinger (2004), Knapsack problems, ch. 11.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from app.decisions.durations import FloatArray

IntArray = npt.NDArray[np.int64]
OMITTED: Final = -1
"""The choice of a group that is left out."""

_ROUNDING: Final = 1e-12
_WEIGHT_MARGIN: Final = 1e-9
"""As a share of all weights: sums of weights that differ by less may be equal."""


def choose_from_all(
    edges: IntArray, sizes: IntArray, values: FloatArray, capacity: int
) -> IntArray:
    """Return one option of each group with the least sum of values.

    What every option of a group takes is taken beforehand: the program runs over the rest of the
    capacity, or over what the largest options could take of it, in O(n_options x rest). Ties go to
    the sum that gives later groups less.

    Parameters
    ----------
    edges
        Group i has the options in ``edges[i]:edges[i + 1]``, at least one; shape (n_groups + 1,).
    sizes
        Size of each option, rising within a group, shape (n_options,).
    values
        The values to minimise, finite, shape (n_options,).
    capacity
        Largest sum of sizes, at least that of the smallest options.

    Returns
    -------
    The options, shape (n_groups,).

    Examples
    --------
    >>> edges, sizes = np.array([0, 2, 4]), np.array([1, 3, 1, 2])
    >>> choose_from_all(edges, sizes, np.array([9.0, 2.0, 9.0, 4.0]), 4).tolist()
    [1, 2]
    """
    starts, ends = edges[:-1], edges[1:]
    extra = sizes - np.repeat(sizes[starts], ends - starts)
    rest = min(capacity - int(sizes[starts].sum()), int(extra[ends - 1].sum()))
    choice: IntArray = starts.copy()
    open_groups = np.flatnonzero(ends - starts > 1).tolist()
    least = np.zeros(rest + 1)
    chosen = np.empty((len(open_groups), rest + 1), dtype=np.int32)
    for row, group in zip(chosen, open_groups, strict=True):
        first, after = int(starts[group]), int(ends[group])
        row[:] = first
        before, least = least, least + values[first]
        for option in range(first + 1, after):
            taken = int(extra[option])
            if taken > rest:
                break
            candidates = before[: rest + 1 - taken] + values[option]
            is_less = candidates < least[taken:]
            np.copyto(least[taken:], candidates, where=is_less)
            np.copyto(row[taken:], option, where=is_less)
    for row, group in zip(chosen[::-1], open_groups[::-1], strict=True):
        choice[group] = row[rest]
        rest -= int(extra[choice[group]])
    return choice


def choose_heaviest(
    edges: IntArray, sizes: IntArray, values: FloatArray, capacity: int, weights: FloatArray
) -> IntArray:
    """Return options of the groups that have the most weight, of these the least sum of values.

    The heaviest groups that fit with their smallest options take at least some size; what is left
    beside it bounds how much larger than its smallest the option of a group can be.

    Parameters
    ----------
    edges, sizes, values, capacity
        As for `choose_from_all`; groups may be empty, and the smallest options need not fit.
    weights
        Weight of each group as a share of all, positive, shape (n_groups,).

    Returns
    -------
    The options, `OMITTED` where a group is left out; shape (n_groups,).

    Examples
    --------
    >>> edges, sizes = np.array([0, 2, 4]), np.array([2, 4, 3, 4])
    >>> values = np.array([9.0, 2.0, 9.0, 4.0])
    >>> choose_heaviest(edges, sizes, values, 4, np.array([0.6, 0.4])).tolist()
    [1, -1]
    """
    omitted = np.zeros(capacity + 1)
    starts, n_groups = edges[:-1], len(edges) - 1
    has_option = edges[1:] > starts
    for group in range(n_groups):
        placed = omitted
        omitted = omitted + weights[group]
        if has_option[group] and (taken := int(sizes[starts[group]])) <= capacity:
            np.minimum(omitted[taken:], placed[: capacity + 1 - taken], out=omitted[taken:])
    is_heaviest = omitted <= omitted[capacity] + _WEIGHT_MARGIN
    room = capacity - int(np.argmax(is_heaviest))
    best = (np.zeros(capacity + 1), np.zeros(capacity + 1))
    chosen = np.full((n_groups, capacity + 1), OMITTED, dtype=np.int32)
    for group in range(n_groups):
        options = np.arange(edges[group], edges[group + 1])
        if options.size:
            options = options[sizes[options] - sizes[options[0]] <= room]
        best, chosen[group] = _extend(best, sizes, values, options, float(weights[group]))
    choice = np.full(n_groups, OMITTED, dtype=np.int64)
    remaining = capacity
    for group in range(n_groups - 1, -1, -1):
        choice[group] = chosen[group, remaining]
        if choice[group] != OMITTED:
            remaining -= int(sizes[choice[group]])
    return choice


def _extend(
    best: tuple[FloatArray, FloatArray],
    sizes: IntArray,
    values: FloatArray,
    options: IntArray,
    weight: float,
) -> tuple[tuple[FloatArray, FloatArray], IntArray]:
    """Return `best` with one more group, and the option of that group, by capacity.

    `best` holds the least weight left out and the least sum at that weight, by capacity.
    """
    least, value = best[0] + weight, best[1].copy()
    chosen = np.full(least.size, OMITTED, dtype=np.int64)
    for option in options.tolist():
        taken = int(sizes[option])
        if taken >= least.size:
            break
        omitted, sums = (each[: least.size - taken] for each in best)
        sums = sums + values[option]
        is_better = (omitted < least[taken:] - _ROUNDING) | (
            (omitted <= least[taken:] + _ROUNDING) & (sums < value[taken:])
        )
        np.copyto(least[taken:], omitted, where=is_better)
        np.copyto(value[taken:], sums, where=is_better)
        np.copyto(chosen[taken:], option, where=is_better)
    return (least, value), chosen
