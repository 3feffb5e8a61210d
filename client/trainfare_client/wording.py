"""Says figures in sentences for people."""

from __future__ import annotations

from typing import Final

_WHOLE_FROM_S: Final = 1000
_MICROSECONDS_BELOW_S: Final = 1e-4


def say_seconds(seconds: float) -> str:
    """Return seconds without an exponent: at least four digits, fewer of a tiny duration.

    Examples
    --------
    >>> [say_seconds(value) for value in (512.34, 41234.6, 1_281_167.0, 0.50674, 0.0000794)]
    ['512.3', '41,235', '1,281,167', '0.5067', '0.000079']
    """
    if seconds >= _WHOLE_FROM_S:
        return f"{seconds:,.0f}"
    return f"{seconds:.4g}" if seconds >= _MICROSECONDS_BELOW_S else f"{seconds:.6f}"
