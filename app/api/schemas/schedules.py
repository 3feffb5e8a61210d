"""Requests and responses about ordering a queue of jobs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidatorFunctionWrapHandler
from pydantic_core import PydanticCustomError

from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.forecast_answers import WarningOut
from app.api.schemas.forecasts import (
    ConfigurationIn,
    Parameters,
    PricingIn,
    Probability,
    Seconds,
    WorkIn,
    WorkloadId,
    to_parameters,
)
from app.api.schemas.instants import Instant
from app.api.schemas.problems import ProblemOut
from app.api.schemas.texts import Verbatim
from app.domain.configurations import Scenario
from app.domain.identifiers import Slug
from app.domain.schedules import Placement, Policy, QueuedJob, RankRequest
from app.pricing.gpus import gpu_key

MAX_JOBS = 10_000
Ref = Annotated[
    Verbatim, Field(min_length=1, max_length=200, description="the caller's name for the job")
]
Progress = Annotated[float, Field(ge=0, lt=1, description="share of the work that is done")]
Elapsed = Annotated[
    float | None,
    Field(ge=0, le=1e12, description="seconds that it ran, without waits, pauses and its start-up"),
]


class QueuedJobIn(RequestModel):
    """A queued or running job."""

    ref: Ref
    workload: WorkloadId
    configuration: ConfigurationIn = ConfigurationIn()
    work: WorkIn = WorkIn()
    parameters: Annotated[Parameters, Field(default_factory=dict)]
    progress: Progress = 0.0
    elapsed_s: Elapsed = None
    submitted_at: Annotated[Instant | None, Field(description="waiting jobs age from then on")] = (
        None
    )
    deadline: Instant | None = None
    pricing: PricingIn = PricingIn()

    def to_domain(self) -> QueuedJob:
        """Return the job."""
        return QueuedJob(
            ref=self.ref,
            workload=Slug(self.workload),
            scenario=Scenario(
                self.configuration.to_domain(),
                self.work.to_domain(),
                to_parameters(self.parameters),
            ),
            progress=self.progress,
            elapsed_s=self.elapsed_s,
            submitted_at=self.submitted_at,
            deadline=self.deadline,
            pricing=self.pricing.to_domain(),
            spot=self.pricing.spot.to_domain(),
        )


def check_refs(jobs: Sequence[Any]) -> Sequence[Any]:
    """Return the jobs if their refs are unique; for use in `AfterValidator`."""
    refuse_repeated_refs(((index,), job.ref) for index, job in enumerate(jobs))
    return jobs


def refuse_repeated_refs(refs: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
    """Refuse jobs of which two have one ref; each comes with the path to its job.

    Raises
    ------
    PydanticCustomError
        If a ref is repeated.
    """
    seen: set[str] = set()
    for path, ref in refs:
        if ref in seen:
            raise PydanticCustomError(
                "repeated_ref",
                "Two jobs have the ref {ref}",
                {
                    "ref": repr(ref),
                    "path": [*path, "ref"],
                    "value": ref,
                    "remedy": "Give each job a ref of its own.",
                },
            )
        seen.add(ref)


def check_types(given: Any, check: ValidatorFunctionWrapHandler) -> Mapping[str, int]:
    """Return a capacity that names each GPU type once; for use in `WrapValidator`."""
    capacity: Mapping[str, int] = check(given)
    seen: dict[str, str] = {}
    for name in given:
        if (earlier := seen.setdefault(gpu_key(name.strip()), name)) != name:
            raise PydanticCustomError(
                "repeated_gpu_type",
                "{earlier} and {name} are one GPU type",
                {
                    "earlier": repr(earlier),
                    "name": repr(name),
                    "path": [name],
                    "remedy": "Name each type once, with all of its GPUs.",
                },
            )
    return capacity


class RankIn(RequestModel):
    """A queue to order, and the policy."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "policy": "shortest_service_first",
                    "jobs": [
                        {
                            "ref": "nightly",
                            "workload": "resnet50",
                            "configuration": {"gpu_type": "V100-16GB", "workers": 8},
                            "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
                            "submitted_at": "2026-11-01T08:00:00Z",
                        },
                        {
                            "ref": "trial",
                            "workload": "resnet50",
                            "configuration": {"gpu_type": "V100-16GB", "workers": 1},
                            "work": {"dataset_size": 1281167, "epochs": 2, "batch_size": 128},
                            "submitted_at": "2026-11-01T09:30:00Z",
                        },
                    ],
                }
            ]
        }
    )

    jobs: Annotated[list[QueuedJobIn], Field(max_length=MAX_JOBS), AfterValidator(check_refs)]
    policy: Policy = Policy.SHORTEST_SERVICE_FIRST
    confidence: Annotated[
        Probability, Field(description="of the bands, and with which deadlines are kept")
    ] = 0.9
    ageing_s: Annotated[
        Seconds | None,
        Field(
            description="a job that has waited this long counts as half as long; null: no ageing"
        ),
    ] = 86_400.0
    unknown: Annotated[
        Placement, Field(description="where jobs that cannot be forecast are placed")
    ] = Placement.MEDIAN

    def to_domain(self) -> RankRequest:
        """Return the queue."""
        return RankRequest(
            jobs=tuple(job.to_domain() for job in self.jobs),
            policy=self.policy,
            confidence=self.confidence,
            ageing_s=self.ageing_s,
            unknown=self.unknown,
        )


class ExpectationOut(ResponseModel):
    """The mean (`expected`), median and interval of a quantity."""

    expected: float
    median: float
    lower: float
    upper: float


JobWarnings = Annotated[
    list[WarningOut],
    Field(description="what of this was never measured, or may not fit into memory"),
]


class RankedJobOut(ResponseModel):
    """A job with its position in the queue."""

    position: int
    ref: str
    workload: str
    priority: Annotated[int, Field(description="the larger goes first; equal jobs share one")]
    expected_service_gpu_seconds: ExpectationOut | None
    remaining_seconds: ExpectationOut | None
    waited_s: float | None
    deadline_probability: Annotated[
        float | None, Field(description="of keeping the deadline when it starts now")
    ]
    latest_start: Annotated[
        datetime | None, Field(description="that keeps the deadline with this confidence")
    ]
    problem: Annotated[ProblemOut | None, Field(description="why the job cannot be forecast")]
    warnings: JobWarnings


class RankOut(ResponseModel):
    """An ordered queue."""

    policy: Policy
    confidence: float
    ranked: list[RankedJobOut]
    failed: Annotated[int, Field(description="jobs that cannot be forecast")]
