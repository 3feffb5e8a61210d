"""Requests and responses about workloads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.forecasts import Currency
from app.api.schemas.quantities import Quantity
from app.api.schemas.texts import Paragraphs, Printable
from app.domain.fits import Fit, FitState
from app.domain.flat_fields import PARAMETER
from app.domain.pages import Page
from app.domain.regressors import RegressorVersion
from app.domain.runs import RunStatus
from app.domain.workloads import (
    CategoryLevels,
    NumberRange,
    ParameterDeclaration,
    ParameterType,
    Pooling,
    RefitMode,
    RefitPolicy,
    WorkloadDeclaration,
)
from app.services.uploads.fields import canonical_field
from app.services.workloads import WorkloadDetail, WorkloadSummary

_Unit = Annotated[Printable, Field(min_length=1, max_length=40)]


def _check_parameter_name(name: str) -> str:
    if canonical_field(PARAMETER + name) is None:
        raise PydanticCustomError(
            "parameter_name",
            "{name} cannot be the name of a parameter",
            {
                "name": repr(name[:100]),
                "remedy": "Use printable characters, no white space around them, and no name of a"
                " run's own field (workers, nodes, gpu_type, instance_type, dataset_size,"
                " batch_size, epochs).",
            },
        )
    return name


_ParameterName = Annotated[
    str, Field(min_length=1, max_length=100), AfterValidator(_check_parameter_name)
]


class ParameterBody(RequestModel):
    """A further parameter of a workload."""

    type: ParameterType
    unit: _Unit | None = None


class RefitPolicyBody(RequestModel):
    """When the workload is fitted again: `auto` requests fits after uploads."""

    mode: RefitMode = RefitMode.MANUAL
    min_new_runs: Annotated[
        int, Field(ge=1, le=1_000_000, description="new usable runs that call for a fit")
    ] = 1
    max_age_s: Annotated[
        float | None,
        Field(gt=0, le=3.2e9, description="age of the last fit after which one new run is enough"),
    ] = None


class WorkloadIn(RequestModel):
    """The declaration of a workload; every field is optional."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "description": "ResNet-50 on ImageNet",
                    "dataset_unit": "samples",
                    "parameters": {
                        "precision": {"type": "category"},
                        "seq_len": {"type": "number", "unit": "tokens"},
                    },
                    "currency": "USD",
                    "labels": {"team": "vision"},
                    "refit_policy": {"mode": "auto", "min_new_runs": 5, "max_age_s": 604800},
                }
            ]
        }
    )

    description: Annotated[Paragraphs, Field(max_length=2000)] = ""
    dataset_unit: Annotated[
        _Unit | None, Field(description="what dataset_size counts; fixed once runs exist")
    ] = None
    parameters: Annotated[Mapping[_ParameterName, ParameterBody], Field(max_length=200)] = {}
    currency: Currency = "USD"
    labels: Annotated[
        Mapping[
            Annotated[Printable, Field(min_length=1, max_length=100)],
            Annotated[Printable, Field(max_length=500)],
        ],
        Field(max_length=100),
    ] = {}
    refit_policy: RefitPolicyBody = RefitPolicyBody()
    pooling: Annotated[
        Pooling, Field(description="where the priors of its regressor are learned from")
    ] = Pooling.PROJECT

    def to_declaration(self) -> WorkloadDeclaration:
        """Return the declaration."""
        policy = self.refit_policy
        return WorkloadDeclaration(
            description=self.description,
            dataset_unit=self.dataset_unit,
            parameters={
                name: ParameterDeclaration(body.type, body.unit)
                for name, body in self.parameters.items()
            },
            currency=self.currency,
            labels=dict(self.labels),
            refit_policy=RefitPolicy(policy.mode, policy.min_new_runs, policy.max_age_s),
            pooling=self.pooling,
        )


