"""Single middleware layers within the one that gives each request its exchange."""

from starlette.types import ASGIApp

from app.api.middleware.deadlines import DeadlineWatch
from app.api.middleware.exchanges import ExchangeMiddleware
from app.api.middleware.metrics import RequestMetrics


def within_exchanges(
    app: ASGIApp, *, request_s: float = 30.0, upload_s: float = 300.0, max_waiting: int = 200
) -> ExchangeMiddleware:
    """Return a layer within the outermost one."""
    watch = DeadlineWatch(request_s=request_s, upload_s=upload_s, max_waiting=max_waiting)
    return ExchangeMiddleware(app, watch, RequestMetrics())
