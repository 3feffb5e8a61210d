"""Refreshes values in the background while requests use the ones in memory."""

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock

from app.domain.availability_errors import StorageUnavailableError


@dataclass(frozen=True, slots=True)
class _Refresh:
    future: Future[None]
    awaited_until: float


class Renewals:
    """One thread that refreshes values shortly before they are too old to be used.

    A request that finds a value too old waits for the database; if one in a hundred does, that
    sets the 99th percentile of latencies. A database that neither answers nor refuses (its process
    is stopped, its disk hangs) is waited for no longer than `patience_s`, once per key until it
    answers again.
    """

    def __init__(self, *, patience_s: float) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="renewal")
        self._patience_s = patience_s
        self._under_way: dict[Hashable, _Refresh] = {}
        self._lock = Lock()
        self._has_ended = False

    def renew(self, key: Hashable, read: Callable[[], object]) -> None:
        """Have `read` called soon, once at a time per key; after `close`, not at all."""
        self._begin(key, read)

    def wait_for(self, key: Hashable, read: Callable[[], object]) -> None:
        """Wait until the refresh of a key has ended.

        Raises
        ------
        StorageUnavailableError
            If it takes longer than a caller with a known value would wait.
        DomainError
            If `read` does.
        """
        refresh = self._begin(key, read)
        if refresh is None:
            raise StorageUnavailableError
        wait([refresh.future], max(refresh.awaited_until - time.monotonic(), 0.0))
        if not refresh.future.done() or refresh.future.cancelled():
            raise StorageUnavailableError
        refresh.future.result()

    def _begin(self, key: Hashable, read: Callable[[], object]) -> _Refresh | None:
        with self._lock:
            if self._has_ended:
                return None
            refresh = self._under_way.get(key)
            if refresh is None:
                future = self._thread.submit(self._run, key, read)
                refresh = _Refresh(future, time.monotonic() + self._patience_s)
                self._under_way[key] = refresh
            return refresh

    def _run(self, key: Hashable, read: Callable[[], object]) -> None:
        # An error is reported to the request that waits because its value is too old.
        try:
            read()
        finally:
            with self._lock:
                del self._under_way[key]

    def close(self) -> None:
        """End the thread; refreshes not yet begun are dropped."""
        with self._lock:
            self._has_ended = True
        self._thread.shutdown(cancel_futures=True)
