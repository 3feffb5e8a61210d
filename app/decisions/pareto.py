"""The Pareto front of two quantities that are both minimised."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
_N_ENDS = 2


def pareto_front(first: FloatArray, second: FloatArray) -> IndexArray:
    """Return the indices of all undominated points, by rising `first`.

    A point is dominated if another is at most as large in both quantities and smaller in one.
    Points with a NaN are left out; equal points do not dominate each other.

    Parameters
    ----------
    first, second
        Two quantities of each point, shape (n_points,).

    Returns
    -------
    Indices into the arrays, shape (n_undominated,).

    References
    ----------
    Kung, Luccio and Preparata (1975), On finding the maxima of a set of vectors, J. ACM 22(4).

    Examples
    --------
    >>> pareto_front(np.array([1.0, 2.0, 3.0, 2.0]), np.array([9.0, 4.0, 5.0, 4.0])).tolist()
    [0, 1, 3]
    """
    valid = np.flatnonzero(~(np.isnan(first) | np.isnan(second)))
    order = valid[np.lexsort((second[valid], first[valid]))]
    if order.size == 0:
        return order
    x, y = first[order], second[order]
    # In this order only an earlier point can dominate a later one: one with a smaller second
    # quantity, or an equal one whose first quantity is smaller.
    best_before = np.minimum.accumulate(np.concatenate(([np.inf], y[:-1])))
    repeats = np.concatenate(([False], (np.diff(x) == 0) & (np.diff(y) == 0)))
    kept = y < best_before
    group = np.cumsum(~repeats) - 1
    front: IndexArray = order[kept[~repeats][group]]
    return front


def thin_front(front: IndexArray, limit: int, keep: int | None = None) -> IndexArray:
    """Return `limit` points of a longer front in its order, spread from end to end.

    Parameters
    ----------
    front
        Indices along the front, shape (n,).
    limit
        The most points to return, from 1 on.
    keep
        An index to keep if it is on the front, in place of the chosen point nearest to it.

    Examples
    --------
    >>> thin_front(np.arange(30), 4).tolist()
    [0, 10, 19, 29]
    >>> thin_front(np.arange(30), 4, keep=12).tolist()
    [0, 12, 19, 29]
    >>> thin_front(np.arange(30), 1, keep=29).tolist()
    [29]
    """
    if len(front) <= limit:
        return front
    positions = np.linspace(0, len(front) - 1, limit).round().astype(np.intp)
    position = np.flatnonzero(front == keep) if keep is not None else front[:0]
    if position.size and position[0] not in positions:
        inner = positions[1:-1] if limit > _N_ENDS else positions
        inner[np.abs(inner - position[0]).argmin()] = position[0]
    return front[positions]
