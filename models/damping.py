"""Trends that do not go on for ever: the batch axis beyond its measured range."""

from math import log
from typing import Final

import numpy as np

from models.tables import FloatArray

REACH: Final = log(2.0)
"""How far, in log units, a trend of the batch goes on beyond the measured range at most."""


def damped(values: FloatArray, low: float, high: float) -> FloatArray:
    """Return values whose distance beyond a range is damped.

    A distance e becomes ``REACH (1 - exp(-e / REACH))``: the trend goes on with its slope at the
    end of the range and fades within a doubling. The slope of the duration in the local batch is
    that of a cost per step, which ceases to count as the batch grows, and of an efficiency that
    has a floor as it shrinks.

    Parameters
    ----------
    values
        Transformed local batch, in log units, any shape.
    low, high
        The range that was measured, low <= high; `high` is infinite where the trend goes on.

    References
    ----------
    Gardner, McKenzie (1985), Forecasting trends in time series, Management Science 31(10).

    Examples
    --------
    >>> damped(np.array([-9.0, 0.0, 0.5, 1.1, 9.0]), 0.0, 1.0).round(2).tolist()
    [-0.69, 0.0, 0.5, 1.09, 1.69]
    """
    inside = np.clip(values, low, high)
    beyond = values - inside
    result: FloatArray = inside - np.sign(beyond) * REACH * np.expm1(-np.abs(beyond) / REACH)
    return result
