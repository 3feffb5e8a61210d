"""Limits the request rate: per key and process, and per project over all replicas."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import problems
from app.api.middleware.exchanges import exchange_of
from app.domain.access_errors import QuotaExceededError, UnauthenticatedError
from app.services.rates import Allowance, RequestRates

if TYPE_CHECKING:
    from app.api.middleware.caller_counts import CallerCounts
    from app.domain.access import Principal

_WINDOW_S: Final = 60


class RateLimitMiddleware:
    """Refuses requests beyond a rate per minute, and reports how many are left.

    Parameters
    ----------
    app
        The application within.
    per_minute
        Requests that each key, or address without a key, may send to this process; 0: unlimited.
    rates
        Counts the requests of projects that have a limit.
    """

    def __init__(self, app: ASGIApp, *, per_minute: int, rates: RequestRates) -> None:
        self._app = app
        self._callers = _counter(per_minute) if per_minute else None
        self._rates = rates

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Return the awaitable that answers: without a limit, the application itself."""
        principal: Principal | None = scope.get("state", {}).get("principal")
        if principal is None or (self._callers is None and principal.requests_per_minute is None):
            return self._app(scope, receive, send)
        return self._answer(principal, scope, receive, send)

    async def _answer(
        self, principal: "Principal", scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            limit, allowance = await self._count(scope, principal)
        except UnauthenticatedError as refusal:  # the project was just removed
            await problems.respond_to(refusal, instance=scope["path"])(scope, receive, send)
            return
        exchange_of(scope).extra_headers += _describe(limit, allowance)
        if allowance.is_allowed:
            await self._app(scope, receive, send)
            return
        error = QuotaExceededError(
            limit=f"{limit} requests a minute", retry_after_s=allowance.reset_s
        )
        await problems.respond_to(error, instance=scope["path"])(scope, receive, send)

    async def _count(self, scope: Scope, principal: "Principal") -> tuple[int, Allowance]:
        """Return the limit with the fewest requests left, and its allowance."""
        own: tuple[int, Allowance] | None = None
        if self._callers is not None:
            caller = principal.key_id or (scope.get("client") or ("unknown",))[0]
            own = self._callers.limit, self._callers.take(caller)
            if principal.requests_per_minute is None or not own[1].is_allowed:
                return own
        assert principal.requests_per_minute is not None
        limit = principal.requests_per_minute
        shared = limit, await self._rates.take(principal.project_id, limit)
        if own is None or not shared[1].is_allowed:
            return shared
        return min(own, shared, key=lambda candidate: candidate[1].remaining)


def _counter(per_minute: int) -> "CallerCounts":
    # Without a limit, which is the default, a process does not need the counting library.
    from app.api.middleware.caller_counts import CallerCounts  # noqa: PLC0415

    return CallerCounts(per_minute)


def _describe(limit: int, allowance: Allowance) -> tuple[tuple[bytes, bytes], ...]:
    remaining, reset_s = allowance.remaining, allowance.reset_s
    return (
        (b"ratelimit-policy", b'"minute";q=%d;w=%d' % (limit, _WINDOW_S)),
        (b"ratelimit", b'"minute";r=%d;t=%d' % (remaining, reset_s)),
        (b"ratelimit-limit", b"%d" % limit),
        (b"ratelimit-remaining", b"%d" % remaining),
        (b"ratelimit-reset", b"%d" % reset_s),
    )
