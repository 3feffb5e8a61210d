"""How a process ends: by a signal, in order, and in the middle of its work where that takes long.

Whatever waits for a server that neither answers nor refuses waits for ever: no library has a
deadline for that. All that is stored is stored by transactions, and leases and locks lapse, so that
an end in the middle loses no more than one by a power cut.
"""

import logging
import os
import signal
import threading
import time
from types import FrameType

_logger = logging.getLogger(__name__)


def told_to_end() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set from now on; only the main thread may ask."""
    told = threading.Event()

    def on_signal(_signal: int, _frame: FrameType | None) -> None:
        told.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return told


def end_within(seconds: float, told: threading.Event | None = None) -> None:
    """End this process at the latest `seconds` after it is told to, with exit code 1.

    Parameters
    ----------
    seconds
        How long the end in order may take.
    told
        Set when the process is told to end; None: it is now.
    """

    def wait() -> None:
        if told is not None:
            told.wait()
        time.sleep(seconds)
        _logger.warning("ended in the middle", extra={"waited_s": seconds})
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="end").start()
