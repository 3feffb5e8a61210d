"""What one process counts; plain numbers, which `app.api.exposition` tells."""

from dataclasses import dataclass

from app.api.encoded_answers import EncodedAnswers
from app.api.middleware.metrics import RequestMetrics
from app.services.wiring import Services


@dataclass(slots=True)
class Count:
    """A number with its name and its words for Prometheus."""

    name: str
    words: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """What counts in one application: requests, caches, and what has a `Count` of its own."""

    services: Services
    requests: RequestMetrics
    answers: EncodedAnswers
    counts: tuple[Count, ...]
