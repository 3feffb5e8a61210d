"""How long a request may take, and whether its work may still be stored."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import ClassVar, Final

from app.domain.availability_errors import DeadlineExceededError, StoppingError

_TO_ANSWER_S: Final = 1.0
"""Within this time after a commit, its answer begins even in a busy process."""


class Deadline:
    """The deadline of one request, shared by the event loop and the threads that work for it.

    Either the deadline passes first and nothing more is stored, or a commit begins first and its
    answer is awaited. A caller who was refused can thus be sure that nothing was stored.

    Parameters
    ----------
    limit_s
        Seconds from now on until the answer must have begun.
    """

    __slots__ = ("_commits", "_ends_at", "_has_ended", "_is_cut", "_is_stored", "limit_s")
    _lock: ClassVar = Lock()
    """Shared by all, since it is held only for a comparison and saves each request its own lock."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._ends_at = time.monotonic() + limit_s
        self._commits = 0
        self._has_ended = False
        self._is_cut = False
        self._is_stored = False
        """Whether a commit took until about the end, and its answer has yet to begin."""

    def left_s(self) -> float:
        """Return the seconds until the end; negative after it."""
        return self._ends_at - time.monotonic()

    def extend(self, seconds: float) -> None:
        """Move the deadline, because the caller asked to wait."""
        self._ends_at += seconds
        self.limit_s += seconds

    def cut(self, seconds: float) -> None:
        """Move the deadline to at most `seconds` from now, when the process ends."""
        self._ends_at = min(self._ends_at, time.monotonic() + seconds)
        self._is_cut = True

    def exceeded(self) -> DeadlineExceededError:
        """Return the error that says why the request was given up."""
        return StoppingError() if self._is_cut else DeadlineExceededError(self.limit_s)

    def end(self) -> bool:
        """Forbid further commits and return True.

        Returns False while a commit is under way, or the answer to one is.
        """
        with self._lock:
            if self._commits or self._is_stored:
                return False
            self._has_ended = True
            return True

    @property
    def has_ended(self) -> bool:
        """Whether the request was refused."""
        return self._has_ended

    def check(self) -> None:
        """Refuse to start work for a request that has ended.

        Raises
        ------
        DeadlineExceededError
            If the request has ended.
        """
        if self._has_ended:
            raise self.exceeded()
        # What was stored before is not answered yet.
        self._is_stored = False

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Hold off the end of the request while the block commits.

        Raises
        ------
        DeadlineExceededError
            If the request has ended.
        """
        with self._lock:
            self.check()
            self._commits += 1
        try:
            yield
            self._is_stored = self.left_s() < _TO_ANSWER_S
        finally:
            with self._lock:
                self._commits -= 1


current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
"""The deadline of the current request, None if nobody waits."""


def require_time() -> None:
    """Stop computing for a request that nobody waits for any more; cheap enough for every step.

    Raises
    ------
    DeadlineExceededError
        If the current request has ended.
    """
    deadline = current.get()
    if deadline is not None:
        deadline.check()


@contextmanager
def unlimited() -> Iterator[None]:
    """Run a block that must complete even if the request has ended."""
    token = current.set(None)
    try:
        yield
    finally:
        current.reset(token)
