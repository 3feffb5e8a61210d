"""Counts and times requests by route template for Prometheus."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_BOUNDS: Final = (*map(str, _BUCKETS), "+Inf")
NO_ROUTE: Final = "(none)"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Observed:
    """What was seen of one method of one route."""

    __slots__ = ("by_bucket", "by_status", "seconds")

    def __init__(self) -> None:
        self.by_status: dict[int, int] = {}
        self.by_bucket = [0] * len(_BOUNDS)
        self.seconds = 0.0


class RequestMetrics(Collector):
    """The request metrics of one application, told when they are asked for.

    Requests are observed by the event loop alone: plain numbers need no lock, and cost a sixth
    of the library's counters and histograms.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._observed: dict[tuple[str, str], _Observed] = {}
        registry.register(self)

    def observe(self, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count one request; what never reached a route is counted under `NO_ROUTE`."""
        key = (method, route)
        observed = self._observed.get(key)
        if observed is None:
            observed = self._observe_anew(*key)
        observed.by_status[status] = observed.by_status.get(status, 0) + 1
        observed.by_bucket[bisect_left(_BUCKETS, elapsed_s)] += 1
        observed.seconds += elapsed_s

    def _observe_anew(self, method: str, route: str) -> _Observed:
        known = method if method in _METHODS else "other"
        return self._observed.setdefault((known, route), _Observed())

    @override
    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "trainfare_http_requests",
            "Requests by route template and status.",
            labels=("method", "route", "status"),
        )
        durations = HistogramMetricFamily(
            "trainfare_http_request_duration_seconds",
            "Time to the end of the answer by route template.",
            labels=("method", "route"),
        )
        for key, observed in tuple(self._observed.items()):
            for status, count in tuple(observed.by_status.items()):
                requests.add_metric((*key, str(status)), count)
            within = accumulate(observed.by_bucket)
            durations.add_metric(key, [*zip(_BOUNDS, within, strict=True)], observed.seconds)
        yield from (requests, durations)
