"""Requests and responses about runs."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from app.api.schemas.base import PageToken, RequestModel, ResponseModel
from app.api.schemas.instants import Moment
from app.api.schemas.quantities import Quantity, money_text, plain_number
from app.api.schemas.texts import Printable
from app.domain.configurations import Configuration, Purchase, Work
from app.domain.errors import Fault
from app.domain.pages import MAX_PAGE_SIZE, Page
from app.domain.runs import (
    ASSESSED_CONFIDENCE,
    Assessment,
    Money,
    Run,
    RunChange,
    RunFilter,
    RunStatus,
    Verdict,
)
from app.services.uploads.terms import Oddity, UploadedRun, UploadOptions, UploadResult


class UploadQuery(RequestModel):
    """How an upload is processed."""

    dry_run: Annotated[bool, Field(description="check only, store nothing")] = False
    on_invalid: Annotated[
        Literal["refuse", "skip"],
        Field(description="refuse: all or nothing; skip: store the good rows, name the bad"),
    ] = "refuse"

    def to_options(self) -> UploadOptions:
        """Return the options of the upload."""
        return UploadOptions(dry_run=self.dry_run, skip_invalid=self.on_invalid == "skip")


class ExpectedOut(ResponseModel):
    """The forecast for a run: its median and prediction interval at `confidence`, in seconds."""

    median: Quantity
    lower: Quantity
    upper: Quantity
    confidence: float

    @classmethod
    def of(cls, assessment: Assessment) -> "ExpectedOut | None":
        """Return the forecast for the run, None if there was none."""
        median = assessment.expected_median_seconds
        lower, upper = assessment.expected_lower_seconds, assessment.expected_upper_seconds
        if median is None or lower is None or upper is None:
            return None
        return cls(median=median, lower=lower, upper=upper, confidence=ASSESSED_CONFIDENCE)


class AssessmentOut(ResponseModel):
    """A run judged against the forecast for its configuration."""

    verdict: Verdict
    expected_seconds: ExpectedOut | None
    ratio: float | None
    p_value: float | None
    reason: str | None

    @classmethod
    def of(cls, assessment: Assessment) -> "AssessmentOut":
        """Return the schema of an assessment."""
        return cls(
            verdict=assessment.verdict,
            expected_seconds=ExpectedOut.of(assessment),
            ratio=assessment.ratio,
            p_value=assessment.p_value,
            reason=assessment.reason,
        )


class UploadedRunOut(ResponseModel):
    """An accepted row; `run_id` is null in a dry run."""

    row: int
    run_id: str | None
    workload: str
    external_id: str | None
    duplicate: bool
    assessment: AssessmentOut

    @classmethod
    def of(cls, uploaded: UploadedRun) -> "UploadedRunOut":
        """Return the schema of an accepted row."""
        accepted = uploaded.accepted
        return cls(
            row=accepted.row,
            run_id=accepted.run_id,
            workload=accepted.workload,
            external_id=accepted.external_id,
            duplicate=accepted.is_duplicate,
            assessment=AssessmentOut.of(uploaded.assessment),
        )


class InvalidRowOut(ResponseModel):
    """An error in a rejected row."""

    row: int | None
    field: str | None
    value: str | bool | int | float | None
    message: str
    remedy: str

    @classmethod
    def of(cls, fault: Fault) -> "InvalidRowOut":
        """Return the schema of a fault."""
        value = fault.value
        return cls(
            row=fault.row,
            field=fault.field,
            value=value if isinstance(value, str | int | float | None) else str(value),
            message=fault.message,
            remedy=fault.remedy,
        )


class UploadWarningOut(ResponseModel):
    """An anomaly in stored rows: how many rows show it, and the first of them."""

    code: str
    message: str
    remedy: str
    count: int
    rows: list[int]

    @classmethod
    def of(cls, oddity: Oddity) -> "UploadWarningOut":
        """Return the schema of an oddity."""
        return cls(
            code=oddity.code,
            message=oddity.message,
            remedy=oddity.remedy,
            count=oddity.count,
            rows=list(oddity.rows),
        )


class UploadOut(ResponseModel):
    """The result of an upload; `runs` is null if it has more than 1,000 rows."""

    created: int
    duplicates: int
    dry_run: bool
    runs: list[UploadedRunOut] | None
    invalid: list[InvalidRowOut]
    invalid_count: int
    warnings: list[UploadWarningOut]

    @classmethod
    def of(cls, result: UploadResult) -> "UploadOut":
        """Return the schema of an upload's result."""
        runs = result.runs
        return cls(
            created=result.created,
            duplicates=result.duplicates,
            dry_run=result.dry_run,
            runs=None if runs is None else [UploadedRunOut.of(run) for run in runs],
            invalid=[InvalidRowOut.of(fault) for fault in result.invalid],
            invalid_count=result.invalid_count,
            warnings=[UploadWarningOut.of(oddity) for oddity in result.oddities],
        )


