"""How old a dated fact is: facts age by days, so that an answer holds for its day."""

from datetime import datetime, timedelta


def age(valid_from: datetime, as_of: datetime) -> timedelta:
    """Return for how many days of the calendar a fact has held; both instants are UTC.

    Examples
    --------
    >>> from datetime import UTC
    >>> age(datetime(2026, 1, 1, 23, tzinfo=UTC), datetime(2026, 1, 2, 1, tzinfo=UTC)).days
    1
    """
    return as_of.date() - valid_from.date()


def day_of(instant: datetime) -> datetime:
    """Return when the day of an instant began; both are UTC."""
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def day_after(instant: datetime) -> datetime:
    """Return when the next day begins, and every age becomes another; both instants are UTC.

    Examples
    --------
    >>> from datetime import UTC
    >>> day_after(datetime(2026, 1, 31, 23, 59, tzinfo=UTC)).isoformat()
    '2026-02-01T00:00:00+00:00'
    """
    return day_of(instant) + timedelta(days=1)
