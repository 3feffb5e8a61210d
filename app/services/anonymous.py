"""The caller without a key: anybody who reaches the service, as the default project."""

import asyncio
from concurrent.futures import Executor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.errors import StorageUnavailableError
from app.services.context import ServiceContext

_FRESH_FOR: Final = timedelta(seconds=5)


class AnonymousCaller:
    """Knows how often the default project may ask, and asks the database behind the requests.

    Parameters
    ----------
    context
        The surroundings of the service.
    behind
        Reads again while requests go on with what was read last.
    """

    def __init__(self, context: ServiceContext, behind: Executor) -> None:
        self._context = context
        self._behind = behind
        self._principal = Principal(DEFAULT_PROJECT, frozenset(Scope))
        self._read_at: datetime | None = None
        self._is_reading = False

    async def principal(self) -> Principal:
        """Return the caller; only the first one waits for the database."""
        now = self._context.now()
        if self._read_at is None:
            await asyncio.to_thread(self._read, now)
        elif not self._is_reading and now - self._read_at >= _FRESH_FOR:
            self._is_reading = True
            self._behind.submit(self._read, now)
        return self._principal

    def _read(self, now: datetime) -> None:
        try:
            with self._context.database.reading() as stores:
                limit = stores.quotas.get(DEFAULT_PROJECT).requests_per_minute
            self._principal = replace(self._principal, requests_per_minute=limit)
        except StorageUnavailableError:
            pass  # the limit that was known goes on
        finally:
            self._read_at, self._is_reading = now, False
