"""Instants as they are computed and written on the wire."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_LONGEST_S: Final = 1e10
"""Instants further from now than this, some 317 years, are not given."""


def later(now: datetime, seconds: float) -> datetime | None:
    """Return the instant some seconds from now, None if it is too far in the future.

    Examples
    --------
    >>> now = datetime(2026, 11, 1, 10, tzinfo=UTC)
    >>> str(later(now, 90.0)), later(now, 1e12), later(now, float("inf"))
    ('2026-11-01 10:01:30+00:00', None, None)
    """
    return now + timedelta(seconds=seconds) if abs(seconds) < _LONGEST_S else None


def elapsed(since: datetime, now: datetime) -> timedelta:
    """Return how long ago something was; never negative.

    An instant in the future was read from a clock that has been set back since. It counts as long
    ago as it is ahead: otherwise, what was read then would be taken for fresh until the clock is
    there again.

    Examples
    --------
    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> str(elapsed(noon, noon + timedelta(seconds=5)))
    '0:00:05'
    >>> str(elapsed(noon, noon - timedelta(hours=1)))
    '1:00:00'
    """
    return abs(now - since)


@lru_cache(maxsize=4096)
def instant_text(instant: datetime) -> str:
    """Return an instant as RFC 3339 in UTC.

    Examples
    --------
    >>> instant_text(datetime(2026, 11, 1, 10, tzinfo=UTC))
    '2026-11-01T10:00:00Z'
    """
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def second_text(instant: datetime | None) -> str | None:
    """Return an instant in UTC as RFC 3339 to the second, None for None.

    Examples
    --------
    >>> second_text(datetime(2026, 11, 1, 10, 0, 0, 250_000, tzinfo=UTC))
    '2026-11-01T10:00:00Z'
    """
    return None if instant is None else f"{instant:%Y-%m-%dT%H:%M:%SZ}"
