"""The grid of log durations, on which sums and differences are exact."""

from typing import Final

import numpy as np

from models.tables import FloatArray

LOG_GRID: Final = 2.0**-26
"""Log durations are multiples of this (1.5e-8 of a duration).

Sums and differences of such numbers are exact, so that durations in another unit give the same
fit to the last bit; an optimiser would amplify the rounding of logarithms."""


def on_log_grid(logs: FloatArray, step: float = LOG_GRID) -> FloatArray:
    """Return the nearest multiples of the grid, or of another power of two.

    Examples
    --------
    >>> on_log_grid(np.array([0.5, 0.1])).tolist()
    [0.5, 0.09999999403953552]
    """
    return np.asarray(np.rint(logs / step) * step, dtype=np.float64)
