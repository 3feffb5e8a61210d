"""Ends requests that take too long, and refuses what would only wait."""

import asyncio
from collections.abc import Awaitable
from typing import Final

from anyio import to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.domain import deadlines
from app.domain.deadlines import Deadline
from app.domain.errors import DeadlineExceededError, OverloadedError

_UPLOADS: Final = frozenset(
    {"/v1/runs", "/v1/ci/reports", "/v1/prices", "/v1/exchange-rates", "/v1/grid-factors"}
)
_FROM_MEMORY: Final = "/v1/forecasts"
_LOOK_EVERY_S: Final = 0.1


class _GuardedSend:
    """Answers in the place of the application when the deadline comes first.

    A thread cannot be ended from outside: the answer is given without it, and the deadline lets
    it store nothing any more.
    """

    __slots__ = ("_deadline", "_receive", "_scope", "_send", "_watched", "refusal")

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        deadline: Deadline,
        watched: "set[_GuardedSend]",
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._deadline = deadline
        self._watched = watched
        self.refusal: asyncio.Task[None] | None = None
        watched.add(self)

    def __call__(self, message: Message) -> Awaitable[None]:
        if self.refusal is not None:
            return _drop()
        # An answer that has begun may take its time.
        self._watched.discard(self)
        return self._send(message)

    def look(self) -> None:
        """Refuse the request if its time is over and nothing of it is being committed."""
        if self._deadline.left_s() <= 0 and self._deadline.end():
            self._watched.discard(self)
            self.refusal = asyncio.get_running_loop().create_task(self._refuse())

    async def _refuse(self) -> None:
        error = DeadlineExceededError(self._deadline.limit_s)
        response = problems.respond_to(error, instance=self._scope["path"])
        # What is left of the body is not waited for.
        response.headers["Connection"] = "close"
        await response(self._scope, self._receive, self._send)


async def _drop() -> None:
    """Send nothing: the request was answered."""


class DeadlineMiddleware:
    """Gives each request a deadline for the beginning of its answer, and bounds the queue.

    Parameters
    ----------
    app
        What answers.
    request_s, upload_s
        Seconds for any request, and for those that upload.
    max_waiting
        How many requests may wait for a thread; more are refused at once.
    """

    def __init__(
        self, app: ASGIApp, *, request_s: float, upload_s: float, max_waiting: int
    ) -> None:
        self._app = app
        self._request_s = request_s
        self._upload_s = upload_s
        self._max_waiting = max_waiting
        self._in_flight = 0
        self._watched: set[_GuardedSend] = set()
        self._look_every_s = min(_LOOK_EVERY_S, request_s, upload_s)
        self._watching: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Each that waits is in flight: below that number there is no need to look.
        if self._in_flight > self._max_waiting and self._is_full(scope):
            error = OverloadedError(self._max_waiting)
            await problems.respond_to(error, instance=scope["path"])(scope, receive, send)
            return
        is_upload = scope["path"] in _UPLOADS and scope["method"] == "POST"
        deadline = Deadline(self._upload_s if is_upload else self._request_s)
        guarded = _GuardedSend(scope, receive, send, deadline, self._watched)
        if self._watching is not (loop := asyncio.get_running_loop()):
            self._watch(loop)
        token = deadlines.current.set(deadline)
        self._in_flight += 1
        try:
            await self._app(scope, receive, guarded)
        finally:
            self._in_flight -= 1
            deadlines.current.reset(token)
            self._watched.discard(guarded)
            if guarded.refusal is not None:
                await guarded.refusal

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at all requests together: a timer for each would cost every answer from memory."""
        self._watching = loop
        loop.call_later(self._look_every_s, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        for guarded in tuple(self._watched):
            guarded.look()
        self._watching = None
        if self._watched:
            self._watch(loop)

    def _is_full(self, scope: Scope) -> bool:
        """Whether as many wait as may; what needs no thread is never refused for that."""
        if not scope["path"].startswith("/v1/") or scope["path"] == _FROM_MEMORY:
            return False
        limiter = to_thread.current_default_thread_limiter()
        return limiter.statistics().tasks_waiting >= self._max_waiting
