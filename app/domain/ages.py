"""The age of dated facts, in whole days, so that an answer is valid for its day."""

from datetime import datetime, timedelta


def age(valid_from: datetime, as_of: datetime) -> timedelta:
    """Return for how many calendar days a fact has been valid; both instants are UTC.

    Examples
    --------
    >>> from datetime import UTC
    >>> age(datetime(2026, 1, 1, 23, tzinfo=UTC), datetime(2026, 1, 2, 1, tzinfo=UTC)).days
    1
    """
    return as_of.date() - valid_from.date()


def day_of(instant: datetime) -> datetime:
    """Return the start of the day of an instant; both are UTC."""
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def day_after(instant: datetime) -> datetime:
    """Return the start of the next day, when every age changes; both instants are UTC.

    Examples
    --------
    >>> from datetime import UTC
    >>> day_after(datetime(2026, 1, 31, 23, 59, tzinfo=UTC)).isoformat()
    '2026-02-01T00:00:00+00:00'
    """
    return day_of(instant) + timedelta(days=1)
