"""Formats amounts of money, intervals and shares for people."""

from typing import Any

from app.domain.wording import say_seconds


def money(cost: dict[str, Any] | None) -> str:
    """Return a forecast's cost with its bounds, `-` if no price is known."""
    if cost is None:
        return "-"
    return f"{cost['median']} {cost['currency']} ({cost['lower']} to {cost['upper']})"


def interval(band: dict[str, Any]) -> str:
    """Return the bounds of a duration."""
    return f"{say_seconds(band['lower'])} to {say_seconds(band['upper'])}"


def percent(share: float | None) -> str:
    """Return a fraction as a percentage, `-` for none.

    Examples
    --------
    >>> percent(0.9), percent(0.0734), percent(None)
    ('90%', '7.3%', '-')
    """
    return "-" if share is None else f"{round(100 * share, 1):g}%"