class WorkloadOut(ResponseModel):
    """A workload; `runs` counts its runs by status."""

    workload: str
    description: str
    dataset_unit: str | None
    parameters: dict[str, ParameterBody]
    currency: str
    labels: dict[str, str]
    refit_policy: RefitPolicyBody
    pooling: Pooling
    runs: dict[RunStatus, int]
    published_version: int | None
    created_at: datetime
    updated_at: Annotated[
        datetime, Field(description="created or last declared; runs and fits do not change it")
    ]

    @classmethod
    def of(cls, summary: WorkloadSummary) -> "WorkloadOut":
        """Return the schema of a workload."""
        workload, declaration = summary.workload, summary.workload.declaration
        policy = declaration.refit_policy
        return cls(
            workload=workload.slug,
            description=declaration.description,
            dataset_unit=declaration.dataset_unit,
            parameters={
                name: ParameterBody(type=parameter.type, unit=parameter.unit)
                for name, parameter in declaration.parameters.items()
            },
            currency=declaration.currency,
            labels=dict(declaration.labels),
            refit_policy=RefitPolicyBody(
                mode=policy.mode, min_new_runs=policy.min_new_runs, max_age_s=policy.max_age_s
            ),
            pooling=declaration.pooling,
            runs=dict(summary.runs),
            published_version=workload.published_version,
            created_at=workload.created_at,
            updated_at=workload.updated_at,
        )


class NumberRangeOut(ResponseModel):
    """The measured range of a numeric feature."""

    type: Literal["number"] = "number"
    min: Quantity
    max: Quantity
    runs: int


class CategoryLevelsOut(ResponseModel):
    """The measured values of a category."""

    type: Literal["category"] = "category"
    values: list[str]
    runs: int


def _feature(measured: NumberRange | CategoryLevels) -> NumberRangeOut | CategoryLevelsOut:
    if isinstance(measured, NumberRange):
        return NumberRangeOut(min=measured.minimum, max=measured.maximum, runs=measured.runs)
    return CategoryLevelsOut(values=list(measured.values), runs=measured.runs)


class PublishedRegressorOut(ResponseModel):
    """The regressor that answers forecasts; `accuracy` is held-out MAPE as a fraction, by axis."""

    version: int
    fitted_at: datetime
    runs_used: int
    accuracy: dict[str, float]
    coverage: dict[str, float]

    @classmethod
    def of(cls, regressor: RegressorVersion) -> "PublishedRegressorOut":
        """Return the schema of a regressor."""
        return cls(
            version=regressor.version,
            fitted_at=regressor.created_at,
            runs_used=regressor.n_runs,
            accuracy=dict(regressor.accuracy_by_axis),
            coverage=dict(regressor.coverage),
        )


class LastFitOut(ResponseModel):
    """The newest fit of the workload."""

    fit_id: str
    state: FitState
    requested_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, fit: Fit) -> "LastFitOut":
        """Return the schema of a fit."""
        return cls(
            fit_id=fit.fit_id,
            state=fit.state,
            requested_at=fit.requested_at,
            ended_at=fit.ended_at,
        )


class WorkloadDetailOut(WorkloadOut):
    """A workload with its measured features, published regressor and newest fit.

    `features` holds the range or the values of each feature over the runs that a fit may use;
    parameters are named `param.NAME`.
    """

    features: dict[str, NumberRangeOut | CategoryLevelsOut]
    regressor: PublishedRegressorOut | None
    last_fit: LastFitOut | None

    @classmethod
    def of_detail(cls, detail: WorkloadDetail) -> "WorkloadDetailOut":
        """Return the schema of a workload in detail."""
        regressor, fit = detail.regressor, detail.last_fit
        return cls(
            **WorkloadOut.of(detail.summary).model_dump(),
            features={name: _feature(measured) for name, measured in detail.features.items()},
            regressor=None if regressor is None else PublishedRegressorOut.of(regressor),
            last_fit=None if fit is None else LastFitOut.of(fit),
        )


class WorkloadsOut(ResponseModel):
    """A page of workloads."""

    workloads: list[WorkloadOut]
    next_page_token: str | None

    @classmethod
    def of(cls, page: Page[WorkloadSummary]) -> "WorkloadsOut":
        """Return the schema of a page."""
        return cls(
            workloads=[WorkloadOut.of(summary) for summary in page.items],
            next_page_token=page.next_key,
        )
