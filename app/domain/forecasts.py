"""A forecast: duration, cost and their prediction intervals for one scenario."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from app.domain.configurations import Purchase, Scenario
from app.domain.energy import NO_ENERGY_TERMS, EnergyForecast, EnergyTerms
from app.domain.exchange_rates import Conversion
from app.domain.identifiers import ForecastId, RunId, Slug, WorkloadId
from app.domain.prices import ANY_PRICE, Price, PriceQuery
from app.domain.runs import RunStatus


class Basis(StrEnum):
    """What a forecast rests on, from the firmest to the weakest ground."""

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    TRANSFERRED = "transferred"
    PRIOR = "prior"


class ExplainedBy(StrEnum):
    """What the shares of a forecast's explanation refer to."""

    TERMS = "terms"
    PHASES = "phases"


@dataclass(frozen=True, slots=True)
class SpotTerms:
    """What interruptions of spot capacity are assumed to be."""

    interruptions_per_hour: float | None = None
    checkpoint_interval_s: float | None = None
    checkpoint_s: float | None = None
    restart_s: float | None = None


LEAST_PROBABILITY: Final = 0.001
"""A confidence, or another probability that a question states, lies above this."""
NO_SPOT_TERMS = SpotTerms()
MIN_CHECKPOINT_INTERVAL_S, MAX_CHECKPOINT_INTERVAL_S = 1e-3, 1e9
"""The least and the most work between two checkpoints that a question may state."""


