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
