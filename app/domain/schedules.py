"""A queue of jobs and the order in which it should be served."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.domain.configurations import Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastWarning, SpotTerms
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery


class Policy(StrEnum):
    """What a queue is ordered by."""

    SHORTEST_SERVICE_FIRST = "shortest_service_first"
    SHORTEST_REMAINING_FIRST = "shortest_remaining_first"
    DEADLINE_RISK = "deadline_risk"


class Placement(StrEnum):
    """Where a job whose service cannot be forecast is placed."""

    FIRST = "first"
    MEDIAN = "median"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits or runs.

    `progress` is the share of its work that is done, in [0, 1); `elapsed_s` the seconds that this
    took, None if unknown.
    """

    ref: str
    workload: Slug
    scenario: Scenario
    progress: float = 0.0
    elapsed_s: float | None = None
    submitted_at: datetime | None = None
    deadline: datetime | None = None
    pricing: PriceQuery = field(default_factory=PriceQuery)
    spot: SpotTerms = field(default_factory=SpotTerms)

    @property
    def has_begun(self) -> bool:
        """Whether it has run, and so has shown that it fits into memory."""
        return self.progress > 0 or (self.elapsed_s or 0.0) > 0


@dataclass(frozen=True, slots=True)
class RankRequest:
    """A queue to be ordered.

    `ageing_s` is the waiting time after which a job counts as half as long, None for never;
    `confidence` applies to the bands and to keeping deadlines.
    """

    jobs: tuple[QueuedJob, ...]
    policy: Policy = Policy.SHORTEST_SERVICE_FIRST
    confidence: float = 0.9
    ageing_s: float | None = 86_400.0
    unknown: Placement = Placement.MEDIAN


@dataclass(frozen=True, slots=True)
class Band:
    """The expected value (mean) of a quantity, its median and bounds."""

    expected: float
    median: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class RankedJob:
    """A job in its place.

    `service`, on which the order rests, is in GPU-seconds (duration times workers), for the whole
    job or for what is left of it. A larger `priority` goes first; equal jobs share one. `warnings`
    say what of it was never measured, or may not fit into memory.
    """

    job: QueuedJob
    priority: int
    service: Band | None
    remaining_seconds: Band | None
    waited_s: float | None
    deadline_probability: float | None
    latest_start: datetime | None
    problem: DomainError | None = None
    warnings: tuple[ForecastWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """A queue in order."""

    request: RankRequest
    ranked: tuple[RankedJob, ...]
