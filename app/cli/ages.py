"""Parses ages in operator commands."""

from datetime import timedelta
from typing import Final

from app.cli.failures import UsageError
from app.domain.spans import parse_span

_MAX_AGE: Final = timedelta(days=36_525)


def parse_age(text: str) -> timedelta:
    """Return a time span written as 90s, 30min, 12h, 7d or 2w.

    Raises
    ------
    UsageError
        If it has another form, or exceeds a century.
    """
    age = parse_span(text)
    if age is None:
        raise UsageError(
            f"{text!r} is not a time span.", "Write a number and s, min, h, d or w, such as 7d."
        )
    if age > _MAX_AGE:
        raise UsageError(f"{text} is longer than a century.", "Write a shorter one, such as 7d.")
    return age
