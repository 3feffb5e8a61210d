"""Parses the numbers of options and fields that the service and JSON can represent."""

import math
import re
from typing import Any, Final

import typer

from app.cli.failures import UsageError

_NAME: Final = re.compile(r"_|^[+-]?0\d")
"""Leading zeros and underscores make a name of digits: a number would lose them."""
_JSON_WHOLE: Final = 1 << 53
"""Larger integers are not represented exactly in JSON."""


def _finite(number: float | None) -> float | None:
    """Refuse an infinite or undefined number, which typer's range check lets pass."""
    if number is not None and not math.isfinite(number):
        raise typer.BadParameter(f"{number} is not a finite number.")
    return number


def number_option(help_text: str, *, minimum: float | None = None) -> Any:
    """Return an option for a finite number of at least `minimum`, if given."""
    return typer.Option(help=help_text, min=minimum, callback=_finite)


def number_or_text(name: str, text: str) -> float | int | str:
    """Return a field's text as a number if it is one; `018` and `1_8` stay text.

    Raises
    ------
    UsageError
        If it is infinite or NaN, which no field accepts.
    """
    if _NAME.search(text):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        raise UsageError(f"{name} is {text}, which is not a finite number.", f"Correct {name}.")
    is_whole = abs(number) < _JSON_WHOLE and text.strip().lstrip("+-").isdecimal()
    return int(text) if is_whole else number
