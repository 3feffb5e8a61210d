"""Requests and responses about running jobs."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.forecast_answers import BandOut
from app.api.schemas.forecasts import (
    ConfigurationIn,
    Parameters,
    PricingIn,
    Probability,
    WorkIn,
    WorkloadId,
    to_parameters,
)
from app.api.schemas.instants import Instant
from app.api.schemas.schedules import Elapsed, JobWarnings
from app.domain.configurations import Scenario
from app.domain.identifiers import Slug
from app.domain.remaining import RemainingRequest, Segment


class SegmentIn(RequestModel):
    """A past part of the job, on another configuration."""

    configuration: ConfigurationIn
    elapsed_s: Annotated[float, Field(gt=0, le=1e12, description="how long it took")]
    progress: Annotated[
        float, Field(ge=1e-6, lt=1, description="share of the whole work that it did")
    ]

    def to_domain(self) -> Segment:
        """Return the segment."""
        return Segment(self.configuration.to_domain(), self.elapsed_s, self.progress)


class RemainingIn(RequestModel):
    """A running job."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "workload": "resnet50",
                    "configuration": {"gpu_type": "V100-16GB", "workers": 8},
                    "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
                    "progress": 0.4,
                    "elapsed_s": 21600,
                }
            ]
        }
    )

    workload: WorkloadId
    configuration: Annotated[ConfigurationIn, Field(description="that it runs on now")] = (
        ConfigurationIn()
    )
    work: Annotated[WorkIn, Field(description="the whole work, not what is left")] = WorkIn()
    parameters: Annotated[Parameters, Field(default_factory=dict)]
    progress: Annotated[
        float | None, Field(ge=0, lt=1, description="share of the work that is done; null: unknown")
    ] = None
    elapsed_s: Elapsed = None
    segments: Annotated[
        list[SegmentIn],
        Field(
            default_factory=list,
            max_length=50,
            description="past stretches on other configurations; progress and elapsed_s of the job"
            " include them",
        ),
    ]
    confidence: Annotated[Probability, Field(description="of the intervals")] = 0.9
    deadline: Instant | None = None
    rate_variation: Annotated[
        float,
        Field(ge=0.001, le=10, description="relative deviation of the rate over a whole run"),
    ] = 0.1
    pricing: PricingIn = PricingIn()
    regressor_version: Annotated[int | None, Field(ge=1, lt=2**31)] = None

    def to_domain(self) -> RemainingRequest:
        """Return the job."""
        return RemainingRequest(
            workload=Slug(self.workload),
            scenario=Scenario(
                self.configuration.to_domain(),
                self.work.to_domain(),
                to_parameters(self.parameters),
            ),
            progress=self.progress,
            elapsed_s=self.elapsed_s,
            segments=tuple(segment.to_domain() for segment in self.segments),
            confidence=self.confidence,
            deadline=self.deadline,
            rate_variation=self.rate_variation,
            pricing=self.pricing.to_domain(),
            spot=self.pricing.spot.to_domain(),
            regressor_version=self.regressor_version,
        )


class RemainingOut(ResponseModel):
    """How long the job will still take."""

    workload: str
    regressor_version: int
    remaining_seconds: BandOut
    expected_remaining_seconds: Annotated[float, Field(description="the mean")]
    total_seconds: Annotated[BandOut, Field(description="from its start to its end")]
    forecast_seconds: Annotated[
        BandOut, Field(description="of the whole job before it began, on this configuration")
    ]
    ratio: Annotated[
        float,
        Field(description="how many times as long as forecast it would take on this configuration"),
    ]
    observed_weight: Annotated[
        float, Field(description="share of the observed rate in the answer, the forecast the rest")
    ]
    ends_at: datetime | None
    latest_end: Annotated[datetime | None, Field(description="at the upper bound")]
    deadline_probability: float | None
    warnings: JobWarnings
