"""The outermost layer: request id, timing, and the problem for what nobody caught."""

import logging
import re
import time
import uuid
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems

_logger = logging.getLogger(__name__)
_REQUEST_ID: Final = re.compile(r"[\w.-]{1,128}")


class RequestContextMiddleware:
    """Gives each request an id and its time, and turns what nobody caught into a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        started_at = time.perf_counter()
        has_started = False

        async def send_with_context(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["Server-Timing"] = f"app;dur={(time.perf_counter() - started_at) * 1e3:.2f}"
                headers.setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        try:
            await self._app(scope, receive, send_with_context)
        except Exception:
            _logger.exception("unhandled error", extra={"request_id": request_id})
            if has_started:
                raise
            await problems.respond_internal(scope["path"])(scope, receive, send_with_context)
