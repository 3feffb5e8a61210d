"""Requests and responses about the allocation of GPUs to elastic jobs."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.forecasts import (
    Name,
    Parameters,
    PricingIn,
    Probability,
    Size,
    WorkIn,
    WorkloadId,
    to_parameters,
)
from app.api.schemas.instants import Instant
from app.api.schemas.problems import ProblemOut
from app.api.schemas.schedules import (
    ExpectationOut,
    JobWarnings,
    Progress,
    Ref,
    check_refs,
    check_types,
)
from app.domain.allocations import (
    AllocationRequest,
    ElasticJob,
    Goal,
    Move,
    Omission,
    Placed,
    Shortage,
)
from app.domain.identifiers import Slug

MAX_JOBS = 1000
_Workers = Annotated[int, Field(ge=1, le=100_000)]


class PlacedIn(RequestModel):
    """The resources that a job runs on now."""

    gpu_type: Name
    workers: _Workers
    batch_size: Size | None = None

    def to_domain(self) -> Placed:
        """Return the placement."""
        return Placed(self.gpu_type, self.workers, self.batch_size)


class ElasticJobIn(RequestModel):
    """An elastic job: it can run on different numbers of workers."""

    ref: Ref
    workload: WorkloadId
    work: WorkIn = WorkIn()
    parameters: Annotated[Parameters, Field(default_factory=dict)]
    min_workers: _Workers = 1
    max_workers: Annotated[_Workers | None, Field(description="default: the capacity")] = None
    worker_counts: Annotated[
        list[_Workers] | None,
        Field(
            min_length=1,
            max_length=1000,
            description="allowed numbers; default: up to 64 within the limits, and that on which it"
            " runs",
        ),
    ] = None
    batch_sizes: Annotated[
        list[Size] | None,
        Field(min_length=1, max_length=100, description="allowed; default: that of the work"),
    ] = None
    gradient_noise_scale: Annotated[
        Size | None,
        Field(
            description="in samples: a batch of this size needs twice the samples of a tiny one;"
            " default: what the workload's runs show, if they have `samples_to_target`"
        ),
    ] = None
    gpu_types: Annotated[
        list[Name] | None,
        Field(min_length=1, max_length=100, description="allowed; default: those of the capacity"),
    ] = None
    weight: Annotated[float, Field(ge=1e-3, le=1e3)] = 1.0
    deadline: Instant | None = None
    progress: Progress = 0.0
    current: PlacedIn | None = None
    restart_s: Annotated[
        float, Field(ge=0, le=1e9, description="what shrinking, growing or moving costs")
    ] = 60.0

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.max_workers is not None and self.max_workers < self.min_workers:
            raise PydanticCustomError(
                "workers",
                "max_workers is less than min_workers",
                {"path": ["max_workers"], "remedy": "Let max_workers be at least min_workers."},
            )
        return self

    def to_domain(self) -> ElasticJob:
        """Return the job."""
        return ElasticJob(
            ref=self.ref,
            workload=Slug(self.workload),
            work=self.work.to_domain(),
            parameters=to_parameters(self.parameters),
            min_workers=self.min_workers,
            max_workers=self.max_workers,
            worker_counts=tuple(self.worker_counts or ()),
            batch_sizes=tuple(dict.fromkeys(self.batch_sizes or ())),
            gradient_noise_scale=self.gradient_noise_scale,
            gpu_types=tuple(self.gpu_types or ()),
            weight=self.weight,
            deadline=self.deadline,
            progress=self.progress,
            current=None if self.current is None else self.current.to_domain(),
            restart_s=self.restart_s,
        )


class AllocateIn(RequestModel):
    """The capacity of a cluster and the jobs that share it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "capacity": {"V100-16GB": 16},
                    "objective": "mean_completion",
                    "jobs": [
                        {
                            "ref": "nightly",
                            "workload": "resnet50",
                            "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
                            "min_workers": 2,
                            "max_workers": 16,
                        },
                        {
                            "ref": "trial",
                            "workload": "resnet50",
                            "work": {"dataset_size": 1281167, "epochs": 2, "batch_size": 1024},
                            "max_workers": 4,
                        },
                    ],
                }
            ]
        }
    )

    capacity: Annotated[
        Mapping[Name, Annotated[int, Field(ge=0, le=1_000_000)]],
        Field(
            min_length=1,
            max_length=50,
            description="GPUs by type, those of running `jobs` included; 0 where there is none;"
            " `any` has no type",
        ),
        WrapValidator(check_types),
    ]
    jobs: Annotated[list[ElasticJobIn], Field(max_length=MAX_JOBS), AfterValidator(check_refs)]
    objective: Goal = Goal.MEAN_COMPLETION
    confidence: Annotated[
        Probability, Field(description="with which deadlines are kept, and of the bands")
    ] = 0.9
    require_within_range: Annotated[
        bool, Field(description="whether jobs get only what lies within the measured ranges")
    ] = False
    on_shortage: Annotated[
        Shortage, Field(description="when the minimums of all jobs do not fit")
    ] = Shortage.REFUSE
    time_limit_s: Annotated[float, Field(ge=0.1, le=60, description="of the solver")] = 10.0
    pricing: PricingIn = PricingIn()

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if sum(self.capacity.values()) > _MAX_GPUS:
            raise PydanticCustomError(
                "capacity",
                "More than {most} GPUs",
                {"most": _MAX_GPUS, "path": ["capacity"], "remedy": "Split the cluster."},
            )
        return self

    def to_domain(self) -> AllocationRequest:
        """Return the allocation request."""
        return AllocationRequest(
            capacity=dict(self.capacity),
            jobs=tuple(job.to_domain() for job in self.jobs),
            goal=self.objective,
            confidence=self.confidence,
            require_within_range=self.require_within_range,
            on_shortage=self.on_shortage,
            time_limit_s=self.time_limit_s,
            pricing=self.pricing.to_domain(),
            spot=self.pricing.spot.to_domain(),
        )


