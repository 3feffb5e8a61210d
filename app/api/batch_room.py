"""Bounds the entries of batches that a process works on at once, and gives their memory back."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from app.api.schemas.forecasts import MAX_BATCH
from app.domain.availability_errors import BatchesUnderWayError

_LARGE: Final = 1_000
"""Entries from which on a batch leaves memory behind that is worth giving back."""

_IDLE_S: Final = 5.0
"""How long no batch may have been under way: one that follows takes the same memory again."""


def release_memory() -> None:
    """Give the system back what the process has freed; only glibc keeps it and can be told to."""
    import ctypes  # noqa: PLC0415 - memory that a process without batches spares

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class BatchRoom:
    """Counts the entries of the batches under way; used by the event loop alone.

    A batch counts until its caller has the last byte: until then its answers are in memory.

    Parameters
    ----------
    max_entries
        How many there may be at once; one batch alone may always be.
    release
        Gives memory back, in a thread, some seconds after the last large batch.
    idle_s
        How long none may have been under way by then.
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
    def taken_by(self, body: bytes) -> Iterator[None]:
        """Count a batch in the block by its text: at most as many entries as it has objects.

        Raises
        ------
        BatchesUnderWayError
            If there would be too many.
        """
        entries = min(body.count(b"{"), MAX_BATCH)
        if self._entries and self._entries + entries > self._max_entries:
            raise BatchesUnderWayError(self._entries)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._entries += entries
        self._has_grown |= entries >= _LARGE
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
