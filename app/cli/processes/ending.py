"""How a process ends: on a signal, cleanly, or by force if that takes too long.

Code that waits for an unresponsive server may wait for ever: no library has a deadline for that.
All data is stored in transactions, and leases and locks expire, so a forced end loses no more than
a power failure.
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
"""A closing terminal sends SIGHUP; if `nohup` made the process ignore it, that is kept."""


def _is_ignored(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def handling_termination(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the termination signals during the block; only in the main thread.

    A SIGHUP that was ignored at the start stays ignored.
    """
    handled = [number for number in _SIGNALS if not _is_ignored(number)]
    previous_handlers = {number: signal.signal(number, on_signal) for number in handled}
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def end_on_hangup() -> None:
    """Handle SIGHUP as if it were SIGTERM, unless it is ignored; only in the main thread.

    For a server that handles SIGTERM itself.
    """
    if not _is_ignored(signal.SIGHUP):
        signal.signal(signal.SIGHUP, lambda _signal, _frame: signal.raise_signal(signal.SIGTERM))


@contextmanager
def termination_event() -> Iterator[threading.Event]:
    """Yield an event that termination signals set during the block; only in the main thread."""
    terminated = threading.Event()
    with handling_termination(lambda _signal, _frame: terminated.set()):
        yield terminated


def end_within(seconds: float, terminated: threading.Event) -> threading.Event:
    """Force this process to end `seconds` after it is told to, with exit code 1.

    Parameters
    ----------
    seconds
        How long a clean shutdown may take.
    terminated
        Set when the process is told to end.

    Returns
    -------
    threading.Event
        Set it when the clean shutdown is complete.
    """
    has_ended = threading.Event()

    def wait() -> None:
        terminated.wait()
        if not has_ended.wait(seconds):
            _logger.warning("ended in the middle", extra={"waited_s": seconds})
            os._exit(1)

    threading.Thread(target=wait, daemon=True, name="end").start()
    return has_ended
