"""What every service gets: the database, the settings and the clock."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from app.domain.health import Fitters
from app.settings import Settings
from app.storage.database import Database
from app.storage.stores import Stores


def utc_now() -> datetime:
    """Return the current instant, aware and in UTC."""
    return datetime.now(UTC)


def by_database(stores: Stores) -> datetime:
    """Return the current instant by the database server; SQLite uses this machine's clock."""
    return stores.leases.clock() or utc_now()


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The surroundings of a service.

    Parameters
    ----------
    database, settings
        The process's own.
    now
        The process's clock.
    shared_now
        The clock shared by all processes, by which leases are granted and judged. None: the
        database server's clock if `now` is this machine's, so that a step of one machine's clock
        neither ends a lease nor prolongs one; otherwise `now`.
    stopping
        Set when the process is told to end: nobody should wait for later events.
    """

    database: Database
    settings: Settings
    now: Callable[[], datetime] = utc_now
    shared_now: Callable[[Stores], datetime] | None = None
    stopping: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    def lease_now(self, stores: Stores) -> datetime:
        """Return the instant by the clock of leases, which also orders a workload's runs."""
        if self.shared_now is not None:
            return self.shared_now(stores)
        return by_database(stores) if self.now is utc_now else self.now()

    def fitters(self, stores: Stores) -> Fitters:
        """Return the fitters that are alive by the clock of leases."""
        lease, now = timedelta(seconds=self.settings.lease_s), self.lease_now(stores)
        return stores.fits.fitters(now - lease, now + lease)
