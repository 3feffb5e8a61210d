"""A profiling plan: which configurations to measure next, and when to stop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from app.domain.configurations import ParameterValue, Scenario
from app.domain.forecasts import ForecastWarning, Interval, SpotTerms
from app.domain.identifiers import Slug
from app.domain.prices import PriceQuery
from app.domain.recommendations import Search


class StopReason(StrEnum):
    """Why a plan ends where it does."""

    GOAL_REACHED = "goal_reached"
    GAIN_TOO_SMALL = "gain_too_small"
    BUDGET_SPENT = "budget_spent"
    RUNS_PLANNED = "runs_planned"
    CANDIDATES_EXHAUSTED = "candidates_exhausted"


@dataclass(frozen=True, slots=True)
class StopRule:
    """When measuring ends.

    Parameters
    ----------
    width
        Stop when the mean width of the targets' intervals, (upper - lower) / median, is below this.
    min_narrowing
        Stop when a run narrows the intervals by less than this share.
    min_narrowing_per_cost
        Stop when a unit of money narrows the width by less than this.
    """

    width: float | None = None
    min_narrowing: float = 0.01
    min_narrowing_per_cost: float | None = None


@dataclass(frozen=True, slots=True)
class ProfilingSearch:
    """The candidates' levels; an empty tuple leaves the choice to targets and measured runs."""

    hardware: Search = field(default_factory=Search)
    dataset_sizes: tuple[float, ...] = ()
    batch_sizes: tuple[float, ...] = ()
    epochs: tuple[float, ...] = ()
    parameters: Mapping[str, tuple[ParameterValue, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A run that was made on a plan's budget, however it ended; its start decides on its price."""

    scenario: Scenario
    duration_seconds: float
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProfilingRequest:
    """Which forecasts should become certain, what may be measured for that, and at what cost.

    `candidates` are used as given, otherwise those of `search`; those of `exclude` are never
    measured. The bills of the `made` runs are subtracted from the budget.
    """

    workload: Slug
    targets: tuple[Scenario, ...]
    candidates: tuple[Scenario, ...] = ()
    search: ProfilingSearch = field(default_factory=ProfilingSearch)
    exclude: tuple[Scenario, ...] = ()
    made: tuple[MadeRun, ...] = ()
    budget: Decimal | None = None
    runs: int = 10
    repeat: bool = False
    confidence: float = 0.9
    stop: StopRule = field(default_factory=StopRule)
    pricing: PriceQuery = field(default_factory=PriceQuery)
    spot: SpotTerms = field(default_factory=SpotTerms)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One configuration to measure.

    `duration` and `price` are None while no run tells the scale of durations or no price is known;
    `price` is the expected one, `price_per_hour` that of all instances together. `width` is the
    targets' mean width after this and all earlier runs, `narrowing` its decrease by this run.
    """

    scenario: Scenario
    duration: Interval | None
    price: Decimal | None
    price_per_hour: Decimal | None
    total_price: Decimal | None
    narrowing: float
    width: float


@dataclass(frozen=True, slots=True)
class TargetOutlook:
    """A target's interval now, and the interval expected after the plan."""

    scenario: Scenario
    now: Interval | None
    expected: Interval | None
    width: float
    expected_width: float


@dataclass(frozen=True, slots=True)
class RejectedRun:
    """A candidate that is not planned, and why."""

    scenario: Scenario
    reason: str


@dataclass(frozen=True, slots=True)
class ProfilingPlan:
    """The runs in the order in which to make them, and their expected effect.

    `regressor_version` is None for a plan from the priors alone; `spent` is the bill of the runs
    already made, as far as prices in `currency` are known; `attainable_width` is the width that
    remains by the noise of runs, however many are made.
    """

    request: ProfilingRequest
    regressor_version: int | None
    currency: str | None
    spent: Decimal
    considered: int
    runs: tuple[PlannedRun, ...]
    targets: tuple[TargetOutlook, ...]
    width: float
    expected_width: float
    attainable_width: float
    stop: StopReason
    rejected: tuple[RejectedRun, ...]
    rejected_count: int
    warnings: tuple[ForecastWarning, ...]
