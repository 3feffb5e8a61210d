"""The outermost layer: one request and its answer, from the request id to the metrics.

All layers add to an answer through its exchange, which every message passes once: a wrapper around
`send` in each layer would cost time for every message of every answer.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.api.middleware.deadlines import DeadlineWatch
from app.api.middleware.metrics import NO_ROUTE, RequestMetrics
from app.api.strict_headers import POLICY, STRICT, STRICTEST, Headers
from app.domain import deadlines, log_fields
from app.domain.availability_errors import OverloadedError
from app.domain.identifiers import random_bytes

_logger = logging.getLogger(__name__)
_REQUEST_ID: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)
_TRACE_PARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context; its trace id has the form of our request ids."""
_CLIENT_CLOSED: Final = 499
"""The status counted when the caller disconnects before an answer, as in nginx."""
_TIMING: Final = b"app;dur=%.2f"


class Body(Protocol):
    """The body of a request, possibly not yet received completely."""

    has_ended: bool

    async def drain(self) -> None:
        """Read the rest, within bounds."""
        ...


class Exchange:
    """One request and its answer.

    Answers instead of the application if the deadline passes first. A thread cannot be ended from
    outside, so the answer does not wait for it, and the deadline keeps it from storing anything
    afterwards.
    """

    __slots__ = (
        "_receive",
        "_send",
        "_started_at",
        "_watch",
        "deadline",
        "extra_headers",
        "headers",
        "refusal",
        "request_id",
        "scope",
        "status",
        "unread",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, watch: DeadlineWatch) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._watch = watch
        self._started_at = time.perf_counter()
        self.refusal: asyncio.Task[None] | None = None
        """The task that answers instead of the application."""
        self.deadline = watch.deadline_of(scope)
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        """The headers of the request; of repeated ones the first."""
        self.request_id = _caller_request_id(self.headers) or random_bytes().hex()
        self.status: int | None = None
        """The status of the answer, None before it has begun."""
        self.extra_headers: Headers = ()
        """Headers that layers add to the answer."""
        self.unread: Body | None = None
        """The body to drain before the answer ends, since a sender that still writes misses it."""

    def send(self, message: Message) -> Awaitable[None]:
        """Send a message of the answer, unless a refusal was sent instead."""
        if self.refusal is not None:
            return _drop()
        if message["type"] == "http.response.start":
            return self._begin(message)
        unread = self.unread
        if unread is None or unread.has_ended or message.get("more_body", False):
            return self._send(message)
        return self._drain_and_send(unread, message)

    def _begin(self, message: Message) -> Awaitable[None]:
        self.status = message["status"]
        # An answer that has begun has no deadline.
        self._watch.unanswered.discard(self)
        message["headers"] = self._all_headers(message["headers"])
        return self._send(message)

    def _all_headers(self, headers: Any) -> list[tuple[bytes, bytes]]:
        strict = STRICTEST
        for name, _ in headers:
            if name == POLICY:
                strict = STRICT
        elapsed_ms = self.elapsed_s() * 1e3
        timing = _TIMING % elapsed_ms
        return [
            *headers,
            *self.extra_headers,
            *_common_headers(self.request_id.encode(), timing, strict),
        ]

    async def _drain_and_send(self, unread: Body, message: Message) -> None:
        await unread.drain()
        await self._send(message)

    def elapsed_s(self) -> float:
        """Return the seconds since the request arrived."""
        return time.perf_counter() - self._started_at

    def check_deadline(self) -> None:
        """Refuse the request if its deadline has passed and it is not being committed."""
        if self.deadline.left_s() <= 0 and self.deadline.end():
            self._watch.unanswered.discard(self)
            self.refusal = asyncio.get_running_loop().create_task(self._refuse())

    async def give_up(self) -> None:
        """Refuse the request because the process ends, unless an answer has begun."""
        _logger.warning("request given up", extra={"path": self.scope["path"]})
        if self.status is None:
            self.deadline.cut(0.0)
            await self._refuse()

    async def _refuse(self) -> None:
        response = problems.respond_to(self.deadline.exceeded(), instance=self.scope["path"])
        # The rest of the body is not read.
        response.headers["Connection"] = "close"
        await response(self.scope, self._receive, self._send_refusal)

    def _send_refusal(self, message: Message) -> Awaitable[None]:
        is_start = message["type"] == "http.response.start"
        return self._begin(message) if is_start else self._send(message)


