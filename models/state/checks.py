"""Checks of numbers from an artefact: nothing is trusted, and each fault is named."""

import numpy as np

from models.features.layout import Layout
from models.tables import FloatArray

MAX_LOG = 1e3
"""Larger than any log duration, log feature or effect of a fit."""

_ROUNDING = 1e-6
_highest, _lowest = np.maximum.reduce, np.minimum.reduce


def demand(is_true: object, fault: str) -> None:
    """Raise ValueError with the given fault unless a condition holds.

    Examples
    --------
    >>> demand(False, "a weight is negative")
    Traceback (most recent call last):
    ...
    ValueError: a weight is negative
    """
    if not is_true:
        raise ValueError(fault)


def check_bounded(
    array: FloatArray, shape: tuple[int, ...], name: str, bound: float = MAX_LOG
) -> None:
    """Check an array's shape and that its numbers are within a bound (by default `MAX_LOG`).

    Raises
    ------
    ValueError
        If they are not.
    """
    if array.shape != shape:
        raise ValueError(f"{name} has not the shape {shape}")
    # Without a copy; the comparison also refuses NaN.
    highest, lowest = (
        _highest(array, axis=None, initial=0.0),
        _lowest(array, axis=None, initial=0.0),
    )
    if not (highest <= bound and lowest >= -bound):
        raise ValueError(f"{name} holds a number beyond {bound:g}")


def check_weights(weights: FloatArray) -> None:
    """Check that the weights of each row are not negative and sum to 1.

    Raises
    ------
    ValueError
        If they do not, or there are none.
    """
    demand(weights.size, "there are no weights")
    is_share = weights.min() >= 0 and np.abs(weights.sum(axis=-1) - 1).max() < _ROUNDING
    demand(is_share, "weights are no shares")


def check_codes(codes: FloatArray, levels: tuple[int, ...]) -> None:
    """Check that each row has a level of each category.

    Raises
    ------
    ValueError
        If a code is not a whole number or not that of a level.
    """
    demand(codes.ndim == 2 and codes.shape[1] == len(levels), "codes have other categories")  # noqa: PLR2004 - a matrix
    for column, count in zip(codes.T, levels, strict=True):
        is_level = (column == np.floor(column)) & (column >= 0) & (column < count)
        demand(is_level.all(), "a code names no level")


def check_rows(X: FloatArray, layout: Layout) -> None:
    """Check that a matrix has the columns of a layout and at least one row.

    Raises
    ------
    ValueError
        If it has not, or a code is not that of a level.
    """
    demand(len(X) and X.ndim == 2, "there are no rows")  # noqa: PLR2004 - a matrix
    check_bounded(X, (len(X), layout.n_columns), "X")
    check_codes(X[:, layout.n_numeric + 1 :], layout.levels)
