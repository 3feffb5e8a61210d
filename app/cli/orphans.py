"""Ends a process whose parent died without telling it."""

import os
import signal
import sys
import threading
from typing import Final

_SOME_BYTES: Final = 1024


def end_when_orphaned() -> None:
    """End this process as by SIGTERM when the process that holds its standard input dies."""
    standard_input = sys.stdin.fileno()

    def wait() -> None:
        # Unbuffered: a buffer's lock, held by a daemon thread, is fatal when Python ends.
        while os.read(standard_input, _SOME_BYTES):
            continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="parent-watch").start()
