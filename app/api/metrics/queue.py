"""Metrics from the database for Prometheus: fits, fitters, and realised forecast accuracy."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from app.domain.accuracy import RealisedAccuracy
from app.domain.availability_errors import StorageUnavailableError
from app.domain.health import FitActivity
from app.services.health import HealthService
from app.services.realised import RealisedService

_WORKLOAD: Final = ("project", "workload")
_INTERVAL: Final = (*_WORKLOAD, "confidence")


class RealisedMetrics(Collector):
    """Error and coverage of recorded forecasts by workload, if enabled in the settings.

    Another scrape may read them while one is collected, so they are replaced as a whole: a series
    that is missing once would start the waiting time of an alert anew.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._accuracies: tuple[RealisedAccuracy, ...] = ()
        registry.register(self)

    def show(self, accuracies: Iterable[RealisedAccuracy]) -> None:
        """Export exactly these workloads."""
        self._accuracies = tuple(accuracies)

    @override
    def collect(self) -> Iterable[Metric]:
        runs = GaugeMetricFamily(
            "trainfare_realised_runs",
            "Runs of the last 7 days that name a recorded forecast.",
            labels=_WORKLOAD,
        )
        mape = GaugeMetricFamily(
            "trainfare_realised_mape",
            "Mean absolute percentage error of their forecasts, as a fraction.",
            labels=_WORKLOAD,
        )
        coverage = GaugeMetricFamily(
            "trainfare_realised_coverage",
            "Share of them inside the interval of the forecast, by its confidence.",
            labels=_INTERVAL,
        )
        judged = GaugeMetricFamily(
            "trainfare_realised_judged_runs",
            "How many of them had an interval of that confidence.",
            labels=_INTERVAL,
        )
        for accuracy in self._accuracies:
            workload = (accuracy.project, accuracy.workload)
            runs.add_metric(workload, accuracy.runs)
            mape.add_metric(workload, accuracy.mape)
            for level, share in accuracy.coverage.items():
                coverage.add_metric((*workload, f"{level:g}"), share)
                judged.add_metric((*workload, f"{level:g}"), accuracy.judged[level])
        return runs, mape, coverage, judged


class QueueMetrics(Collector):
    """Fit metrics from the database, read at each scrape.

    Nothing is exported before the first successful read: a process that never reached the database
    would otherwise report that no fitter is alive.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._database = Gauge(
            "trainfare_database_up", "1 while the database answers.", registry=registry
        )
        registry.register(self)
        self._is_read = False
        self._gauges = gauges = CollectorRegistry()
        self._queued = Gauge("trainfare_fits_queued", "Fits that wait.", registry=gauges)
        self._fitters = Gauge("trainfare_fitters_alive", "Live fitters.", registry=gauges)
        self._waiting = Gauge(
            "trainfare_fitters_waiting",
            "Live fitters that wait for their Ray cluster.",
            registry=gauges,
        )
        self._fits = Gauge(
            "trainfare_fits_last_hour",
            "Fits that ended in the last hour by state, and those that wait or run.",
            ("state",),
            registry=gauges,
        )
        self._takeovers = Gauge(
            "trainfare_fit_takeovers_last_hour",
            "Restarts of these fits because their fitter was lost.",
            registry=gauges,
        )
        self._duration = Gauge(
            "trainfare_fit_duration_last_hour_seconds",
            "Mean duration of the fits that ended in the last hour.",
            registry=gauges,
        )
        self._wait = Gauge(
            "trainfare_fit_longest_wait_seconds",
            "How long the oldest queued fit waits.",
            registry=gauges,
        )
        self._realised = RealisedMetrics(gauges)

    def read(self, health: HealthService, realised: RealisedService) -> bool:
        """Set the gauges if the database answers, else keep them; return whether it did."""
        try:
            queued, fitters = health.count_queue()
            self._show(health.fit_activity())
            self._realised.show(realised.accuracy())
        except StorageUnavailableError:
            return False
        self._queued.set(queued)
        self._fitters.set(fitters.alive)
        self._waiting.set(fitters.waiting)
        self._is_read = True
        return True

    def report_database(self, *, is_up: bool) -> None:
        """Set the gauge of whether the database answers in time."""
        self._database.set(is_up)

    @override
    def collect(self) -> Iterable[Metric]:
        return self._gauges.collect() if self._is_read else ()

    def _show(self, activity: FitActivity) -> None:
        for state, count in activity.by_state.items():
            self._fits.labels(state).set(count)
        self._takeovers.set(activity.takeovers)
        self._duration.set(activity.mean_duration_s or 0.0)
        self._wait.set(activity.longest_wait_s)