class ConfigurationOut(ResponseModel):
    """The cluster: GPU or instance type, where and how it is bought, nodes and workers."""

    gpu_type: str | None
    instance_type: str | None
    provider: str | None
    region: str | None
    purchase: Purchase | None
    nodes: int | None
    workers: int

    @classmethod
    def of(cls, configuration: Configuration) -> "ConfigurationOut":
        """Return the schema of a configuration."""
        return cls(
            gpu_type=configuration.gpu_type,
            instance_type=configuration.instance_type,
            provider=configuration.provider,
            region=configuration.region,
            purchase=configuration.purchase,
            nodes=configuration.nodes,
            workers=configuration.workers,
        )


class WorkOut(ResponseModel):
    """The work: dataset size, batch size and epochs."""

    dataset_size: Quantity | None
    batch_size: Quantity | None
    epochs: Quantity | None

    @classmethod
    def of(cls, work: Work) -> "WorkOut":
        """Return the schema of the work."""
        return cls(dataset_size=work.dataset_size, batch_size=work.batch_size, epochs=work.epochs)


class MoneyOut(ResponseModel):
    """An amount in one currency."""

    amount: str
    currency: str

    @classmethod
    def of(cls, money: Money) -> "MoneyOut":
        """Return the schema of an amount."""
        return cls(amount=money_text(money.amount), currency=money.currency)


class RunOut(ResponseModel):
    """A stored run."""

    run_id: str
    workload: str
    external_id: str | None
    status: RunStatus
    duration_seconds: Quantity
    progress: float | None
    configuration: ConfigurationOut
    work: WorkOut
    parameters: dict[str, int | float | str]
    phases: dict[str, Quantity]
    resources: dict[str, Quantity]
    cost: MoneyOut | None
    started_at: datetime | None
    labels: dict[str, str]
    forecast_id: str | None
    excluded: bool
    excluded_reason: str | None
    created_at: datetime

    @classmethod
    def of(cls, run: Run) -> "RunOut":
        """Return the schema of a run."""
        return cls(
            run_id=run.run_id,
            workload=run.workload,
            external_id=run.external_id,
            status=run.status,
            duration_seconds=run.duration_seconds,
            progress=run.progress,
            configuration=ConfigurationOut.of(run.scenario.configuration),
            work=WorkOut.of(run.scenario.work),
            parameters={
                name: value if isinstance(value, str) else plain_number(value)
                for name, value in run.scenario.parameters.items()
            },
            phases=dict(run.phases),
            resources=dict(run.resources),
            cost=None if run.cost is None else MoneyOut.of(run.cost),
            started_at=run.started_at,
            labels=dict(run.labels),
            forecast_id=run.forecast_id,
            excluded=run.excluded,
            excluded_reason=run.excluded_reason,
            created_at=run.created_at,
        )


class RunsOut(ResponseModel):
    """A page of runs."""

    runs: list[RunOut]
    next_page_token: str | None

    @classmethod
    def of(cls, page: Page[Run]) -> "RunsOut":
        """Return the schema of a page."""
        return cls(runs=[RunOut.of(run) for run in page.items], next_page_token=page.next_key)


class RunsQuery(RequestModel):
    """Which runs a list shows."""

    status: Annotated[RunStatus | None, Field(description="how they ended")] = None
    gpu_type: Annotated[
        Printable | None,
        Field(min_length=1, max_length=100, description="the name as it is stored"),
    ] = None
    created_after: Annotated[Moment | None, Field(description="stored after this instant")] = None
    created_before: Annotated[Moment | None, Field(description="stored before this instant")] = None
    excluded: Annotated[
        bool | None, Field(description="true: only runs left out of fits; false: only the others")
    ] = None
    page_size: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_PAGE_SIZE,
            description="50 by default; without it, a CSV export has all runs",
        ),
    ] = None
    page_token: PageToken = None

    def to_filter(self) -> RunFilter:
        """Return the filter of the list."""
        return RunFilter(
            status=self.status,
            gpu_types=() if self.gpu_type is None else (self.gpu_type,),
            created_after=self.created_after,
            created_before=self.created_before,
            excluded=self.excluded,
        )


class RunPatch(RequestModel):
    """Changes to a stored run: labels are merged; null or an empty text removes a label."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "excluded": True,
                    "reason": "a neighbour was noisy",
                    "labels": {"node": "rack-7", "draft": None},
                }
            ]
        }
    )

    excluded: Annotated[bool | None, Field(description="kept out of fits")] = None
    reason: Annotated[
        Printable | None, Field(min_length=1, max_length=500, description="why it is left out")
    ] = None
    labels: Annotated[
        Mapping[
            Annotated[Printable, Field(min_length=1, max_length=100)],
            Annotated[Printable, Field(max_length=500)] | None,
        ],
        Field(max_length=100),
    ] = {}

    def to_change(self) -> RunChange:
        """Return the change."""
        return RunChange(excluded=self.excluded, reason=self.reason, labels=self.labels)
