"""Units of durations and rates as benchmark tools write them."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {
    "ps": 1e-12,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
}
_ABBREVIATIONS: Final = {
    "picosecond": "ps",
    "nanosecond": "ns",
    "microsecond": "us",
    "millisecond": "ms",
    "msec": "ms",
    "usec": "us",
    "nsec": "ns",
    "second": "s",
    "sec": "s",
    "minute": "min",
    "hour": "h",
    "hr": "h",
    "μs": "µs",
}
_PER: Final = re.compile(r"\s*(?:/|\bper\b)\s*")
_DATA: Final = re.compile(r"(?:[kmgtp]i?)?(?:b|bits?|bytes?)|(?:kilo|mega|giga)(?:bits?|bytes?)")
_BRACKETS: Final = re.compile(r".*\((\w+)\)")


def duration_s(value: float, unit: str) -> float | None:
    """Return the seconds of one execution, None if the unit is not one of time.

    A rate of executions per second is read as the time of one. Time per amount of data or time is
    no duration.

    Examples
    --------
    >>> duration_s(1500, "us/iter"), duration_s(4, "ops/sec"), duration_s(3, "MB/s")
    (0.0015, 0.25, None)
    >>> duration_s(88, "nanoseconds (ns)"), duration_s(2, "Minutes"), duration_s(1, "%")
    (8.8e-08, 120.0, None)
    >>> duration_s(2, "mins"), duration_s(3, "hrs"), duration_s(4, "msecs")
    (120.0, 10800.0, 0.004)
    >>> duration_s(2, "sec/MB"), duration_s(3, "ms/s")
    (None, None)
    """
    match = _BRACKETS.fullmatch(unit)
    numerator, *denominator = _PER.split(
        (match[1] if match else unit).strip().casefold(), maxsplit=1
    )
    scale = _scale(numerator)
    if scale is not None and denominator and _is_measure(denominator[0]):
        return None
    if scale is not None:
        return float(f"{value * scale:.12g}")
    if denominator and numerator in _EXECUTIONS and value > 0:
        period_s = _scale(denominator[0])
        return None if period_s is None else period_s / value
    return None


_EXECUTIONS: Final = frozenset(
    {"iter", "iters", "iterations", "op", "ops", "operations", "runs", "executions"}
)


def _is_measure(word: str) -> bool:
    return _scale(word) is not None or _DATA.fullmatch(word) is not None


def _scale(word: str) -> float | None:
    spellings = (word, word.removesuffix("s"))
    units = [_ABBREVIATIONS.get(spelling, spelling) for spelling in spellings]
    return next((_SECONDS[unit] for unit in units if unit in _SECONDS), None)
