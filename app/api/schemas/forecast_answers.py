"""The documents of forecasts, for the OpenAPI document; encoded by hand for speed."""

from typing import Any

from app.api.schemas.base import ResponseModel
from app.api.schemas.runs import ConfigurationOut, WorkOut
from app.domain.configurations import Purchase
from app.domain.forecasts import Basis, ExplainedBy


class BandOut(ResponseModel):
    """A median with the bounds for a new run at a confidence, in seconds or as its name says."""

    median: float
    lower: float
    upper: float
    confidence: float


class FurtherInstancesOut(ResponseModel):
    """Instances of another size beside the main ones; same place, purchase and currency."""

    instance_type: str | None
    gpu_count: int | None
    instances: int
    price_per_hour: str
    price_id: str | None


class ConversionOut(ResponseModel):
    """The exchange rate that every price of the cost was multiplied by; an exact decimal."""

    from_currency: str
    to_currency: str
    rate: str
    valid_from: str
    age_days: int
    source: str
    listed_price_per_hour: str


class UsedPriceOut(ResponseModel):
    """The price that was used; `age_days` counts from its date."""

    source: str
    valid_from: str
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
    """A summand of the cost."""

    kind: str
    quantity: str
    unit: str
    unit_price: str
    amount: str


class CostOut(ResponseModel):
    """Money; the line items add up to the median."""

    currency: str
    median: str
    lower: str
    upper: str
    price_per_hour: str
    price: UsedPriceOut
    conversion: ConversionOut | None
    line_items: list[LineItemOut]


class FeasibilityOut(ResponseModel):
    """Whether the job fits into memory; null without evidence on it."""

    fits_probability: float | None
    basis: str


class ChancesOut(ResponseModel):
    """Probabilities of what was asked; null where nothing was asked or known."""

    deadline: float | None
    budget: float | None


class AxisOut(ResponseModel):
    """A feature beyond its measured range; `distance` is in widths of that range."""

    name: str
    asked: float
    measured_min: float
    measured_max: float
    distance: float


class LevelOut(ResponseModel):
    """A category value that no run has."""

    name: str
    value: str


class SupportOut(ResponseModel):
    """Where the question stands among the measured runs."""

    within_range: bool
    axes: list[AxisOut]
    unseen_levels: list[LevelOut]
    unidentified: list[str]
    runs_used: int
    nearest_runs: list[str]
    pooled_from: list[str]
    factory_prior: bool


class UsedFactorOut(ResponseModel):
    """The grid factor that was used."""

    provider: str | None
    region: str | None
    valid_from: str
    source: str


class EnergyOut(ResponseModel):
    """An estimate of energy and carbon; `reason` says why a figure is null.

    `basis` of the power: given, measured by runs, utilization (of the design power), or
    data_sheet (the design power itself: an upper estimate).
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
    """What was assumed of interruptions of the whole job, and what they come to."""

    interruptions_per_hour: float
    checkpoint_interval_s: float
    checkpoint_s: float
    restart_s: float
    expected_interruptions: float
    expected_seconds: float
    optimal_checkpoint_interval_s: float | None


class OptionCostOut(ResponseModel):
    """Money of one way to buy."""

    currency: str
    median: str
    lower: str
    upper: str
    price_per_hour: str


class PurchaseOptionOut(ResponseModel):
    """The same question bought in one way; `refused` says why it cannot end."""

    purchase: Purchase
    duration_seconds: BandOut | None
    cost: OptionCostOut | None
    refused: str | None


class TermOut(ResponseModel):
    """A part of the duration: a term of the laws, or a phase where runs tell them."""

    term: str
    share: float


class TargetOut(ResponseModel):
    """What the training takes until it is good enough, at the batch size that was asked for."""

    samples: BandOut
    epochs: BandOut
    duration_seconds: BandOut
    cost: CostOut | None


class LessonOut(ResponseModel):
    """What the runs of one configuration taught the forecast.

    `influence` is how many percent longer the forecast would be had they all taken 1 % longer;
    `about` the part that they taught most: a term of the explanation, `category` or
    `neighbourhood`.
    """

    run_ids: list[str]
    influence: float
    about: str


class WarningOut(ResponseModel):
    """What should be known before trusting the figures."""

    code: str
    message: str
    remedy: str


class ForecastOut(ResponseModel):
    """A forecast."""

    forecast_id: str | None
    workload: str
    regressor_version: int
    fitted_at: str
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
    """An answer of a batch: a forecast (trimmed to `fields`) or a problem."""

    ref: str | int | float | bool | None = None
    forecast: dict[str, Any] | None = None
    problem: dict[str, Any] | None = None


class BatchOut(ResponseModel):
    """The answers of a batch, in the order of the requests."""

    forecasts: list[BatchEntryOut]
    failed: int


class GridOut(ResponseModel):
    """The forecasts of a grid, the last field varying fastest."""

    forecasts: list[ForecastOut]


class LinkedRunOut(ResponseModel):
    """A run that names the forecast; `ratio` is measured over forecast median."""

    run_id: str
    workload: str
    status: str
    duration_seconds: float
    ratio: float | None
    error: float | None
    inside: bool | None


class LedgerOut(ResponseModel):
    """A recorded forecast: what was asked, what was answered, what came of it."""

    forecast_id: str
    workload: str
    regressor_version: int
    created_at: str
    request: dict[str, Any]
    forecast: ForecastOut
    runs: list[LinkedRunOut]
