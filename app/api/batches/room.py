"""Bounds how many batch entries a process works on at once, and frees their memory afterwards."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from app.api.schemas.forecasts import MAX_BATCH
from app.domain.availability_errors import BatchesUnderWayError

_MIN_LARGE_BATCH: Final = 1_000
"""From this many entries on, a batch leaves enough freed memory to return to the system."""

_IDLE_S: Final = 5.0
"""Idle time before memory is returned: the next batch would take the same memory again."""


def release_memory() -> None:
    """Return freed memory to the system; only glibc keeps it and has a function for this."""
    import ctypes  # noqa: PLC0415 - memory that a process without batches spares

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class BatchRoom:
    """Counts the entries of the batches in progress; used by the event loop alone.

    A batch counts until its caller has the last byte: until then its answers are in memory.

    Parameters
    ----------
    max_entries
        How many there may be at once; a batch is always admitted when it is the only one.
    release
        Returns memory to the system; called in a thread, `idle_s` after the last large batch.
    idle_s
        Seconds without any batch before `release` is called.
    """

    def __init__(
        self,
        max_entries: int,
        release: Callable[[], None] = release_memory,
        *,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._max_entries = max_entries
        self._release = release
        self._idle_s = idle_s
        self._entries = 0
        self._has_grown = False
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def reserve_for(self, body: bytes) -> Iterator[None]:
        """Count a batch during the block; its number of objects bounds its number of entries.

        Raises
        ------
        BatchesUnderWayError
            If there would be too many entries.
        """
        entries = min(body.count(b"{"), MAX_BATCH)
        if self._entries and self._entries + entries > self._max_entries:
            raise BatchesUnderWayError(self._entries)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._entries += entries
        self._has_grown |= entries >= _MIN_LARGE_BATCH
        try:
            yield
        finally:
            self._entries -= entries
            self._await_idleness()

    def _await_idleness(self) -> None:
        if self._has_grown and not self._entries:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._idle_s, self._shrink, loop)

    def _shrink(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._has_grown = None, False
        loop.run_in_executor(None, self._release)
