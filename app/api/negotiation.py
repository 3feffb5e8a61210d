"""Which of several representations a caller wants."""

from collections.abc import Sequence
from typing import Final

JSON: Final = "application/json"
TEXT: Final = "text/plain"
CSV: Final = "text/csv"


def preferred(accept: str | None, offered: Sequence[str] = (JSON, TEXT, CSV)) -> str:
    """Return the offered type that an `Accept` header prefers, the first where it has no say.

    Examples
    --------
    >>> preferred("text/html, text/plain;q=0.9"), preferred("*/*"), preferred(None)
    ('text/plain', 'application/json', 'application/json')
    >>> preferred("text/csv;q=high, text/plain;level=1;q=0.5, text/*;q=0")
    'text/plain'
    """
    best, best_quality = offered[0], 0.0
    for item in (accept or "").split(","):
        media_range, *parameters = (part.strip().casefold() for part in item.split(";"))
        quality = _quality(parameters)
        match = next((name for name in offered if _covers(media_range, name)), None)
        if match is not None and quality > best_quality:
            best, best_quality = match, quality
    return best


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _covers(media_range: str, name: str) -> bool:
    return media_range in {name, f"{name.partition('/')[0]}/*", "*/*"}
