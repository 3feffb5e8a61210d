"""GPUs allocated to elastic jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from app.domain.configurations import ParameterValue, Work
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastWarning, SpotTerms
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery
from app.domain.schedules import Band

ANY_TYPE: Final = "any"
"""The name of capacity that has no GPU type (workers of a CPU cluster)."""


class Goal(StrEnum):
    """What an allocation is for."""

    THROUGHPUT = "throughput"
    MEAN_COMPLETION = "mean_completion"
    MAKESPAN = "makespan"
    COST = "cost"


class Shortage(StrEnum):
    """What happens when the minimums of all jobs exceed the capacity."""

    REFUSE = "refuse"
    LEAVE_OUT = "leave_out"


class Omission(StrEnum):
    """Why a job gets nothing."""

    NO_FORECAST = "no_forecast"
    BEYOND_RANGE = "beyond_range"
    OUT_OF_MEMORY = "out_of_memory"
    DEADLINE = "deadline"
    PRICE_UNKNOWN = "price_unknown"
    TOO_LARGE = "too_large"
    NO_SUCH_GPU = "no_such_gpu"
    NO_WORKER_COUNT = "no_worker_count"
    CAPACITY = "capacity"


class Move(StrEnum):
    """What an allocation means for a job."""

    START = "start"
    KEEP = "keep"
    GROW = "grow"
    SHRINK = "shrink"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Placed:
    """GPUs that a job has or gets; `gpu_type` as the capacity names it."""

    gpu_type: str
    workers: int
    batch_size: float | None = None


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """A job that can run on several numbers of workers.

    `batch_sizes` are the global batch sizes that it may use (empty: that of its work); with a
    `gradient_noise_scale` (in samples), the batch size also changes how many samples it needs.
    `progress` is the share of its work that is done, `current` what it runs on, `restart_s` the
    seconds that changing this costs.
    """

    ref: str
    workload: Slug
    work: Work = field(default_factory=Work)
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    min_workers: int = 1
    max_workers: int | None = None
    worker_counts: tuple[int, ...] = ()
    batch_sizes: tuple[float, ...] = ()
    gradient_noise_scale: float | None = None
    gpu_types: tuple[str, ...] = ()
    weight: float = 1.0
    deadline: datetime | None = None
    progress: float = 0.0
    current: Placed | None = None
    restart_s: float = 60.0


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """Capacity by GPU type and the jobs to share it; deadlines are kept at `confidence`.

    With `require_within_range`, no job gets what was never measured.
    """

    capacity: Mapping[str, int]
    jobs: tuple[ElasticJob, ...]
    goal: Goal = Goal.MEAN_COMPLETION
    confidence: float = 0.9
    require_within_range: bool = False
    on_shortage: Shortage = Shortage.REFUSE
    time_limit_s: float = 10.0
    pricing: PriceQuery = field(default_factory=PriceQuery)
    spot: SpotTerms = field(default_factory=SpotTerms)


@dataclass(frozen=True, slots=True)
class AllocatedJob:
    """What a job gets; `completion_seconds` are from now and include a restart.

    `warnings` say what of it was never measured, or may not fit into memory.
    """

    job: ElasticJob
    placed: Placed
    move: Move
    completion_seconds: Band
    deadline_probability: float | None
    cost: Decimal | None
    currency: str | None
    warnings: tuple[ForecastWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class OmittedJob:
    """A job that is not allocated anything, and why; `keeps` is what a running one goes on with."""

    job: ElasticJob
    reason: Omission
    problem: DomainError | None = None
    keeps: Placed | None = None


@dataclass(frozen=True, slots=True)
class OmittedType:
    """A GPU type of the capacity that none of the jobs can get, and why."""

    gpu_type: str
    reason: Omission
    problem: DomainError | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocation and how good it is.

    `objective` is the value of the goal: jobs per hour, the weighted mean of the expected
    completion times, the time by which each job has ended with confidence, or money. `gap` bounds
    how much better any allocation could be, as a fraction; it is 0 if `is_exact`.
    """

    request: AllocationRequest
    allocated: tuple[AllocatedJob, ...]
    omitted: tuple[OmittedJob, ...]
    omitted_types: tuple[OmittedType, ...]
    used: Mapping[str, int]
    objective: float | None
    method: str
    is_exact: bool
    gap: float | None
