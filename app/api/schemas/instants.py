"""Instants in requests, converted to UTC."""

import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator
from pydantic_core import PydanticCustomError

_FIRST_YEAR = 1970
_LAST_YEAR = 2999
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
"""RFC 3339 has no dates of weeks (`2026-W44-7`), which Python reads too."""

_SIGN_LOST: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\S+ \d\d:?(\d\d)?", re.ASCII)
"""In a query string an unescaped plus means a space."""


def _refuse_numbers(value: Any) -> Any:
    """Refuse numbers in place of an instant: pydantic would read them as Unix seconds."""
    if isinstance(value, int | float) or (isinstance(value, str) and _is_number(value)):
        raise PydanticCustomError(
            "instant",
            "A number is not an instant",
            {"remedy": "Write 2026-11-01T00:00:00Z (RFC 3339), not digits alone or Unix seconds."},
        )
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_lost_sign(value: Any) -> Any:
    if isinstance(value, str) and _SIGN_LOST.fullmatch(value.strip()):
        raise PydanticCustomError(
            "instant",
            "The offset has no sign",
            {"remedy": "Send its sign; a URL has %2B for a plus: 2026-11-01T10:00:00%2B05:30."},
        )
    return value


def _from_date(value: Any) -> Any:
    """Convert a plain date to midnight UTC."""
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        try:
            return datetime.combine(date.fromisoformat(value.strip()), time.min, UTC)
        except ValueError:
            return value
    return value


def _within_calendar(instant: datetime) -> datetime:
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise PydanticCustomError(
            "instant",
            "The instant lies outside the years 1 to 9999 in UTC",
            {"remedy": "Send an RFC 3339 instant such as 2026-11-01T10:00:00Z."},
        ) from error


def _to_utc(instant: datetime) -> datetime:
    in_utc = _within_calendar(instant)
    if not _FIRST_YEAR <= in_utc.year <= _LAST_YEAR:
        raise PydanticCustomError(
            "instant",
            "The instant lies outside the years 1970 to 2999 in UTC",
            {"remedy": "Send an RFC 3339 instant such as 2026-11-01T10:00:00Z, or a date."},
        )
    return in_utc


# Pydantic runs the last BeforeValidator first.
Instant = Annotated[
    AwareDatetime,
    BeforeValidator(_from_date),
    BeforeValidator(_refuse_lost_sign),
    BeforeValidator(_refuse_numbers),
    AfterValidator(_to_utc),
]
"""An instant to store, in UTC, from 1970 to 2999; a plain date means its midnight."""
Moment = Annotated[
    AwareDatetime,
    BeforeValidator(_refuse_lost_sign),
    BeforeValidator(_refuse_numbers),
    AfterValidator(_within_calendar),
]
"""An instant to compare with, in UTC, from year 1 to 9999; plain dates are refused."""
