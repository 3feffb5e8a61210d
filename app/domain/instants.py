"""Instants as they are written on the wire."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=4096)
def instant_text(instant: datetime) -> str:
    """Return an instant as RFC 3339 in UTC.

    Examples
    --------
    >>> instant_text(datetime(2026, 11, 1, 10, tzinfo=UTC))
    '2026-11-01T10:00:00Z'
    """
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
