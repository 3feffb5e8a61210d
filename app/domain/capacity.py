"""How many GPUs running and queued jobs will need."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app.domain.allocations import Placed
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastWarning
from app.domain.schedules import QueuedJob


@dataclass(frozen=True, slots=True)
class DemandedJob(QueuedJob):
    """A job of the capacity view; one that is moved or resized from `current` restarts first.

    `restart_s` is how long it holds its new GPUs before training continues.
    """

    current: Placed | None = None
    restart_s: float = 60.0


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """Running jobs, and queued ones in the order of service.

    `capacity` is the number of GPUs by type (unlimited for a type that is not named); `hours` is
    the horizon, `seed` that of the draws.
    """

    running: tuple[DemandedJob, ...]
    queued: tuple[DemandedJob, ...]
    capacity: Mapping[str, int]
    hours: int = 24
    confidence: float = 0.9
    seed: int = 0


@dataclass(frozen=True, slots=True)
class HourOfDemand:
    """One hour: the mean number of GPUs in use, the bounds of the peak, and what may be off."""

    begins_at: datetime
    expected: float
    lower: int
    upper: int
    may_switch_off: int | None


@dataclass(frozen=True, slots=True)
class JobWarning:
    """What of a job was never measured, or may not fit into memory."""

    job: QueuedJob
    warning: ForecastWarning


@dataclass(frozen=True, slots=True)
class TypeDemand:
    """The demand for one GPU type; `ends_at` is when its last job has ended with confidence."""

    gpu_type: str
    capacity: int | None
    hours: tuple[HourOfDemand, ...]
    ends_at: datetime | None
    warnings: tuple[JobWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class OmittedFromDemand:
    """A job that is not counted, or a running one that no forecast ends, and why."""

    job: QueuedJob
    reason: str
    problem: DomainError | None = None


@dataclass(frozen=True, slots=True)
class CapacityView:
    """Demand by GPU type, and the jobs whose own demand is unknown."""

    request: CapacityRequest
    demands: tuple[TypeDemand, ...]
    omitted: tuple[OmittedFromDemand, ...]
