"""How a process ends: by a signal, in order, and in the middle of its work where that takes long.

Whatever waits for a server that neither answers nor refuses waits for ever: no library has a
deadline for that. All that is stored is stored by transactions, and leases and locks lapse, so that
an end in the middle loses no more than one by a power cut.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_logger = logging.getLogger(__name__)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""A terminal that is closed sends the last; `nohup` has it ignored, and so it stays."""


def _is_ignored(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def hearing_the_end(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have the signals to end handled in the block; only the main thread may ask.

    What the process was started to ignore stays ignored.
    """
    heard = [number for number in _SIGNALS if not _is_ignored(number)]
    before = {number: signal.signal(number, on_signal) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def told_to_end() -> Iterator[threading.Event]:
    """Yield an event that the signals to end set in the block; only the main thread may ask."""
    told = threading.Event()
    with hearing_the_end(lambda _signal, _frame: told.set()):
        yield told


def end_within(seconds: float, told: threading.Event) -> threading.Event:
    """End this process at the latest `seconds` after it is told to, with exit code 1.

    Parameters
    ----------
    seconds
        How long the end in order may take.
    told
        Set when the process is told to end.

    Returns
    -------
    threading.Event
        Set it once there is nothing to wait for any more.
    """
    has_ended = threading.Event()

    def wait() -> None:
        told.wait()
        if not has_ended.wait(seconds):
            _logger.warning("ended in the middle", extra={"waited_s": seconds})
            os._exit(1)

    threading.Thread(target=wait, daemon=True, name="end").start()
    return has_ended
