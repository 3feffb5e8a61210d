"""The GPU's name and peak memory, from the framework that already runs on it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _cuda() -> Any:
    # A framework that the training has not loaded is not loaded for the collector's sake.
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return torch.cuda


def gpu_name() -> str | None:
    """Return the name of the GPU that this process trains on, None without one."""
    cuda = _cuda()
    return None if cuda is None else str(cuda.get_device_name())


def peak_memory_bytes() -> int | None:
    """Return the most GPU memory that this process held at once, None without a GPU."""
    cuda = _cuda()
    return None if cuda is None else int(cuda.max_memory_allocated())


class PeakMemory:
    """The most GPU memory that a process held during one of the runs that it makes.

    The framework counts from the process's start, and its count is the user's: it is not set back.
    A run that held less than what came before it in the process has no peak that anybody knows.

    Examples
    --------
    >>> told = iter([None, 7_000, 7_000, 5_000])
    >>> large = PeakMemory(read=lambda: next(told))
    >>> large.of_run()
    7000
    >>> small = PeakMemory(read=lambda: next(told))
    >>> small.of_run() is None
    True
    """

    def __init__(self, read: Callable[[], int | None] = peak_memory_bytes) -> None:
        self._read = read
        self._before = read() or 0

    def of_run(self) -> int | None:
        """Return the run's peak in bytes, None where it is not known."""
        peak = self._read()
        return None if peak is None or peak <= self._before else peak


def wait_for_gpu() -> None:
    """Return when the GPU has done what it was asked to: steps are queued ahead."""
    cuda = _cuda()
    if cuda is not None:
        cuda.synchronize()
