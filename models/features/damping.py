"""Trends that fade beyond the measured range of a feature."""

from math import inf, log
from typing import Final, Literal

import numpy as np

from models.tables import FloatArray

Fading = Literal["none", "below", "above", "both"]
"""On which sides of its measured range the trend of a feature fades."""

DAMPING_LENGTH: Final = log(2.0)
"""Farthest that a fading trend continues beyond the measured range, in log units."""


def fading_range(fades: Fading, low: float, high: float) -> tuple[float, float]:
    """Return the range beyond which a trend fades: infinite on a side where it continues.

    Examples
    --------
    >>> fading_range("below", -1.0, 2.0)
    (-1.0, inf)
    """
    return low if fades in ("below", "both") else -inf, high if fades in ("above", "both") else inf


def damped(values: FloatArray, low: float, high: float) -> FloatArray:
    """Return values with their distance beyond a range damped.

    A distance e becomes ``l (1 - exp(-e / l))`` with l the `DAMPING_LENGTH`: the trend continues
    with its slope at the end of the range and fades within a doubling. `models.columns.trends`
    decides which trends fade.

    Parameters
    ----------
    values
        A transformed feature, in log units, any shape.
    low, high
        The measured range, low <= high; infinite where the trend continues.

    References
    ----------
    Gardner, McKenzie (1985), Forecasting trends in time series, Management Science 31(10).

    Examples
    --------
    >>> damped(np.array([-9.0, 0.0, 0.5, 1.1, 9.0]), 0.0, 1.0).round(2).tolist()
    [-0.69, 0.0, 0.5, 1.09, 1.69]
    """
    clipped = np.clip(values, low, high)
    excess = values - clipped
    result: FloatArray = clipped - np.sign(excess) * DAMPING_LENGTH * np.expm1(
        -np.abs(excess) / DAMPING_LENGTH
    )
    return result
