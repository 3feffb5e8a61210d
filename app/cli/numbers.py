"""Reads the numbers of options and fields: those that the service and its JSON can take."""

import math
import re
from typing import Any, Final

import typer

from app.cli.failures import UsageError

_NAME: Final = re.compile(r"_|^[+-]?0\d")
"""What makes a name of digits: it would lose it as a number."""
_JSON_WHOLE: Final = 1 << 53
"""Whole numbers beyond are no more exact in JSON than others."""


def _finite(number: float | None) -> float | None:
    """Check an option's number, whose range typer knows and its end not."""
    if number is not None and not math.isfinite(number):
        raise typer.BadParameter(f"{number} is no finite number.")
    return number


def number_option(help_text: str, *, least: float | None = None) -> Any:
    """Return an option whose number is finite, and `least` or more where that is said."""
    return typer.Option(help=help_text, min=least, callback=_finite)


def number_or_text(name: str, text: str) -> float | int | str:
    """Return the number of a field where its text is one: neither `018` nor `1_8`.

    Raises
    ------
    UsageError
        If it is infinite or none: neither has a meaning in any field.
    """
    if _NAME.search(text):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        raise UsageError(f"{name} is {text}, which is no finite number.", f"Mend {name}.")
    is_whole = abs(number) < _JSON_WHOLE and text.strip().lstrip("+-").isdecimal()
    return int(text) if is_whole else number
