"""What every service is given: the database, the settings and the clock."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from app.settings import Settings
from app.storage.database import Database
from app.storage.stores import Stores


def utc_now() -> datetime:
    """Return the present instant, aware and in UTC."""
    return datetime.now(UTC)


def by_database(stores: Stores) -> datetime:
    """Return the present by the database's server; SQLite has no clock but this machine's."""
    return stores.leases.clock() or utc_now()


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The surroundings of a service.

    Parameters
    ----------
    database, settings
        Those of the process.
    now
        Its clock.
    shared_now
        The clock that all processes share, by which leases are given and judged. None: that of the
        database's server where `now` is this machine's, so that a step of one machine's clock
        neither takes a lease away nor keeps one; otherwise `now`.
    stopping
        Set when the process is told to end: nobody is to wait for what comes later.
    """

    database: Database
    settings: Settings
    now: Callable[[], datetime] = utc_now
    shared_now: Callable[[Stores], datetime] | None = None
    stopping: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    def lease_now(self, stores: Stores) -> datetime:
        """Return the present instant as leases know it, and the order of a workload's runs."""
        if self.shared_now is not None:
            return self.shared_now(stores)
        return by_database(stores) if self.now is utc_now else self.now()
