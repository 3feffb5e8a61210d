"""Counts and times requests by route template for Prometheus."""

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_NO_ROUTE: Final = "(none)"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """The request metrics of one application, in a registry of its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "trainfare_http_requests",
            "Requests by route template and status.",
            ("method", "route", "status"),
            registry=registry,
        )
        self._durations = Histogram(
            "trainfare_http_request_duration_seconds",
            "Time to the end of the answer by route template.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._observers: dict[tuple[str, str, int], Callable[[float], None]] = {}

    def observe(self, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count one request; the labelled children are looked up once."""
        key = (method, route, status)
        observer = self._observers.get(key)
        if observer is None:
            observer = self._observers[key] = self._make_observer(*key)
        observer(elapsed_s)

    def _make_observer(self, method: str, route: str, status: int) -> Callable[[float], None]:
        count = self._requests.labels(method, route, str(status)).inc
        time_it = self._durations.labels(method, route).observe

        def observer(elapsed_s: float) -> None:
            count()
            time_it(elapsed_s)

        return observer


class MetricsMiddleware:
    """Observes each request; what never reached a route is counted under one name."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        status = 500

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_observed)
        finally:
            elapsed_s = time.perf_counter() - started_at
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            self._metrics.observe(method, route, status, elapsed_s)
