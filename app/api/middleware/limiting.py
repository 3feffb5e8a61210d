"""Limits how often a caller may ask, per key and process, and tells how much is left."""

import math
import time
from typing import TYPE_CHECKING, Final

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import problems
from app.domain.errors import QuotaExceededError

if TYPE_CHECKING:
    from app.domain.access import Principal

_WINDOW_S: Final = 60


class RateLimitMiddleware:
    """Refuses a caller's request beyond so many in a minute."""

    def __init__(self, app: ASGIApp, per_minute: int) -> None:
        self._app = app
        self._limit = RateLimitItemPerMinute(per_minute)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get("state", {}).get("principal")
        if principal is None:
            await self._app(scope, receive, send)
            return
        caller = principal.key_id or (scope.get("client") or ("unknown",))[0]
        is_allowed = self._limiter.hit(self._limit, caller)
        stats = self._limiter.get_window_stats(self._limit, caller)
        reset_s = max(1, math.ceil(stats.reset_time - time.time()))

        async def send_with_limits(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._describe(MutableHeaders(scope=message), stats.remaining, reset_s)
            await send(message)

        if is_allowed:
            await self._app(scope, receive, send_with_limits)
            return
        error = QuotaExceededError(
            limit=f"{self._limit.amount} requests a minute", retry_after_s=reset_s
        )
        response = problems.respond_to(error, instance=scope["path"])
        await response(scope, receive, send_with_limits)

    def _describe(self, headers: MutableHeaders, remaining: int, reset_s: int) -> None:
        headers["RateLimit-Policy"] = f'"minute";q={self._limit.amount};w={_WINDOW_S}'
        headers["RateLimit"] = f'"minute";r={remaining};t={reset_s}'
        headers["RateLimit-Limit"] = str(self._limit.amount)
        headers["RateLimit-Remaining"] = str(remaining)
        headers["RateLimit-Reset"] = str(reset_s)
