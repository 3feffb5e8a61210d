"""Metrics of one process for Prometheus: requests, caches, forecasts answered together."""

from collections.abc import Iterator, Sized
from itertools import accumulate
from typing import Final, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from typing_extensions import override

from app.api.encoded.cache import EncodedAnswers
from app.api.metrics.counters import Count
from app.api.middleware.metrics import BUCKETS_S, RequestMetrics
from app.services.recently_used import CacheFigures
from app.services.wiring import Services

_BOUNDS: Final = (*map(str, BUCKETS_S), "+Inf")


class RequestCollector(Collector):
    """Collects the request metrics of one application."""

    def __init__(self, requests: RequestMetrics) -> None:
        self._requests = requests

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
        for route, observed in self._requests.observed():
            for status, count in tuple(observed.by_status.items()):
                requests.add_metric((*route, str(status)), count)
            cumulative = accumulate(observed.by_bucket)
            durations.add_metric(route, [*zip(_BOUNDS, cumulative, strict=True)], observed.seconds)
        yield from (requests, durations)


class _Cache(Sized, Protocol):
    figures: CacheFigures


def _figures(name: str, cache: _Cache | None) -> tuple[str, CacheFigures, Sized]:
    """Return the figures of a cache; one that does not exist yet is empty."""
    return (name, CacheFigures(), ()) if cache is None else (name, cache.figures, cache)


class CacheCollector(Collector):
    """Collects hits, misses and sizes of the caches of one process.

    `regressors` holds loaded artefacts, `answers` answers by question, `bodies` encoded answers by
    request body; a hit in `bodies` uses only `regressors` besides.
    """

    def __init__(self, services: Services, bodies: EncodedAnswers) -> None:
        self._services, self._bodies = services, bodies

    def _caches(self) -> Iterator[tuple[str, CacheFigures, Sized]]:
        regressors = Services.regressor_cache.made_by(self._services)
        forecasts = Services.forecasts.made_by(self._services)
        yield _figures("regressors", regressors)
        yield _figures("answers", None if forecasts is None else forecasts.memo)
        yield _figures("bodies", self._bodies)

    @override
    def collect(self) -> Iterator[Metric]:
        hits = CounterMetricFamily(
            "trainfare_cache_hits", "Questions that a cache answered.", labels=("cache",)
        )
        misses = CounterMetricFamily(
            "trainfare_cache_misses", "Questions that it could not answer.", labels=("cache",)
        )
        entries = GaugeMetricFamily(
            "trainfare_cache_entries", "What a cache holds.", labels=("cache",)
        )
        for name, figures, cache in self._caches():
            hits.add_metric((name,), figures.hits)
            misses.add_metric((name,), figures.misses)
            entries.add_metric((name,), len(cache))
        yield from (hits, misses, entries)


class CountCollector(Collector):
    """Collects the single counts of one process."""

    def __init__(self, *counts: Count) -> None:
        self._counts = counts

    @override
    def collect(self) -> Iterator[Metric]:
        for count in self._counts:
            yield CounterMetricFamily(count.name, count.help_text, value=count.value)
