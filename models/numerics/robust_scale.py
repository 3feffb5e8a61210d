"""The robust standard deviation: the scatter of most values, whatever a few of them do."""

from typing import Final

import numpy as np

from models.tables import FloatArray

_MAD_TO_SD: Final = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation (MAD)."""


def robust_sd(deviations: FloatArray) -> float:
    """Return ``1.4826 MAD``, which is the standard deviation of normal deviations.

    Parameters
    ----------
    deviations
        Deviations from a centre, shape (n,), at least one.

    References
    ----------
    Hampel (1974), The influence curve and its role in robust estimation, J. Am. Statist. Assoc.
    69(346), 383-393.

    Examples
    --------
    >>> robust_sd(np.array([-2.0, 0.5, 2.0, 1000.0]))
    2.9652
    """
    return _MAD_TO_SD * float(np.median(np.abs(deviations)))
