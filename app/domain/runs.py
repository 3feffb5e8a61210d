"""A run: one measured execution of a workload on one configuration."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import compress
from typing import Any, Final

from app.domain.configurations import ParameterValue, Scenario
from app.domain.identifiers import ForecastId, RunId, Slug, WorkloadId

TARGETS: Final = ("samples_to_target", "epochs_to_target")
"""Effort until the training reached its target; resources that also have short names."""


class RunStatus(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    PREEMPTED = "preempted"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Money:
    """An exact amount in one currency (ISO 4217 code)."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Run:
    """A measured run as it is stored.

    `duration_seconds` is the whole duration of a succeeded run and a lower bound of any other;
    `progress` (0..1) is the share of the work that was done; phases are seconds by name,
    resources (peak memory in bytes, utilisation 0..1, energy in joules) plain numbers by name.
    """

    run_id: RunId
    workload: Slug
    status: RunStatus
    duration_seconds: float
    scenario: Scenario
    created_at: datetime
    external_id: str | None = None
    progress: float | None = None
    started_at: datetime | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    cost: Money | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    forecast_id: ForecastId | None = None
    excluded: bool = False
    excluded_reason: str | None = None


ASSESSED_CONFIDENCE: Final = 0.95
"""A run outside the forecast's interval at this confidence is slower or faster than expected."""


class Verdict(StrEnum):
    """The judgement of a run by the published regressor's forecast for its configuration."""

    AS_EXPECTED = "as_expected"
    SLOWER = "slower"
    FASTER = "faster"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The judgement of one run; `p_value` is two-sided under the forecast's distribution."""

    verdict: Verdict
    expected_median_seconds: float | None = None
    expected_lower_seconds: float | None = None
    expected_upper_seconds: float | None = None
    ratio: float | None = None
    p_value: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs of a workload a list shows."""

    status: RunStatus | None = None
    gpu_types: Collection[str] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    excluded: bool | None = None


@dataclass(frozen=True, slots=True)
class RunColumns:
    """The runs of one workload that a fit may use, column by column, oldest first.

    All columns have equal length; None means that a value is unknown or does not apply.
    """

    run_ids: Sequence[RunId]
    content_sha256: Sequence[str]
    created_at: Sequence[datetime]
    duration_seconds: Sequence[float]
    gpu_type: Sequence[str | None]
    instance_type: Sequence[str | None]
    nodes: Sequence[int | None]
    workers: Sequence[int]
    dataset_size: Sequence[float | None]
    batch_size: Sequence[float | None]
    epochs: Sequence[float | None]
    parameters: Sequence[Mapping[str, ParameterValue]]
    started_at: Sequence[datetime | None]

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.run_ids)


@dataclass(frozen=True, slots=True)
class EvidenceColumns:
    """The runs of one workload that are evidence for a fit, column by column, oldest first.

    These are the succeeded ones, those out of memory, and those stopped before their end.
    `progress` is 0..1, `peak_memory_bytes` that of one GPU; samples or epochs to the target are
    those until the training reached it; phases are seconds by name.
    """

    runs: RunColumns
    status: Sequence[RunStatus]
    progress: Sequence[float | None]
    peak_memory_bytes: Sequence[float | None]
    samples_to_target: Sequence[float | None]
    epochs_to_target: Sequence[float | None]
    phases: Sequence[Mapping[str, float]]

    def succeeded(self) -> RunColumns:
        """Return the runs with a complete duration."""
        is_complete = [status is RunStatus.SUCCEEDED for status in self.status]
        columns: dict[str, Any] = {
            column.name: list(compress(getattr(self.runs, column.name), is_complete))
            for column in fields(RunColumns)
        }
        return RunColumns(**columns)


@dataclass(frozen=True, slots=True)
class RunContent:
    """What was measured, column by column; a column is None if no run has a value.

    Parameters, phases, resources and labels are JSON objects with sorted names.
    """

    status: Sequence[str]
    duration_seconds: Sequence[float]
    workers: Sequence[int]
    nodes: Sequence[int | None] | None = None
    progress: Sequence[float | None] | None = None
    dataset_size: Sequence[float | None] | None = None
    batch_size: Sequence[float | None] | None = None
    epochs: Sequence[float | None] | None = None
    gpu_type: Sequence[str | None] | None = None
    instance_type: Sequence[str | None] | None = None
    provider: Sequence[str | None] | None = None
    region: Sequence[str | None] | None = None
    purchase: Sequence[str | None] | None = None
    started_at: Sequence[datetime | None] | None = None
    cost_amount: Sequence[Decimal | None] | None = None
    cost_currency: Sequence[str | None] | None = None
    forecast_id: Sequence[str | None] | None = None
    parameters: Sequence[str | None] | None = None
    phases: Sequence[str | None] | None = None
    resources: Sequence[str | None] | None = None
    labels: Sequence[str | None] | None = None


@dataclass(frozen=True, slots=True)
class NewRuns:
    """Runs to store, column by column; equal content has an equal hash.

    `exclusions` are the reasons why runs are kept out of fits, None where they are not.
    """

    run_id: Sequence[RunId]
    workload_id: Sequence[WorkloadId]
    external_id: Sequence[str | None] | None
    content_sha256: Sequence[str]
    content: RunContent
    created_at: datetime
    exclusions: Sequence[str | None] | None = None


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What an upload needs to know about a run stored under the same external id."""

    run_id: RunId
    content_sha256: str


@dataclass(frozen=True, slots=True)
class RunChange:
    """Changes by a user to a stored run; a label set to None is removed."""

    excluded: bool | None = None
    reason: str | None = None
    labels: Mapping[str, str | None] = field(default_factory=dict)
