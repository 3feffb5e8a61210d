"""Reports of a CI system: new runs, judged at once by their forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from app.domain.accuracy import DriftReport
from app.domain.fits import Fit
from app.domain.identifiers import CiReportId, Slug, WorkloadId
from app.domain.runs import Run

CONFIDENCE: Final = 0.9
"""Confidence of the band that a report shows for each run."""


class GateVerdict(StrEnum):
    """What a run, or a whole report, means for the build."""

    PASS = "pass"  # noqa: S105 - a verdict
    WARN = "warn"
    FAIL = "fail"
    INSUFFICIENT_DATA = "insufficient_data"


@dataclass(frozen=True, slots=True)
class Gate:
    """When a build fails.

    `fail_probability` is the probability that a report without a change fails, in (0, 0.5];
    `min_effect` is the least slow-down that matters, as a fraction of the forecast, at least 0.
    """

    fail_probability: float = 0.01
    min_effect: float = 0.05
    on_insufficient_data: GateVerdict = GateVerdict.PASS


@dataclass(frozen=True, slots=True)
class CiReportRequest:
    """Runs that a CI system measured, as JSON run documents, and where they come from.

    `runs_per_month` is how often such a run is made in production, at least 1; None takes the
    number of usable runs in the last month of the workloads whose change of cost is reported.
    """

    documents: Sequence[Any]
    workload: Slug | None = None
    commit: str | None = None
    branch: str | None = None
    base_branch: str | None = None
    pull_request: str | None = None
    gate: Gate = field(default_factory=Gate)
    runs_per_month: int | None = None

    @property
    def is_on_base(self) -> bool:
        """Whether the runs are of the branch whose durations count as normal."""
        return self.base_branch is None or self.branch in {None, self.base_branch}


@dataclass(frozen=True, slots=True)
class CostChange:
    """Observed minus expected cost, in one currency; positive means more expensive."""

    per_run: Decimal
    per_month: Decimal | None
    runs_per_month: int
    currency: str


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of a run, and its cost if it had taken the forecast duration, in one currency."""

    observed: Decimal
    expected: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """One run of a report; expectations are None where nothing could be forecast."""

    run: Run
    verdict: GateVerdict
    expected_median_seconds: float | None = None
    expected_lower_seconds: float | None = None
    expected_upper_seconds: float | None = None
    ratio: float | None = None
    p_value: float | None = None
    regressor_version: int | None = None
    reason: str | None = None
    cost: RunCost | None = None


@dataclass(frozen=True, slots=True)
class CiReport:
    """The outcome of a report.

    `duplicates` tells of each run whether it was already stored, be it by an earlier row of the
    report; `drifts` names the workloads whose durations creep up; `fits` are the active fits of its
    workloads.
    """

    report_id: CiReportId
    created_at: datetime
    request: CiReportRequest
    verdict: GateVerdict
    exit_code: int
    runs: tuple[JudgedRun, ...]
    duplicates: tuple[bool, ...]
    drifts: Mapping[Slug, DriftReport]
    cost_change: CostChange | None
    fits: tuple[Fit, ...]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Who accepted a report's durations as the new normal, when and why."""

    author: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report as it was answered, and what has happened to it since."""

    report_id: CiReportId
    created_at: datetime
    document: Mapping[str, Any]
    acknowledgement: Acknowledgement | None = None
    promoted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The acknowledgement of a workload's durations: those of the runs that arrived at `since`."""

    workload_id: WorkloadId
    since: datetime
    author: str
    reason: str
    report_id: CiReportId
    created_at: datetime
