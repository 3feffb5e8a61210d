"""One thread for linear algebra during a fit: the order of a sum changes its last bit."""

import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Self

from threadpoolctl import threadpool_limits


class _SingleThread(ContextDecorator):
    """Limits the thread pools of BLAS and OpenMP to one thread while any caller is inside.

    Equal runs and seed then give equal artefacts whatever the number of cores. Fits in several
    threads share the limit: it is lifted when the last of them ends.

    References
    ----------
    Demmel and Nguyen (2015), Parallel reproducible summation, IEEE Trans. Computers 64(7).
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limits: threadpool_limits | None = None

    def __enter__(self) -> Self:
        # The limit applies to loaded libraries only, and SciPy brings a BLAS of its own.
        import scipy.linalg  # noqa: F401, PLC0415 - heavy, and only fits need it

        with self._lock:
            if self._limits is None:
                self._limits = threadpool_limits(1)
            self._inside += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limits is not None:
                self._limits.restore_original_limits()
                self._limits = None


single_thread = _SingleThread()
"""Context manager and decorator."""
