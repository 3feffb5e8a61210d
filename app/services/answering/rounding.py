"""Rounds many figures to significant digits, exactly as text formatting would."""

from typing import Final

import numpy as np

from models import FloatArray

_POWERS: Final = np.array([float(f"1e{power}") for power in range(23)])
"""The powers of ten that are exact in binary: dividing by one rounds only once."""

_NEAR_HALF: Final = 1e-4
_FEW: Final = 96
"""Up to this many figures are rounded faster by their texts than as arrays."""


def significant(values: FloatArray, digits: int) -> list[float]:
    """Return figures to significant digits, equal to `float(f"{value:.{digits}g}")`.

    Parameters
    ----------
    values
        Any numbers, shape (n,).
    digits
        Number of significant digits, from 1 to 9.

    Examples
    --------
    >>> significant(np.array([0.123456, 98765.4, -2.5e-30]), 3)
    [0.123, 98800.0, -2.5e-30]
    """
    if len(values) <= _FEW:
        texts = f"%.{digits}g " * len(values) % tuple(values.tolist())
        return list(map(float, texts.split()))
    with np.errstate(all="ignore"):
        is_regular = np.isfinite(values) & (values != 0.0)
        exponent = np.where(is_regular, np.floor(np.log10(np.abs(values))), 0.0)
        shift = digits - 1 - exponent
        is_exact = np.abs(shift) < len(_POWERS)
        power = _POWERS[np.abs(np.where(is_exact, shift, 0.0)).astype(np.int64)]
        scaled = np.where(shift >= 0, values * power, values / power)
        integers = np.rint(scaled)
        # The product is itself rounded: near a half, the text decides.
        is_exact &= np.abs(np.abs(scaled - integers) - 0.5) > _NEAR_HALF
        is_exact |= ~is_regular  # 0, infinite or NaN: as it is
        restored = np.where(shift >= 0, integers / power, integers * power)
        rounded: list[float] = np.where(is_regular, restored, values).tolist()
    for row in np.flatnonzero(~is_exact).tolist():
        rounded[row] = float(f"{values[row]:.{digits}g}")
    return rounded
