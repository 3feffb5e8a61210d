"""Forecast responses as the OpenAPI document shows them; they are encoded by hand for speed."""

from datetime import datetime
from typing import Any

from pydantic import Field

from app.api.schemas.base import ResponseModel
from app.api.schemas.problems import ProblemOut
from app.api.schemas.runs import ConfigurationOut, WorkOut
from app.domain.configurations import Purchase
from app.domain.forecasts import Basis, ExplainedBy


class BandOut(ResponseModel):
    """The median and the prediction interval at `confidence`; in seconds unless named otherwise."""

    median: float
    lower: float
    upper: float
    confidence: float


class FurtherInstancesOut(ResponseModel):
    """Additional instances of another size; same provider, region, purchase and currency."""

    instance_type: str | None
    gpu_count: int | None
    instances: int
    price_per_hour: str
    price_id: str | None


class ConversionOut(ResponseModel):
    """The exchange rate by which all prices of the cost were multiplied; an exact decimal."""

    from_currency: str
    to_currency: str
    rate: str
    valid_from: datetime
    age_days: int
    source: str
    listed_price_per_hour: str


class UsedPriceOut(ResponseModel):
    """The price that was used; `age_days` counts from `valid_from`."""

    source: str
    valid_from: datetime
    age_days: int
    purchase: Purchase
    provider: str | None
    region: str | None
    instance_type: str | None
    gpu_type: str | None
    gpu_count: int | None
    instances: int
    price_id: str | None
    others: list[FurtherInstancesOut]


class LineItemOut(ResponseModel):
    """A line item of the cost."""

    kind: str
    quantity: str
    unit: str
    unit_price: str
    amount: str


class CostOut(ResponseModel):
    """The cost and its prediction interval; the line items add up to the median."""

    currency: str
    median: str
    lower: str
    upper: str
    price_per_hour: str
    price: UsedPriceOut
    conversion: ConversionOut | None
    line_items: list[LineItemOut]


class FeasibilityOut(ResponseModel):
    """The probability that the job fits into GPU memory; null without evidence."""

    fits_probability: float | None
    basis: str


class ChancesOut(ResponseModel):
    """Probabilities of meeting deadline and budget; null where not asked for or not known."""

    deadline: float | None
    budget: float | None


class AxisOut(ResponseModel):
    """A feature outside its measured range; `distance` is in widths of that range."""

    name: str
    asked: float
    measured_min: float
    measured_max: float
    distance: float


class LevelOut(ResponseModel):
    """A category value that occurs in no run."""

    name: str
    value: str


class RareLevelOut(ResponseModel):
    """A category value that occurs in few runs; null if the question has none."""

    name: str
    value: str | None


class SupportOut(ResponseModel):
    """How far the measured runs support the forecast."""

    within_range: bool
    axes: list[AxisOut]
    unseen_levels: list[LevelOut]
    rare_levels: list[RareLevelOut]
    unidentified: list[str]
    runs_used: int
    nearest_runs: list[str]
    pooled_from: list[str]
    factory_prior: bool


class UsedFactorOut(ResponseModel):
    """The grid factor that was used."""

    provider: str | None
    region: str | None
    valid_from: datetime
    source: str


class EnergyOut(ResponseModel):
    """The estimated energy and carbon emissions; `reason` says why a figure is null.

    `basis` is the source of the power: `given` in the request, `measured` by runs, `utilization`
    (a share of the design power) or `data_sheet` (the full design power: an upper estimate).
    """

    kilowatt_hours: float | None
    kg_co2e: float | None
    watts_per_worker: float | None
    basis: str | None
    power_usage_effectiveness: float
    kg_co2e_per_kwh: float | None
    grid_factor: UsedFactorOut | None
    reason: str | None


class SpotOut(ResponseModel):
    """The assumed interruptions of the whole job; expected figures are for its median work."""

    interruptions_per_hour: float
    checkpoint_interval_s: float
    checkpoint_s: float
    restart_s: float
    expected_interruptions: float
    expected_seconds: float
    optimal_checkpoint_interval_s: float | None


class OptionCostOut(ResponseModel):
    """The cost under one purchase option."""

    currency: str
    median: str
    lower: str
    upper: str
    price_per_hour: str


class PurchaseOptionOut(ResponseModel):
    """The forecast under one purchase option; `refused` says why the job could not finish."""

    purchase: Purchase
    duration_seconds: BandOut | None
    cost: OptionCostOut | None
    refused: str | None


class TermOut(ResponseModel):
    """A part of the duration: a term of the scaling laws, or a phase where runs report phases."""

    term: str
    share: float


class TargetOut(ResponseModel):
    """What the training takes to reach its target, at the requested batch size."""

    samples: BandOut
    epochs: BandOut
    duration_seconds: BandOut
    cost: CostOut | None


class LessonOut(ResponseModel):
    """How the runs of one configuration influence the forecast.

    `influence` is by how many percent the forecast would grow if all of them had taken 1 % longer;
    `about` is the part of the forecast that they influence most: a term of the explanation,
    `category` or `neighbourhood`.
    """

    run_ids: list[str]
    influence: float
    about: str


class WarningOut(ResponseModel):
    """A caveat about the figures, with a remedy."""

    code: str
    message: str
    remedy: str


class ForecastOut(ResponseModel):
    """A forecast."""

    forecast_id: str | None
    workload: str
    regressor_version: int
    fitted_at: datetime
    configuration: ConfigurationOut
    work: WorkOut
    parameters: dict[str, float | str]
    duration_seconds: BandOut
    time_limit_seconds: float
    cost: CostOut | None
    feasibility: FeasibilityOut
    probability: ChancesOut
    support: SupportOut
    basis: Basis
    to_target: TargetOut | None = None
    energy: EnergyOut
    spot: SpotOut | None
    purchases: list[PurchaseOptionOut]
    explanation: list[TermOut]
    explained_by: ExplainedBy = ExplainedBy.TERMS
    taught_by: list[LessonOut] | None = None
    warnings: list[WarningOut]


class BatchEntryOut(ResponseModel):
    """One answer of a batch: a forecast (reduced to `fields`) or a problem."""

    ref: str | int | float | bool | None = None
    forecast: dict[str, Any] | None = None
    problem: ProblemOut | None = None


class BatchOut(ResponseModel):
    """The answers of a batch, in the order of the requests."""

    forecasts: list[BatchEntryOut]
    failed: int


class GridOut(ResponseModel):
    """The forecasts of a grid; the last field varies fastest."""

    forecasts: list[ForecastOut]


class LinkedRunOut(ResponseModel):
    """A run that names the forecast; `ratio` is its duration over the forecast median.

    Runs that did not succeed, or not of what was asked, have no `ratio`, `error` and `inside`.
    """

    run_id: str
    workload: str
    status: str
    duration_seconds: float
    differs_in: list[str] = Field(
        description="flat names of what the forecast was asked for and the run had otherwise"
    )
    ratio: float | None
    error: float | None
    inside: bool | None


class LedgerOut(ResponseModel):
    """A recorded forecast: the request, the answer and the runs that name it."""

    forecast_id: str
    workload: str
    regressor_version: int
    created_at: datetime
    request: dict[str, Any]
    forecast: ForecastOut
    runs: list[LinkedRunOut]
