"""What the caches hold and how forecasts came true, for Prometheus."""

from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from app.api.encoded_answers import EncodedAnswers
from app.domain.accuracy import RealisedAccuracy
from app.services.recently_used import CacheFigures
from app.services.wiring import Services

_WORKLOAD: Final = ("project", "workload")


class _Cache(Sized, Protocol):
    figures: CacheFigures


def _figures(name: str, cache: _Cache | None) -> tuple[str, CacheFigures, Sized]:
    """Return what is told of a cache; one that nobody asked for yet is empty."""
    return (name, CacheFigures(), ()) if cache is None else (name, cache.figures, cache)


class CacheCollector(Collector):
    """Reads hits, misses and sizes of the caches of one process when it is asked.

    `regressors` are loaded artefacts, `answers` what a question was answered, `bodies` the bytes
    that answered a body; a forecast that `bodies` knows asks `regressors` alone.
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


@dataclass(slots=True)
class Count:
    """What one process counts, with its name and its words for Prometheus."""

    name: str
    words: str
    value: int = 0


class CountCollector(Collector):
    """Tells the counts of one process when it is asked."""

    def __init__(self, *counts: Count) -> None:
        self._counts = counts

    @override
    def collect(self) -> Iterator[Metric]:
        for count in self._counts:
            yield CounterMetricFamily(count.name, count.words, value=count.value)


class RealisedMetrics:
    """Error and coverage of recorded forecasts, workload by workload, where the settings ask."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs = Gauge(
            "trainfare_realised_runs",
            "Runs of the last 7 days that name a recorded forecast.",
            _WORKLOAD,
            registry=registry,
        )
        self._mape = Gauge(
            "trainfare_realised_mape",
            "Mean absolute percentage error of their forecasts, as a fraction.",
            _WORKLOAD,
            registry=registry,
        )
        self._coverage = Gauge(
            "trainfare_realised_coverage",
            "Share of them inside the interval of the forecast, by its confidence.",
            (*_WORKLOAD, "confidence"),
            registry=registry,
        )

    def show(self, found: list[RealisedAccuracy]) -> None:
        """Tell these workloads and no others."""
        for gauge in (self._runs, self._mape, self._coverage):
            gauge.clear()
        for each in found:
            self._runs.labels(each.project, each.workload).set(each.runs)
            self._mape.labels(each.project, each.workload).set(each.mape)
            for level, share in each.coverage.items():
                self._coverage.labels(each.project, each.workload, f"{level:g}").set(share)
