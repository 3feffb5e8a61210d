"""Limits projects' request rates over all replicas, by leases from the database."""

import asyncio
import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from app.domain.availability_errors import StorageUnavailableError
from app.domain.identifiers import ProjectId
from app.services.context import ServiceContext

_WINDOW_S: Final = 60
_LEASES_PER_WINDOW: Final = 20
_MAX_WINDOWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """Whether a request is allowed, roughly how many are left, and when the window ends."""

    is_allowed: bool
    remaining: int
    reset_s: int


@dataclass(slots=True)
class _Window:
    """The share that this process holds of one project's current minute."""

    minute: int
    in_hand: int = 0
    left: int = 1
    leasing: asyncio.Lock = field(default_factory=asyncio.Lock)


def _minute(now: datetime) -> int:
    return int(now.timestamp()) // _WINDOW_S


class RequestRates:
    """Counts the requests of a project over all replicas.

    A process leases a twentieth of the limit at a time and spends it from memory, so that the
    database is asked about twenty times a minute per project, however many requests come. What a
    process leases but does not spend by the end of the minute is lost to the others: with many
    replicas, a project is refused early by at most one lease per replica, and never late. The
    clock shared by all processes determines the minute that a lease is taken from, and when the
    next one begins here: to a clock that is ahead, a minute spent by all would seem to be the next.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._windows: dict[ProjectId, _Window] = {}
        self._ahead = timedelta()
        """How far this machine's clock was ahead of the shared one at the last lease."""

    async def take(self, project_id: ProjectId, limit: int) -> Allowance:
        """Count one request of a project that is allowed `limit` requests a minute."""
        window = self._window(project_id)
        if not window.in_hand and window.left:
            async with window.leasing:
                if not window.in_hand and window.left:
                    await self._lease(project_id, window, limit)
        reset_s = _WINDOW_S - int(self._now().timestamp()) % _WINDOW_S
        if not window.in_hand:
            return Allowance(is_allowed=False, remaining=0, reset_s=reset_s)
        window.in_hand -= 1
        return Allowance(is_allowed=True, remaining=window.in_hand + window.left, reset_s=reset_s)

    def _now(self) -> datetime:
        """Return the current instant by the shared clock, as far as it is known."""
        return self._context.now() - self._ahead

    def _window(self, project_id: ProjectId) -> _Window:
        minute = _minute(self._now())
        window = self._windows.get(project_id)
        if window is None or window.minute != minute:
            if len(self._windows) >= _MAX_WINDOWS:
                self._windows.clear()
            window = self._windows[project_id] = _Window(minute)
        return window

    async def _lease(self, project_id: ProjectId, window: _Window, limit: int) -> None:
        wanted = math.ceil(limit / _LEASES_PER_WINDOW)
        try:
            async with asyncio.timeout(self._context.settings.database_patience_s):
                window.in_hand, window.left = await asyncio.to_thread(
                    self._take, project_id, wanted, limit
                )
        except (StorageUnavailableError, TimeoutError):
            # Forecasts from memory continue without the database: each process counts for itself.
            window.in_hand, window.left = limit, 0

    def _take(self, project_id: ProjectId, wanted: int, limit: int) -> tuple[int, int]:
        with self._context.database.transaction() as stores:
            shared = self._context.lease_now(stores)
            # Read afterwards: the instant derived from it is never ahead of the shared one.
            self._ahead = self._context.now() - shared
            minute = _minute(shared)
            return stores.quotas.take_requests(project_id, minute, wanted=wanted, limit=limit)