def _common_headers(request_id: bytes, timing: bytes, strict: Headers) -> Headers:
    """Return the headers that are added to every answer."""
    return ((b"x-request-id", request_id), (b"server-timing", timing), *strict)


def json_headers(length: bytes) -> list[tuple[bytes, bytes]]:
    """Return the own headers of a JSON answer."""
    return [(b"content-length", length), (b"content-type", b"application/json")]


_JSON_HEAD: Final = b"%b\r\n" % b"".join(
    b"%b: %b\r\n" % header
    for header in (*json_headers(b"%d"), *_common_headers(b"%b", _TIMING, STRICTEST))
)


def json_head(length: int, elapsed_s: float) -> bytes:
    """Return the encoded headers of a JSON answer, with the empty line that ends them.

    Only for requests that bring no request id of their own.
    """
    return _JSON_HEAD % (length, random_bytes().hex().encode(), elapsed_s * 1e3)


async def _drop() -> None:
    """Send nothing, since the request was already answered."""


def _caller_request_id(headers: dict[bytes, bytes]) -> str | None:
    """Return the request id from the caller's `X-Request-Id`, else `traceparent` header."""
    name = headers.get(b"x-request-id", b"").decode("latin-1")
    if _REQUEST_ID.fullmatch(name):
        return name
    trace = headers.get(b"traceparent")
    match = _TRACE_PARENT.fullmatch(trace.decode("latin-1")) if trace is not None else None
    return match[1] if match else None


def exchange_of(scope: Scope) -> Exchange:
    """Return the exchange of the current request, for use in inner layers."""
    exchange: Exchange = scope["state"]["exchange"]
    return exchange


class ExchangeMiddleware:
    """Gives each request an id and a deadline, times it, and turns uncaught errors into problems.

    Parameters
    ----------
    app
        The application within.
    watch
        Enforces deadlines.
    metrics
        Counts and times the requests.
    routes
        The routes within: a request answered before routing is counted under its route.
    """

    def __init__(
        self,
        app: ASGIApp,
        watch: DeadlineWatch,
        metrics: RequestMetrics,
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        self._app = app
        self._watch = watch
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._watch)
        scope.setdefault("state", {})["exchange"] = exchange
        fields = log_fields.current.set({"request_id": exchange.request_id})
        deadline = deadlines.current.set(exchange.deadline)
        try:
            self._watch.admit(exchange)
            try:
                with suppress(ClientDisconnect):  # there is nobody left to answer
                    await self._app(scope, receive, exchange.send)
            finally:
                self._watch.release(exchange)
                if exchange.refusal is not None:
                    await exchange.refusal
        except asyncio.CancelledError:
            if not self._watch.is_stopping:
                raise
            # The server ends without waiting longer, not even for a commit.
            await exchange.give_up()
        except OverloadedError as error:
            await problems.respond_to(error, instance=scope["path"])(scope, receive, exchange.send)
        except Exception:
            _logger.exception("unhandled error")
            if exchange.status is not None:
                raise
            await problems.respond_internal(scope["path"])(scope, receive, exchange.send)
        finally:
            # Breaks a reference cycle, which only the garbage collector would free.
            del scope["state"]["exchange"]
            deadlines.current.reset(deadline)
            log_fields.current.reset(fields)
            status = exchange.status or _CLIENT_CLOSED
            route = self._route_of(scope)
            self._metrics.observe(scope["method"], route, status, exchange.elapsed_s())

    def _route_of(self, scope: Scope) -> str:
        """Return the template of the route that answered, or would have.

        A layer before the routes may refuse a request, or replay its first answer.
        """
        route = scope.get("route")
        if route is None:
            matching = (
                candidate for candidate in self._routes if candidate.matches(scope)[0] is Match.FULL
            )
            route = next(matching, None)
        return getattr(route, "path_format", NO_ROUTE)
