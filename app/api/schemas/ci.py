"""Requests and responses about CI reports."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from app.api.schemas.base import BodyReadByHand, Refusal, RequestModel, ResponseModel
from app.api.schemas.fits import FitOut
from app.api.schemas.forecasts import WorkloadId
from app.api.schemas.quantities import Quantity
from app.api.schemas.runs import ConfigurationOut, ExpectedOut
from app.api.schemas.texts import Paragraphs, Printable
from app.domain.accuracy import DriftDirection
from app.domain.ci import CiReportRequest, Gate, GateVerdict
from app.domain.identifiers import Slug

_Name = Annotated[Printable, Field(min_length=1, max_length=200)]


class GateIn(RequestModel):
    """The conditions under which a build fails."""

    fail_probability: Annotated[
        float, Field(gt=0, le=0.5, description="how often a report without a change may fail")
    ] = 0.01
    min_effect: Annotated[
        float, Field(ge=0, le=100, description="the least slow-down that matters, as a fraction")
    ] = 0.05
    on_insufficient_data: Literal["pass", "warn", "fail"] = "pass"

    def to_domain(self) -> Gate:
        """Return the gate."""
        verdict = GateVerdict(self.on_insufficient_data)
        return Gate(self.fail_probability, self.min_effect, verdict)


class CiReportIn(BodyReadByHand):
    """Runs that a CI system has just measured, with their commit and branch."""

    workload: Annotated[WorkloadId | None, Field(description="for runs that name none")] = None
    runs: Annotated[
        list[Any],
        Field(min_length=1, max_length=1000, description="run documents as in POST /v1/runs"),
    ]
    commit: _Name | None = None
    branch: _Name | None = None
    base_branch: Annotated[
        _Name | None,
        Field(description="runs of another branch are kept out of fits until they are promoted"),
    ] = None
    pull_request: Annotated[
        Annotated[
            _Name | Annotated[int, Field(ge=0, lt=2**53)],
            Refusal(
                "A pull request is its number or a text of 1 to 200 printable characters",
                remedy="Send its number or its URL.",
            ),
        ]
        | None,
        Field(description="number or URL"),
    ] = None
    runs_per_month: Annotated[
        int | None,
        Field(
            ge=1,
            le=1_000_000_000,
            description="how often such a run is made in production; default: the usable runs of"
            " the last 30 days, of the workloads whose change of cost is shown",
        ),
    ] = None
    gate: GateIn = GateIn()

    def to_domain(self) -> CiReportRequest:
        """Return the request."""
        pull_request = self.pull_request
        return CiReportRequest(
            documents=self.runs,
            workload=None if self.workload is None else Slug(self.workload),
            commit=self.commit,
            branch=self.branch,
            base_branch=self.base_branch,
            pull_request=None if pull_request is None else str(pull_request),
            gate=self.gate.to_domain(),
            runs_per_month=self.runs_per_month,
        )


CI_REPORT_IN: TypeAdapter[CiReportIn] = TypeAdapter(CiReportIn)
CI_REPORT_EXAMPLE: dict[str, Any] = {
    "workload": "resnet50",
    "runs": [
        {
            "external_id": "ci-8841/1",
            "duration_seconds": 512.3,
            "configuration": {"gpu_type": "A10G", "workers": 1},
            "work": {"dataset_size": 50000, "epochs": 1, "batch_size": 256},
        }
    ],
    "commit": "1f2e3d4",
    "branch": "faster-loader",
    "base_branch": "main",
    "pull_request": 17,
}


class AcknowledgeIn(RequestModel):
    """Who accepts the durations of a report as the new baseline, and why."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"author": "ada", "reason": "The new augmentation is worth its time."}]
        }
    )

    author: _Name
    reason: Annotated[Paragraphs, Field(min_length=1, max_length=2000)]


class RunCostOut(ResponseModel):
    """The cost of a run as observed and as forecast."""

    observed: str
    expected: str
    currency: str


class JudgedRunOut(ResponseModel):
    """A run of a report; `p_value` is the one-sided probability of a duration at least as long."""

    run_id: str
    workload: str
    external_id: str | None
    duplicate: bool
    configuration: ConfigurationOut
    observed_seconds: Quantity
    expected_seconds: ExpectedOut | None
    ratio: float | None
    p_value: float | None
    verdict: GateVerdict
    regressor_version: int | None
    reason: str | None
    cost: RunCostOut | None = None


class CostChangeOut(ResponseModel):
    """Observed minus expected cost; positive where the runs cost more than expected."""

    per_run: str
    per_month: str | None
    runs_per_month: int
    currency: str


class CreepOut(ResponseModel):
    """A workload whose durations have drifted over several runs."""

    workload: str
    direction: DriftDirection | None
    change_ratio: float
    since: datetime | None
    since_run: str | None
    runs: int


class AcknowledgedOut(ResponseModel):
    """Who accepted the report's durations as the new baseline, when and why."""

    author: str
    reason: str
    at: datetime


class CiReportOut(ResponseModel):
    """Runs judged against their forecasts; `fit` is the workload's active fit, if any."""

    report_id: str
    created_at: datetime
    verdict: GateVerdict
    exit_code: Annotated[int, Field(description="1 fails the build, 0 does not")]
    summary: str
    runs: list[JudgedRunOut]
    drift: list[CreepOut]
    cost_change: CostChangeOut | None
    comment_markdown: str
    fit: FitOut | None
    commit: str | None
    branch: str | None
    base_branch: str | None
    pull_request: str | None
    acknowledged: AcknowledgedOut | None
    promoted_at: datetime | None


class CiReportsOut(ResponseModel):
    """A page of reports, newest first."""

    reports: list[CiReportOut]
    next_page_token: str | None
