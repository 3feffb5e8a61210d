"""How a training ended: by itself, by an error, out of memory, cancelled or preempted."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
OUT_OF_MEMORY: Final = "out_of_memory"
PREEMPTED: Final = "preempted"
CANCELLED: Final = "cancelled"
FAILURES: Final = frozenset({FAILED, OUT_OF_MEMORY})
_MEMORY_PHRASES: Final = (
    "out of memory",
    "outofmemory",
    "resource_exhausted",
    "resourceexhaustederror",
    "allocate memory",
    "alloc_failed",
    "bad_alloc",
    "bad allocation",
    "no executable batch size",
)
"""How CUDA, PyTorch on CPUs, cuBLAS, JAX, TensorFlow, the system, C++ and Accelerate word it."""
_CANCELLATIONS: Final = frozenset({"CancelledError", "Cancelled", "TrialPruned"})
"""How asyncio, trio and Optuna cancel; compared by name, so that no framework is loaded."""


def status_of(error: BaseException | None) -> str:
    """Return the run's status for the exception that ended it.

    Examples
    --------
    >>> status_of(None), status_of(MemoryError()), status_of(RuntimeError("CUDA out of memory"))
    ('succeeded', 'out_of_memory', 'out_of_memory')
    >>> status_of(KeyboardInterrupt()), status_of(ValueError("shape"))
    ('cancelled', 'failed')
    """
    if error is None:
        return SUCCEEDED
    is_interrupted = isinstance(error, (KeyboardInterrupt, GeneratorExit))
    if is_interrupted or type(error).__name__ in _CANCELLATIONS:
        return CANCELLED
    if isinstance(error, SystemExit):
        return FAILED if error.code else SUCCEEDED
    text = f"{type(error).__name__} {error}".casefold()
    is_memory = isinstance(error, MemoryError) or any(phrase in text for phrase in _MEMORY_PHRASES)
    return OUT_OF_MEMORY if is_memory else FAILED


class EndWatch:
    """Reports when the process ends before the training said that it had.

    On SIGTERM `report_end` is called with `preempted`, then the previous handler; at the
    interpreter's end `report_exit` (else `report_end`) is called with the status of the exception
    that ended the program. Children that inherit the handler by a fork (data loading workers)
    do not count.

    Attributes
    ----------
    is_leaving
        Whether the interpreter is shutting down.
    """

    def __init__(
        self, report_end: Callable[[str], None], report_exit: Callable[[str], None] | None = None
    ) -> None:
        self._report_end, self._report_exit = report_end, report_exit or report_end
        self._process_id = os.getpid()
        self._previous: Any = None
        self._is_handling = False
        self._deferring_thread: int | None = None
        self._deferred: tuple[int, Any] | None = None
        self.is_leaving = False

    def start(self) -> None:
        """Start watching; signals only if this is the main thread."""
        atexit.register(self._at_exit)
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._on_signal)
            self._is_handling = True

    def stop(self) -> None:
        """Stop watching, and restore the previous signal handler."""
        atexit.unregister(self._at_exit)
        is_main = threading.current_thread() is threading.main_thread()
        if self._is_handling and is_main:
            self._is_handling = False
            if signal.getsignal(signal.SIGTERM) == self._on_signal:
                signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)

    def is_in_a_child(self) -> bool:
        """Return whether this process was forked from the one being watched."""
        return os.getpid() != self._process_id

    @contextlib.contextmanager
    def deferring_signals(self) -> Iterator[None]:
        """Defer signals that interrupt this block until it is over."""
        outer, self._deferring_thread = self._deferring_thread, threading.get_ident()
        try:
            yield
        finally:
            self._deferring_thread = outer
            deferred = self._deferred
            if deferred is not None and outer is None:
                self._deferred = None
                self._on_signal(*deferred)

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._deferring_thread == threading.get_ident():
            self._deferred = (number, frame)
            return
        if not self.is_in_a_child():
            self._report_end(PREEMPTED)
        self._forward(number, frame)

    def _forward(self, number: int, frame: Any) -> None:
        previous = self._previous
        if callable(previous):
            previous(number, frame)
        elif previous != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _at_exit(self) -> None:
        if self.is_in_a_child():
            return
        self.is_leaving = True
        # In an interactive session, any input may have raised it.
        error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
        # A launcher ends all ranks when one fails, while rank 0 reports it: the program is over
        # anyway, and the signal may interrupt the very thread that reports.
        with self.deferring_signals():
            self._report_exit(CANCELLED if error is None else status_of(error))


class RankNotes:
    """Lets other ranks tell rank 0 why they ended.

    When one rank runs out of memory, rank 0 only sees a broken connection or its launcher's
    SIGTERM. The ranks of one node share a file beside the spool; ranks on other nodes cannot be
    heard.
    """

    def __init__(self, folder: Path, workload: str, environ: Mapping[str, str]) -> None:
        names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
        job = [environ.get(name, "") for name in names]
        digest = hashlib.sha256(repr([workload, *job]).encode()).hexdigest()[:16]
        self._file = folder / f"ranks-{digest}.txt" if any(job) else None

    def clear(self) -> None:
        """Remove what an earlier job left."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def leave(self, status: str) -> None:
        """Record how a rank other than 0 ended; the first cause counts."""
        if self._file is not None and status not in {SUCCEEDED, PREEMPTED}:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(status + "\n")

    def cause(self, status: str) -> str:
        """Return the status of the rank that failed first, or this rank's own if none reported."""
        if self._file is None or status == SUCCEEDED or not self._file.exists():
            return status
        statuses = self._file.read_text(encoding="utf-8").split()
        self.clear()
        if OUT_OF_MEMORY in statuses:
            return OUT_OF_MEMORY
        return statuses[0] if statuses else status
