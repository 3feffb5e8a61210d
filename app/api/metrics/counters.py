"""What one process counts: plain numbers, which `app.api.metrics.exposition` exports."""

from dataclasses import dataclass

from app.api.encoded.cache import EncodedAnswers
from app.api.middleware.metrics import RequestMetrics
from app.services.wiring import Services


@dataclass(slots=True)
class Count:
    """A counter with its name and its help text for Prometheus."""

    name: str
    help_text: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class MetricSources:
    """The sources of one application's metrics: requests, caches and single `Count` objects."""

    services: Services
    requests: RequestMetrics
    answers: EncodedAnswers
    counts: tuple[Count, ...]
