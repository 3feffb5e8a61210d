"""Requests and responses about the future GPU demand of jobs."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, WrapValidator, model_validator
from typing_extensions import override

from app.api.schemas.allocations import PlacedIn
from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.forecast_answers import WarningOut
from app.api.schemas.forecasts import Name, Probability
from app.api.schemas.problems import ProblemOut
from app.api.schemas.schedules import QueuedJobIn, check_types, refuse_repeated_refs
from app.domain.capacity import CapacityRequest, DemandedJob

MAX_JOBS = 1000


class CapacityJobIn(QueuedJobIn):
    """A queued or running job; with `current`, it moves or resizes to its `configuration`."""

    current: Annotated[
        PlacedIn | None,
        Field(description="what it runs on now, where that is not its configuration"),
    ] = None
    restart_s: Annotated[
        float,
        Field(
            ge=0,
            le=1e9,
            description="time that moving or resizing takes, during which it holds its new GPUs",
        ),
    ] = 60.0

    @override
    def to_domain(self) -> DemandedJob:
        """Return the job."""
        job = super().to_domain()
        values = {field.name: getattr(job, field.name) for field in fields(job)}
        current = None if self.current is None else self.current.to_domain()
        return DemandedJob(**values, current=current, restart_s=self.restart_s)


_Jobs = Annotated[list[CapacityJobIn], Field(default_factory=list, max_length=MAX_JOBS)]


class CapacityIn(RequestModel):
    """Running jobs, and queued jobs in service order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "capacity": {"V100-16GB": 16},
                    "hours": 12,
                    "running": [
                        {
                            "ref": "nightly",
                            "workload": "resnet50",
                            "configuration": {"gpu_type": "V100-16GB", "workers": 8},
                            "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
                            "progress": 0.4,
                            "elapsed_s": 21600,
                        }
                    ],
                    "queued": [
                        {
                            "ref": "trial",
                            "workload": "resnet50",
                            "configuration": {"gpu_type": "V100-16GB", "workers": 16},
                            "work": {"dataset_size": 1281167, "epochs": 2, "batch_size": 1024},
                        }
                    ],
                }
            ]
        }
    )

    running: _Jobs
    queued: Annotated[_Jobs, Field(description="in the order of service: see :rank")]
    capacity: Annotated[
        Mapping[Name, Annotated[int, Field(ge=0, le=4096)]],
        Field(
            default_factory=dict,
            max_length=50,
            description="GPUs by type, those of running jobs included; a type not named has as many"
            " as needed",
        ),
        WrapValidator(check_types),
    ]
    hours: Annotated[int, Field(ge=1, le=336)] = 24
    confidence: Annotated[Probability, Field(description="of the bounds of the peak")] = 0.9
    seed: Annotated[int, Field(ge=0, lt=2**31, description="of the draws")] = 0

    @model_validator(mode="after")
    def _check_refs(self) -> Self:
        lists = ("running", self.running), ("queued", self.queued)
        refuse_repeated_refs(
            ((name, index), job.ref) for name, jobs in lists for index, job in enumerate(jobs)
        )
        return self

    def to_domain(self) -> CapacityRequest:
        """Return the request."""
        return CapacityRequest(
            running=tuple(job.to_domain() for job in self.running),
            queued=tuple(job.to_domain() for job in self.queued),
            capacity=dict(self.capacity),
            hours=self.hours,
            confidence=self.confidence,
            seed=self.seed,
        )


class HourOut(ResponseModel):
    """GPU demand in one hour."""

    begins_at: datetime
    expected_gpus: Annotated[float, Field(description="mean over the hour")]
    lower_gpus: Annotated[int, Field(description="of the peak within the hour")]
    upper_gpus: int
    may_switch_off: Annotated[
        int | None, Field(description="GPUs of the capacity beyond the upper bound")
    ]


class JobWarningOut(WarningOut):
    """A caveat about the forecast of one of the jobs, with a remedy."""

    ref: str


class TypeDemandOut(ResponseModel):
    """The hourly demand for one GPU type."""

    gpu_type: str
    capacity: int | None
    ends_at: Annotated[
        datetime | None, Field(description="when the last job has ended, with the confidence")
    ]
    hours: list[HourOut]
    warnings: Annotated[
        list[JobWarningOut],
        Field(description="what of its jobs was never measured, or may not fit into memory"),
    ]


class OmittedOut(ResponseModel):
    """A job that is left out of the demand, or running without a forecast, and why."""

    ref: str
    reason: Literal["no_forecast", "too_large"]
    problem: ProblemOut | None


class CapacityOut(ResponseModel):
    """The expected GPU demand by type and hour."""

    confidence: float
    demand: list[TypeDemandOut]
    left_out: list[OmittedOut]
