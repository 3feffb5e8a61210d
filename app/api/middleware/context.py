"""The outermost layer: request id, timing, and the problem for what nobody caught."""

import logging
import os
import re
import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.domain import log_fields

_logger = logging.getLogger(__name__)
_POLICY: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
"""What a browser may do with an answer that brings no policy of its own: nothing."""
_STRICT: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_REQUEST_ID: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)
_TRACE_PARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
"""A trace's id is of the form of our own (W3C Trace Context)."""


def _given_id(scope: Scope) -> str | None:
    """Return the id that the caller gives, by its own header or by that of its trace."""
    trace_id: str | None = None
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            given: str = value.decode("latin-1")
            return given if _REQUEST_ID.fullmatch(given) else None
        if name == b"traceparent":
            found = _TRACE_PARENT.fullmatch(value.decode("latin-1"))
            trace_id = found[1] if found else None
    return trace_id


class RequestContextMiddleware:
    """Gives each request an id and its time, and turns what nobody caught into a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given_id(scope) or os.urandom(16).hex()
        scope.setdefault("state", {})["request_id"] = request_id
        token = log_fields.current.set({"request_id": request_id})
        started_at = time.perf_counter()
        has_started = False

        async def send_with_context(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                elapsed_ms = (time.perf_counter() - started_at) * 1e3
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"server-timing", b"app;dur=%.2f" % elapsed_ms),
                    *_STRICT,
                    *(
                        ()
                        if any(name == _POLICY[0] for name, _ in message["headers"])
                        else (_POLICY,)
                    ),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_context)
        except Exception:
            _logger.exception("unhandled error")
            if has_started:
                raise
            await problems.respond_internal(scope["path"])(scope, receive, send_with_context)
        finally:
            log_fields.current.reset(token)