_MAX_GPUS = 16_384


class AllocatedJobOut(ResponseModel):
    """The resources that a job is given."""

    ref: str
    workload: str
    gpu_type: str
    workers: int
    batch_size: float | None
    change: Move
    expected_completion_seconds: Annotated[
        ExpectationOut, Field(description="from now, the cost of a restart included")
    ]
    deadline_probability: float | None
    cost: Annotated[str | None, Field(description="expected; only with the objective cost")]
    currency: str | None
    warnings: JobWarnings


class PlacedOut(ResponseModel):
    """The resources that a job runs on."""

    gpu_type: str
    workers: int
    batch_size: float | None


class OmittedJobOut(ResponseModel):
    """A job that is given no resources, and why."""

    ref: str
    reason: Omission
    problem: ProblemOut | None
    keeps: Annotated[
        PlacedOut | None,
        Field(
            description="what a running job without an option goes on with; no other job gets it"
        ),
    ]


class OmittedTypeOut(ResponseModel):
    """A GPU type of the capacity that none of the jobs can get, and why."""

    gpu_type: str
    reason: Omission
    problem: ProblemOut | None


class AllocateOut(ResponseModel):
    """An allocation, its objective value and how far it may be from the optimum."""

    objective: Goal
    objective_value: Annotated[
        float | None,
        Field(description="jobs an hour, mean or largest completion in seconds, or money"),
    ]
    exact: Annotated[bool, Field(description="whether no allocation of these options is better")]
    gap: Annotated[float | None, Field(description="how much better one could be, as a fraction")]
    method: str
    capacity: Mapping[str, int]
    used: Mapping[str, int]
    allocated: list[AllocatedJobOut]
    left_out: list[OmittedJobOut]
    left_out_types: Annotated[
        list[OmittedTypeOut],
        Field(description="without a forecast or price for any job that has one on another type"),
    ]
