"""Signals as a test needs them, however it was started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """Handle a signal in one way, here and in the processes that are started meanwhile.

    What runs under `nohup` ignores one signal, and so would its tests.
    """
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
