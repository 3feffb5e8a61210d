"""What every service is given: the database, the settings and the clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from app.settings import Settings
from app.storage.database import Database


def utc_now() -> datetime:
    """Return the present instant, aware and in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The surroundings of a service."""

    database: Database
    settings: Settings
    now: Callable[[], datetime] = utc_now