@dataclass(frozen=True, slots=True)
class SpotReport:
    """The assumed interruptions of the whole job, and their effect.

    `expected_seconds` and `expected_interruptions` are those of the median work;
    `optimal_checkpoint_interval_s` minimises the expected duration, None where any would do.
    """

    interruptions_per_hour: float
    checkpoint_interval_s: float
    checkpoint_s: float
    restart_s: float
    expected_interruptions: float
    expected_seconds: float
    optimal_checkpoint_interval_s: float | None


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """One question to a workload's regressor.

    `confidence` and `time_limit_quantile` are probabilities strictly between 0 and 1;
    `deadline_s` is in seconds, `budget` in the currency of the price; `explain` asks which runs
    influenced the forecast most.
    """

    workload: Slug
    scenario: Scenario
    confidence: float = 0.9
    deadline_s: float | None = None
    budget: Decimal | None = None
    pricing: PriceQuery = ANY_PRICE
    spot: SpotTerms = NO_SPOT_TERMS
    regressor_version: int | None = None
    energy: EnergyTerms = NO_ENERGY_TERMS
    time_limit_quantile: float = 0.95
    record: bool = True
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with the bounds for a new run at `confidence`: lower <= median <= upper."""

    median: float
    lower: float
    upper: float
    confidence: float


@dataclass(frozen=True, slots=True)
class LineItem:
    """One summand of a cost; `amount` is quantity x unit price, rounded to the cent."""

    kind: str
    quantity: Decimal
    unit: str
    unit_price: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class CostForecast:
    """The cost; the line items add up to the median.

    `others` are instances of other sizes besides those of `price`, with their numbers. `conversion`
    is the exchange rate by which all prices were multiplied, `listed_per_hour` the price before.
    """

    currency: str
    median: Decimal
    lower: Decimal
    upper: Decimal
    price_per_hour: Decimal
    price: Price
    instances: int
    line_items: tuple[LineItem, ...]
    others: tuple[tuple[Price, int], ...] = ()
    conversion: Conversion | None = None
    listed_per_hour: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PurchaseOption:
    """The same question under one kind of purchase; `refused` says why it cannot complete."""

    purchase: Purchase
    duration_seconds: Interval | None
    cost: CostForecast | None
    refused: str | None = None


class AxisOutside(NamedTuple):
    """A feature asked beyond its measured range; `distance` is in widths of that range."""

    name: str
    asked: float
    measured_min: float
    measured_max: float
    distance: float


RareLevels = tuple[tuple[str, str | None], ...]
"""Levels that few runs have, each with its column; None for a question without a value."""


class SupportReport(NamedTuple):
    """The position of the question relative to the measured runs."""

    within_range: bool
    axes: tuple[AxisOutside, ...]
    unseen_levels: tuple[tuple[str, str], ...]
    rare_levels: RareLevels
    unidentified: tuple[str, ...]
    runs_used: int
    nearest_runs: tuple[RunId, ...]
    pooled_from: tuple[Slug, ...] = ()
    factory_prior: bool = False


class ForecastWarning(NamedTuple):
    """Something the caller should know before trusting the figures."""

    code: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Feasibility:
    """The probability that a run fits into GPU memory, None without evidence, and its basis."""

    fits_probability: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class TargetForecast:
    """What the training takes to reach its target, at the batch size asked.

    `samples` and `epochs` (passes over the data set) grow with the batch; the duration is that of
    this many samples on the asked configuration.
    """

    samples: Interval
    epochs: Interval
    duration_seconds: Interval
    cost: CostForecast | None


@dataclass(frozen=True, slots=True)
class Lesson:
    """The influence of the runs of one configuration on a forecast.

    `influence` is how many percent longer the forecast would be if they all had taken 1 % longer;
    `about` is the part of the forecast that they affect most.
    """

    run_ids: tuple[RunId, ...]
    influence: float
    about: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """The answer to one question.

    `forecast_id` is None if the forecast is not recorded, `taught_by` if it was not asked for,
    `to_target` if no run told what the target takes, or batch, data set or epochs are open.
    """

    forecast_id: ForecastId | None
    workload: Slug
    workload_id: WorkloadId
    regressor_version: int
    fitted_at: datetime
    scenario: Scenario
    duration_seconds: Interval
    time_limit_seconds: float
    cost: CostForecast | None
    feasibility: Feasibility
    deadline_probability: float | None
    budget_probability: float | None
    support: SupportReport
    basis: Basis
    energy: EnergyForecast
    explanation: Mapping[str, float]
    explained_by: ExplainedBy
    warnings: tuple[ForecastWarning, ...]
    taught_by: tuple[Lesson, ...] | None = None
    spot: SpotReport | None = None
    purchases: tuple[PurchaseOption, ...] = ()
    to_target: TargetForecast | None = None

    @property
    def scenario_sha256(self) -> str:
        """The digest of the scenario."""
        return self.scenario.digest()


class LedgerQuestion(NamedTuple):
    """The shared part of all records of one question to one regressor; the request is JSON."""

    workload_id: WorkloadId
    regressor_version: int
    request: bytes
    scenario_sha256: str | None


class LedgerRecord(NamedTuple):
    """A forecast to be recorded; the answer is JSON."""

    question: LedgerQuestion
    forecast_id: ForecastId
    created_at: datetime
    answer: bytes


@dataclass(frozen=True, slots=True)
class RecordedForecast:
    """The regressor version, time and question of a recorded forecast.

    `asked` is the scenario asked for, where it was read; its nodes only if the request gave them.
    `interruptions` are those that a forecast of spot capacity expected, of the whole job; None for
    other capacity.
    """

    forecast_id: ForecastId
    regressor_version: int
    created_at: datetime
    scenario_sha256: str | None
    asked: Scenario | None = None
    interruptions: SpotTerms | None = None


@dataclass(frozen=True, slots=True)
class LinkedRun:
    """A run that was uploaded with the identifier of a forecast.

    `differs_in` holds the flat names of what the forecast was asked for and the run had otherwise.
    """

    run_id: RunId
    workload: Slug
    status: RunStatus
    duration_seconds: float
    differs_in: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A recorded forecast with the runs that refer to it."""

    forecast_id: ForecastId
    workload: Slug
    regressor_version: int
    created_at: datetime
    request: Mapping[str, Any]
    answer: Mapping[str, Any]
    runs: tuple[LinkedRun, ...]
