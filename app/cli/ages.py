"""Time spans as an operator writes them."""

import re
from datetime import timedelta
from typing import Final

from app.cli.failures import UsageError

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST: Final = timedelta(days=36_525)


def parse_age(text: str) -> timedelta:
    """Return a time span written as 90s, 30m, 12h, 7d or 2w.

    Raises
    ------
    UsageError
        If it is written otherwise, or longer than a century.
    """
    parts = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", text.strip())
    if parts is None:
        raise UsageError(
            f"{text!r} is no time span.", "Write a number and s, m, h, d or w, such as 7d."
        )
    age = timedelta(seconds=float(parts[1]) * _SECONDS[parts[2]])
    if age > _LONGEST:
        raise UsageError(f"{text} is longer than a century.", "Write a shorter one, such as 7d.")
    return age
