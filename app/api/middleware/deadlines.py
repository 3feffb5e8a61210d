"""Sets request deadlines, ends requests that exceed them, and refuses requests under overload."""

import asyncio
import time
from typing import Final, Protocol

from anyio import to_thread
from starlette.types import Scope

from app.domain.availability_errors import OverloadedError
from app.domain.deadlines import Deadline

_UPLOADS: Final = frozenset(
    {"/v1/runs", "/v1/ci/reports", "/v1/prices", "/v1/exchange-rates", "/v1/grid-factors"}
)
_FROM_MEMORY: Final = "/v1/forecasts"
_CHECK_INTERVAL_S: Final = 0.1


class Watched(Protocol):
    """A request whose answer has not begun."""

    scope: Scope
    deadline: Deadline

    def check_deadline(self) -> None:
        """Refuse the request if its deadline has passed."""
        ...


class DeadlineWatch:
    """Gives each request a deadline for the start of its answer, and bounds the queue.

    Parameters
    ----------
    request_s, upload_s
        Seconds for ordinary requests and for uploads.
    max_waiting
        How many requests may wait for a thread; more are refused at once.
    """

    def __init__(self, *, request_s: float, upload_s: float, max_waiting: int) -> None:
        self._request_s = request_s
        self._upload_s = upload_s
        self._max_waiting = max_waiting
        self._check_interval_s = min(_CHECK_INTERVAL_S, request_s, upload_s)
        self._watching: asyncio.AbstractEventLoop | None = None
        self._in_flight = 0
        self._recently_admitted = 0
        """Requests since the last check: they may not have asked for a thread yet."""
        self._stops_at: float | None = None
        """When the process ends, by the monotonic clock; None while it is not stopping."""
        self.unanswered: set[Watched] = set()
        """The watched requests; an answer that has begun has no deadline."""

    def deadline_of(self, scope: Scope) -> Deadline:
        """Return the deadline of a request that starts now."""
        is_upload = scope["path"] in _UPLOADS and scope["method"] == "POST"
        deadline = Deadline(self._upload_s if is_upload else self._request_s)
        if self._stops_at is not None:
            deadline.cut(self._stops_at - time.monotonic())
        return deadline

    @property
    def is_stopping(self) -> bool:
        """Whether the process was told to end."""
        return self._stops_at is not None

    def stop(self, seconds: float) -> None:
        """Let no answer begin later than `seconds` from now, because the process ends."""
        self._stops_at = time.monotonic() + seconds
        for exchange in self.unanswered:
            exchange.deadline.cut(seconds)

    def admit(self, exchange: Watched) -> None:
        """Watch a request until its answer begins or it is released.

        Raises
        ------
        OverloadedError
            If the maximum number of requests already waits for a thread.
        """
        path = exchange.scope["path"]
        # Requests that need no thread are never refused because of those that wait for one.
        if path.startswith("/v1/") and path != _FROM_MEMORY:
            # Waiting requests are in flight, so the exact count is needed only above the limit.
            if self._in_flight > self._max_waiting and self._is_full():
                raise OverloadedError(self._max_waiting)
            self._recently_admitted += 1
        self._in_flight += 1
        self.unanswered.add(exchange)
        if self._watching is not (loop := asyncio.get_running_loop()):
            self._watch(loop)

    def release(self, exchange: Watched) -> None:
        """Stop watching an admitted request: it is finished."""
        self._in_flight -= 1
        self.unanswered.discard(exchange)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the common timer: one per request would slow down every answer from memory."""
        self._watching = loop
        loop.call_later(self._check_interval_s, self._check_all, loop)

    def _check_all(self, loop: asyncio.AbstractEventLoop) -> None:
        self._recently_admitted = 0
        for exchange in tuple(self.unanswered):
            exchange.check_deadline()
        self._watching = None
        if self.unanswered:
            self._watch(loop)

    def _is_full(self) -> bool:
        """Whether the queue is full, counting new requests that are about to ask for a thread.

        Older requests without a thread are being read or written, or wait for something else.
        """
        limiter = to_thread.current_default_thread_limiter().statistics()
        waiting, working = limiter.tasks_waiting, limiter.borrowed_tokens
        arriving = min(self._recently_admitted, self._in_flight - waiting - working)
        return waiting + max(arriving - (limiter.total_tokens - working), 0) >= self._max_waiting
