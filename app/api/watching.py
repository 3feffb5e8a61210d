"""Reads what may hang, one reading at a time in a thread of its own, and waits for it shortly."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

T = TypeVar("T")
LIMIT_S: Final = 2.0
"""Less than any probe or scrape waits."""


class OneReading(Generic[T]):
    """Reads when it is asked; who asks while a reading is late waits for that one too.

    Parameters
    ----------
    read
        What reads; it may take for ever.
    limit_s
        Seconds that one who asks waits.
    """

    def __init__(self, read: Callable[[], T], *, limit_s: float = LIMIT_S) -> None:
        self._read = read
        self._limit_s = limit_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="watching")
        self._reading: asyncio.Future[T] | None = None

    async def result(self) -> T | None:
        """Return what was read, None if that takes too long."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().run_in_executor(self._thread, self._read)
        reading = self._reading
        done, _ = await asyncio.wait([reading], timeout=self._limit_s)
        return reading.result() if done else None
