"""Reads anew, behind the requests, what they go on with from memory meanwhile."""

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from app.domain.errors import DomainError


class Renewals:
    """One thread that reads things again shortly before they are too old to be used.

    A request that finds something too old waits for the database; one of a hundred that does
    so is what the slowest hundredth of answers take.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="renewal")
        self._under_way: set[Hashable] = set()
        self._lock = Lock()
        self._has_ended = False

    def renew(self, key: Hashable, read: Callable[[], object]) -> None:
        """Let `read` be called soon, once at a time for a key; after the end, not at all."""
        with self._lock:
            if not self._has_ended and key not in self._under_way:
                self._under_way.add(key)
                self._thread.submit(self._run, key, read)

    def _run(self, key: Hashable, read: Callable[[], object]) -> None:
        try:
            read()
        except DomainError:
            pass  # the request that finds it too old reads it itself, and is told why not
        finally:
            self._under_way.discard(key)

    def close(self) -> None:
        """End the thread; what it has not begun is not read."""
        with self._lock:
            self._has_ended = True
        self._thread.shutdown(cancel_futures=True)
