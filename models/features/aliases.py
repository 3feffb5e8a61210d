"""Parameters that the GPU type determines, such as a rated power."""

import numpy as np

from models.features.encoder import Encoder
from models.tables import FloatArray, IntArray

_ROUNDING = 1e-9

_ALIASED_SD = 0.02
"""Prior standard deviation of the exponents of columns left aside: close to 0."""


def aliased_columns(encoder: Encoder, X: FloatArray, codes: IntArray) -> IntArray:
    """Return the columns of X that the GPU type determines: parameters constant within each type.

    Empty where a single GPU type was measured.
    """
    names = [category.column for category in encoder.categories]
    gpu = names.index("gpu_type") if "gpu_type" in names else None
    if gpu is None or not encoder.categories[gpu].used:
        return np.empty(0, dtype=np.int64)
    # Short integers are radix-sorted, in a tenth of the time.
    gpu_codes = codes[:, gpu].astype(np.min_scalar_type(len(encoder.categories[gpu].levels)))
    by_type = np.argsort(gpu_codes, kind="stable")
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(gpu_codes[by_type]))])
    aliased = []
    for index, role in enumerate(encoder.layout.roles):
        if role != "parameter":
            continue
        column = X[by_type, index]
        highest, lowest = np.maximum.reduceat(column, starts), np.minimum.reduceat(column, starts)
        if (highest - lowest).max() < _ROUNDING < float(np.ptp(column)):
            aliased.append(index)
    return np.array(aliased, dtype=np.int64)


def alias_values(encoder: Encoder, X: FloatArray, codes: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the columns that the GPU type determines, and their values for each measured type."""
    columns = aliased_columns(encoder, X, codes)
    if not len(columns):
        return columns, np.empty((0, 0))
    names = [category.column for category in encoder.categories]
    gpu = names.index("gpu_type")
    values = np.zeros((len(encoder.categories[gpu].levels), len(columns)))
    values[codes[:, gpu]] = X[:, columns]
    return columns, values


def without_columns(
    numeric: tuple[FloatArray, FloatArray], n_terms: int, n_numeric: int, columns: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations under which a law leaves some columns aside.

    The effect of a parameter that is constant within each GPU type (rated power, say) cannot be
    separated from the type's effect; where that effect is pooled, the parameter would absorb it.

    Examples
    --------
    >>> without_columns((np.ones(2), np.ones(2)), 1, 1, np.array([0]))[1].tolist()
    [1.0, 0.02]
    """
    means, sds = numeric[0].copy(), numeric[1].copy()
    for term in range(n_terms):
        positions = n_terms + term * n_numeric + columns
        means[positions], sds[positions] = 0.0, _ALIASED_SD
    return means, sds
