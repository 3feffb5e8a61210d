"""A fit: the background computation that turns a workload's runs into a published regressor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from app.domain.identifiers import FitId, ProjectId, Slug, WorkloadId
from app.domain.workloads import RefitPolicy

NEEDED_RUNS: Final = 1
"""The fewest usable runs that a fit takes."""


class FitState(StrEnum):
    """Where a fit stands; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether the fit has ended."""
        return self in {FitState.SUCCEEDED, FitState.FAILED, FitState.CANCELLED}


class PublishMode(StrEnum):
    """Whether a fit's regressor answers forecasts as soon as it is done."""

    AUTO = "auto"
    IF_BETTER = "if_better"
    NEVER = "never"


class FitReason(StrEnum):
    """Why a fit was started without a request, as recorded in the audit log."""

    POLICY = "refit policy"
    OPERATOR = "trainfare refit"
    FORMAT = "format of artefacts"

    @property
    def is_operators(self) -> bool:
        """Whether the project did not ask for it."""
        return self in {FitReason.OPERATOR, FitReason.FORMAT}


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What a fit was asked to do."""

    time_budget_s: float = 60.0
    seed: int = 0
    regressors: tuple[str, ...] | None = None
    publish: PublishMode = PublishMode.AUTO
    runs_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class AgingFit:
    """The last published fit of a workload with newer runs, and when the next one is due."""

    project_id: ProjectId
    workload: Slug
    began_at: datetime
    policy: RefitPolicy


@dataclass(frozen=True, slots=True)
class Candidate:
    """One regressor that a fit tried; errors are held-out MAPE as fractions."""

    regressor: str
    weight: float
    mape: float | None
    by_axis: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FitProblem:
    """Why a fit failed, in the words of a problem response."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Fit:
    """A stored fit.

    `seen_until` is the latest instant at which a run that it used was stored or taken in; None if
    it has not read its runs.
    """

    fit_id: FitId
    workload: Slug
    state: FitState
    request: FitRequest
    requested_at: datetime
    progress: float = 0.0
    step: str | None = None
    started_at: datetime | None = None
    seen_until: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 0
    candidates: tuple[Candidate, ...] = ()
    regressor_version: int | None = None
    published: bool | None = None
    problem: FitProblem | None = None
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class ClaimedFit:
    """A fit under a lease; the token fences off every process that has lost it.

    `trace_parent` is the span that requested it (W3C Trace Context).
    """

    fit: Fit
    project_id: ProjectId
    workload_id: WorkloadId
    lease_token: str
    trace_parent: str | None = None
