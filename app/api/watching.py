"""Runs a reading that may hang in its own thread, one at a time, and waits for it briefly."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

T = TypeVar("T")
LIMIT_S: Final = 2.0
"""Shorter than the timeout of any probe or scrape."""


class OneReading(Generic[T]):
    """Starts a reading on request; callers during a pending reading wait for the same one.

    Parameters
    ----------
    read
        The function that reads; it may hang.
    limit_s
        Seconds that a caller waits.
    """

    def __init__(self, read: Callable[[], T], *, limit_s: float = LIMIT_S) -> None:
        self._read = read
        self._limit_s = limit_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="watching")
        self._reading: asyncio.Future[T] | None = None

    async def result(self) -> T | None:
        """Return the reading, None if it takes too long."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().run_in_executor(self._thread, self._read)
        reading = self._reading
        done, _ = await asyncio.wait([reading], timeout=self._limit_s)
        return reading.result() if done else None
