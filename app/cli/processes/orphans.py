"""Ends a process whose parent has died."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

_CHUNK_BYTES: Final = 1024


def end_when_orphaned() -> None:
    """End this process, as on SIGTERM, when the process that holds its standard input dies."""
    standard_input = sys.stdin.fileno()

    def wait() -> None:
        # Unbuffered: a buffer lock held by a daemon thread is fatal at interpreter shutdown.
        while os.read(standard_input, _CHUNK_BYTES):
            continue

    _end_after(wait)


def end_with_parent() -> None:
    """End this process, as on SIGTERM, when its multiprocessing parent dies."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        _end_after(parent.join)


def _end_after(wait: Callable[[], None]) -> None:
    def watch() -> None:
        wait()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()
