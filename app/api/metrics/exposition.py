"""Exports an application's metrics to Prometheus; imported at the first scrape."""

from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.api.metrics.counters import MetricSources
from app.api.metrics.queue import QueueMetrics
from app.api.metrics.serving import CacheCollector, CountCollector, RequestCollector
from app.api.metrics.siblings import SiblingMetrics
from app.api.watching import OneReading


class Exposition:
    """The metrics of one application, in its own registries: a process may hold several.

    Parameters
    ----------
    sources
        The counts and the services of this process.
    siblings
        Folder in which the web processes of one port share their counts; `start` begins writing,
        and the metrics are the sums over all. None: this is the only process.
    """

    media_type = CONTENT_TYPE_LATEST

    def __init__(self, sources: MetricSources, siblings: Path | None) -> None:
        services, process_registry = sources.services, CollectorRegistry()
        ProcessCollector(registry=process_registry)
        process_registry.register(RequestCollector(sources.requests))
        process_registry.register(CacheCollector(services, sources.answers))
        process_registry.register(CountCollector(*sources.counts))
        self._siblings = None if siblings is None else SiblingMetrics(process_registry, siblings)
        self._registry = CollectorRegistry()
        self._registry.register(self._siblings or process_registry)
        build = Gauge("trainfare_build_info", "Always 1.", ("version",), registry=self._registry)
        build.labels(version("trainfare")).set(1)
        self._queue = QueueMetrics(self._registry)
        self.queue_reading = OneReading(
            lambda: self._queue.read(services.watching_health, services.realised)
        )

    def start(self) -> None:
        """Begin sharing this process's counts with its siblings."""
        if self._siblings is not None:
            self._siblings.start()

    def close(self) -> None:
        """Share the counts for the last time."""
        if self._siblings is not None:
            self._siblings.close()

    async def document(self) -> bytes:
        """Return all metrics as text."""
        is_up = await self.queue_reading.result()
        self._queue.report_database(is_up=bool(is_up))
        return generate_latest(self._registry)
