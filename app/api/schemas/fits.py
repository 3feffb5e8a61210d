"""Requests and responses about fits."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from app.api.schemas.base import RequestModel, ResponseModel
from app.api.schemas.instants import Moment
from app.domain.fits import Candidate, Fit, FitProblem, FitRequest, FitState, PublishMode
from app.domain.pages import Page


def _name_regressors(schema: JsonDict) -> None:
    # Only the OpenAPI document needs this, and the library is slow to import.
    from app.services.fits import KNOWN_REGRESSORS  # noqa: PLC0415

    schema["enum"] = [*KNOWN_REGRESSORS]


class FitIn(RequestModel):
    """The options of a fit; all have defaults, and the body may be empty."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"time_budget_s": 120, "seed": 0, "publish": "if_better"}]}
    )

    time_budget_s: Annotated[
        float | None,
        Field(gt=0, le=3600, description="seconds after which no further candidate is begun"),
    ] = None
    seed: Annotated[
        int, Field(ge=0, lt=2**31, description="the same seed and runs give the same regressor")
    ] = 0
    regressors: Annotated[
        list[Annotated[str, Field(max_length=100, json_schema_extra=_name_regressors)]] | None,
        Field(min_length=1, max_length=50, description="names of candidates; default: all"),
    ] = None
    publish: Annotated[
        PublishMode,
        Field(
            description="auto: always; if_better: only if better than the published one on the"
            " same folds"
        ),
    ] = PublishMode.AUTO
    runs_since: Annotated[
        Moment | None,
        Field(description="leave out the runs that started, or were stored, before this instant"),
    ] = None

    def to_request(self, *, default_budget_s: float) -> FitRequest:
        """Return the request with its defaults filled in."""
        names = self.regressors
        return FitRequest(
            time_budget_s=self.time_budget_s or default_budget_s,
            seed=self.seed,
            regressors=None if names is None else tuple(dict.fromkeys(names)),
            publish=self.publish,
            runs_since=self.runs_since,
        )


class FitRequestOut(ResponseModel):
    """The options that a fit was requested with."""

    time_budget_s: float
    seed: int
    regressors: list[str] | None
    publish: PublishMode
    runs_since: datetime | None

    @classmethod
    def of(cls, request: FitRequest) -> "FitRequestOut":
        """Return the schema of a request."""
        return cls(
            time_budget_s=request.time_budget_s,
            seed=request.seed,
            regressors=None if request.regressors is None else list(request.regressors),
            publish=request.publish,
            runs_since=request.runs_since,
        )


class CandidateOut(ResponseModel):
    """A candidate regressor and its weight; errors are held-out MAPE as fractions."""

    regressor: str
    weight: float
    mape: float | None
    by_axis: dict[str, float]

    @classmethod
    def of(cls, candidate: Candidate) -> "CandidateOut":
        """Return the schema of a candidate."""
        return cls(
            regressor=candidate.regressor,
            weight=candidate.weight,
            mape=candidate.mape,
            by_axis=dict(candidate.by_axis),
        )


class FitProblemOut(ResponseModel):
    """Why a fit failed."""

    code: str
    detail: str

    @classmethod
    def of(cls, problem: FitProblem) -> "FitProblemOut":
        """Return the schema of a fit's problem."""
        return cls(code=problem.code, detail=problem.detail)


class FitOut(ResponseModel):
    """A fit; `published` says whether its regressor was published when the fit ended."""

    fit_id: str
    workload: str
    state: FitState
    progress: float
    step: str | None
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempts: int
    cancel_requested: bool
    request: FitRequestOut
    candidates: list[CandidateOut]
    regressor_version: int | None
    published: bool | None
    problem: FitProblemOut | None

    @classmethod
    def of(cls, fit: Fit) -> "FitOut":
        """Return the schema of a fit."""
        return cls(
            fit_id=fit.fit_id,
            workload=fit.workload,
            state=fit.state,
            progress=fit.progress,
            step=fit.step,
            requested_at=fit.requested_at,
            started_at=fit.started_at,
            ended_at=fit.ended_at,
            attempts=fit.attempts,
            cancel_requested=fit.cancel_requested,
            request=FitRequestOut.of(fit.request),
            candidates=[CandidateOut.of(candidate) for candidate in fit.candidates],
            regressor_version=fit.regressor_version,
            published=fit.published,
            problem=None if fit.problem is None else FitProblemOut.of(fit.problem),
        )


class FitsOut(ResponseModel):
    """A page of fits."""

    fits: list[FitOut]
    next_page_token: str | None

    @classmethod
    def of(cls, page: Page[Fit]) -> "FitsOut":
        """Return the schema of a page."""
        return cls(fits=[FitOut.of(fit) for fit in page.items], next_page_token=page.next_key)
