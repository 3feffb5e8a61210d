"""Spans of time as people write them."""

import re
from datetime import timedelta
from typing import Final

_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(s|min|h|d|w)")
_UNITS: Final = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_span(text: str) -> timedelta | None:
    """Return a span that is written as 90s, 30min, 12h, 7d or 2w; None for any other text.

    Minutes are not `m`, which may mean months: such spans say which records are old enough to be
    removed. A span too long for Python becomes the longest possible one.

    Examples
    --------
    >>> parse_span("1.5d"), parse_span("3min"), parse_span("3m")
    (datetime.timedelta(days=1, seconds=43200), datetime.timedelta(seconds=180), None)
    """
    parts = _SPAN.fullmatch(text.strip().casefold())
    if parts is None or not parts[0].isascii():
        return None
    try:
        return timedelta(**{_UNITS[parts[2]]: float(parts[1])})
    except OverflowError:
        return timedelta.max
