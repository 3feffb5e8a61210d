"""Durations, money and shares as people read them."""

from typing import Any, Final

_UNITS: Final = ((86_400.0, "d", 3600.0, "h"), (3600.0, "h", 60.0, "min"), (60.0, "min", 1.0, "s"))
_WHOLE_SECONDS_FROM: Final = 10.0


def duration(seconds: float) -> str:
    """Return a duration in its two largest units.

    Examples
    --------
    >>> duration(5.25), duration(95), duration(33120), duration(200000)
    ('5.25 s', '1 min 35 s', '9 h 12 min', '2 d 8 h')
    """
    for unit, name, part, part_name in _UNITS:
        parts = round(seconds / part)
        if parts * part >= unit:
            whole, rest = divmod(parts, round(unit / part))
            return f"{whole} {name} {rest} {part_name}" if rest else f"{whole} {name}"
    return f"{seconds:.0f} s" if seconds >= _WHOLE_SECONDS_FROM else f"{seconds:.3g} s"


def money(cost: dict[str, Any] | None) -> str:
    """Return a forecast's cost with its bounds, `-` where no price is known."""
    if cost is None:
        return "-"
    return f"{cost['median']} {cost['currency']} ({cost['lower']} to {cost['upper']})"


def interval(band: dict[str, Any]) -> str:
    """Return the bounds of a duration."""
    return f"{duration(band['lower'])} to {duration(band['upper'])}"


def percent(share: float | None) -> str:
    """Return a fraction as a percentage, `-` for none."""
    return "-" if share is None else f"{100 * share:.1f} %"
