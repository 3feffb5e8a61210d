"""Writes recorded forecasts in the background: a bounded queue and one thread."""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from app.domain.errors import DomainError
from app.domain.forecasts import LedgerRecord
from app.domain.identifiers import earliest_identifier, is_identifier
from app.services.context import ServiceContext

_logger = logging.getLogger(__name__)
FLUSH_EVERY_S: Final = 0.2
_RETRY_WITHIN_S: Final = 5.0
MAX_QUEUED: Final = 50_000
_MAX_ROWS: Final = 5_000
_WRITTEN_WITHIN: Final = timedelta(seconds=5)
"""Forecasts are written after they are answered, by whichever process answered."""


class Unwritten:
    """Tells which forecasts may not be written yet: those made about now."""

    def __init__(self, now: datetime) -> None:
        self._since = earliest_identifier("fc", now - _WRITTEN_WITHIN)
        # The clock of another machine may be ahead.
        self._until = earliest_identifier("fc", now + _WRITTEN_WITHIN)

    def may_hold(self, forecast_id: str) -> bool:
        """Whether a forecast that is not stored may exist all the same."""
        return is_identifier("fc", forecast_id) and self._since <= forecast_id < self._until


class LedgerWriter:
    """Keeps records in memory until a thread has written them.

    When the database is away for longer than the queue can bridge, the oldest records are dropped
    and counted; answers never wait. A record that cannot be stored is dropped alone.
    """

    def __init__(self, context: ServiceContext, *, max_queued: int = MAX_QUEUED) -> None:
        self._context = context
        self._queue: deque[LedgerRecord] = deque()
        self._max_queued = max_queued
        self._writing = threading.Lock()
        self._queueing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_unsure = False
        """Whether a failed commit may have stored some of the first records all the same."""
        self.dropped = 0

    def put(self, record: LedgerRecord) -> None:
        """Queue a record; the first one starts the thread."""
        with self._queueing:
            if len(self._queue) >= self._max_queued:
                self._queue.popleft()
                self.dropped += 1
            self._queue.append(record)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
                self._thread.start()

    def waiting(self) -> list[LedgerRecord]:
        """Return the records that are not yet written, the oldest first."""
        with self._queueing:
            return list(self._queue)

    def flush(self) -> None:
        """Write the queued records.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer; the records stay queued.
        """
        with self._writing:
            while batch := self._take():
                try:
                    self._write(self._unstored(batch) if self._is_unsure else batch)
                except BaseException:
                    self._is_unsure = True
                    self._requeue(batch)
                    raise
                self._is_unsure = False

    def _take(self) -> list[LedgerRecord]:
        with self._queueing:
            return [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_ROWS))]

    def _requeue(self, batch: Sequence[LedgerRecord]) -> None:
        with self._queueing:
            room = max(self._max_queued - len(self._queue), 0)
            kept = batch[len(batch) - room :] if room < len(batch) else batch
            self.dropped += len(batch) - len(kept)
            self._queue.extendleft(reversed(kept))

    def _unstored(self, batch: Sequence[LedgerRecord]) -> Sequence[LedgerRecord]:
        with self._context.database.reading() as stores:
            stored = stores.forecasts.stored([record.forecast_id for record in batch])
        return [record for record in batch if record.forecast_id not in stored]

    def _write(self, batch: Sequence[LedgerRecord]) -> None:
        try:
            with self._context.database.transaction() as stores:
                stores.forecasts.add_many(batch)
        except DomainError:
            raise
        except Exception:
            if len(batch) == 1:
                self.dropped += 1
                _logger.exception(
                    "a recorded forecast cannot be stored", extra={"forecast": batch[0].forecast_id}
                )
                return
            middle = len(batch) // 2
            self._write(batch[:middle])
            self._write(batch[middle:])

    def _run(self) -> None:
        wait_s = FLUSH_EVERY_S
        while not self._stop.wait(wait_s):
            wait_s = FLUSH_EVERY_S if self._has_flushed() else min(2 * wait_s, _RETRY_WITHIN_S)

    def _has_flushed(self) -> bool:
        try:
            self.flush()
        except DomainError:
            waiting = {"queued": len(self._queue), "dropped": self.dropped}
            _logger.warning("recorded forecasts are not written yet", extra=waiting)
            return False
        return True

    def close(self) -> None:
        """End the thread and write what is left."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._has_flushed()
