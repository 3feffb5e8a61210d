"""The caller without a key: anybody who reaches the service, acting as the default project."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from app.domain import deadlines
from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.availability_errors import StorageUnavailableError
from app.domain.instants import elapsed
from app.services.context import ServiceContext

_FRESH_FOR: Final = timedelta(seconds=5)


class AnonymousCaller:
    """Knows the default project's request limit, read anew in the background."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._principal = Principal(DEFAULT_PROJECT, frozenset(Scope))
        self._read_at: datetime | None = None
        self.reading: asyncio.Task[None] | None = None
        """The refresh under way, for which no request waits; done, or None, without one."""

    async def principal(self) -> Principal:
        """Return the caller; only the first call waits for the database."""
        if self._read_at is None:
            await asyncio.to_thread(self._read, self._context.now())
        return self.at_hand() or self._principal

    def at_hand(self) -> Principal | None:
        """Return the caller, None until the first call has waited for the database."""
        if self._read_at is None:
            return None
        now = self._context.now()
        is_old = elapsed(self._read_at, now) >= _FRESH_FOR
        if is_old and (self.reading is None or self.reading.done()):
            self.reading = asyncio.create_task(asyncio.to_thread(self._read, now))
        return self._principal

    def _read(self, now: datetime) -> None:
        try:
            # The request that started this may end earlier.
            with deadlines.unlimited(), self._context.database.reading() as stores:
                limit = stores.quotas.get(DEFAULT_PROJECT).requests_per_minute
            self._principal = replace(self._principal, requests_per_minute=limit)
        except StorageUnavailableError:
            pass  # keep the last known limit
        finally:
            self._read_at = now
