"""Requests for forecasts."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, StrictBool, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from app.api.schemas.base import BodyReadByHand, Refusal, RequestModel, check_slug
from app.api.schemas.instants import Instant
from app.api.schemas.quantities import UNSIGNED
from app.api.schemas.texts import IS_PRINTABLE, STRIPPED, Verbatim
from app.domain.billing import NO_EXTRAS, Extras, Serverless
from app.domain.configurations import Configuration, ParameterValue, Purchase, Work
from app.domain.energy import NO_ENERGY_TERMS, EnergyTerms
from app.domain.exchange_rates import (
    CURRENCY_PATTERN,
    CURRENCY_REMEDY,
    NO_CURRENCY,
    currency_code,
)
from app.domain.forecasts import (
    LEAST_PROBABILITY,
    MAX_CHECKPOINT_INTERVAL_S,
    MIN_CHECKPOINT_INTERVAL_S,
    NO_SPOT_TERMS,
    SpotTerms,
)
from app.domain.prices import ANY_PRICE, PriceQuery

Name = Annotated[str, STRIPPED, Field(min_length=1, max_length=100), IS_PRINTABLE]
Level = Annotated[str, STRIPPED, Field(min_length=1, max_length=500), IS_PRINTABLE]
"""A category's value; its length is limited as in uploads."""
ParameterName = Annotated[Verbatim, Field(min_length=1, max_length=100)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Size = Annotated[float, Field(gt=0, le=1e18)]
Seconds = Annotated[float, Field(gt=0, le=1e12)]
Probability = Annotated[float, Field(gt=LEAST_PROBABILITY, lt=0.9999)]
Amount = Annotated[Decimal, Field(ge=0, lt=10**12, max_digits=24), UNSIGNED]
Rate = Annotated[Decimal, Field(ge=0, lt=10**9, decimal_places=6), UNSIGNED]
MemoryGb = Annotated[Decimal, Field(gt=0, lt=10**6, max_digits=12)]
GbSecondPrice = Annotated[Decimal, Field(ge=0, lt=10**3, decimal_places=12), UNSIGNED]
CallPrice = Annotated[Decimal, Field(ge=0, lt=10**3, decimal_places=12), UNSIGNED]
_Unsigned = Annotated[float, UNSIGNED]
CallSeconds = Annotated[Decimal, Field(ge=1, le=10**7, max_digits=10)]
CallStep = Annotated[Decimal, Field(ge=Decimal("0.001"), le=3600, max_digits=7)]
_PRICE_OF_EXTRA: Final = {
    "other_nodes": "other_node_per_hour",
    "storage_gb": "storage_per_gb_month",
    "egress_gb": "egress_per_gb",
}
_MIN_RATE: Final = 1e-9
MAX_BILLED_S = 31 * 86_400
ONE_PRICE: Final = "A price is one of an hour or one of a GB-second"


def _to_currency(text: str) -> str:
    code = currency_code(text)
    if code is None:
        message = NO_CURRENCY.removesuffix(".")
        raise PydanticCustomError("currency", message, {"remedy": CURRENCY_REMEDY})
    return code


Currency = Annotated[
    str,
    STRIPPED,
    AfterValidator(_to_currency),
    Field(description="ISO 4217 code", json_schema_extra={"pattern": CURRENCY_PATTERN}),
]
WorkloadId = Annotated[
    str, STRIPPED, Field(min_length=1, max_length=120), AfterValidator(check_slug)
]
ParameterIn = Annotated[
    StrictBool | float | Level,
    Refusal(
        "A parameter is a finite number, true or false, or a text of 1 to 500 printable characters",
        remedy="Send one of these; leave an unknown parameter out.",
    ),
]
Parameters = Annotated[Mapping[ParameterName, ParameterIn], Field(max_length=300)]


def to_parameters(given: Mapping[str, bool | float | str]) -> dict[str, ParameterValue]:
    """Return parameters as runs store them: a flag becomes the text `true` or `false`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in given.items()
    }


class ConfigurationIn(RequestModel):
    """The cluster to forecast for."""

    gpu_type: Name | None = None
    instance_type: Name | None = None
    provider: Name | None = None
    region: Name | None = None
    purchase: Purchase | None = None
    nodes: Count | None = None
    workers: Annotated[Count, Field(description="data-parallel processes, one GPU each")] = 1

    def to_domain(self) -> Configuration:
        """Return the configuration."""
        return Configuration(
            gpu_type=self.gpu_type,
            instance_type=self.instance_type,
            provider=self.provider,
            region=self.region,
            purchase=self.purchase,
            nodes=self.nodes,
            workers=self.workers,
        )


class WorkIn(RequestModel):
    """The work to do: dataset size in the workload's unit, batch size over all workers."""

    dataset_size: Size | None = None
    batch_size: Size | None = None
    epochs: Size | None = None

    def to_domain(self) -> Work:
        """Return the work."""
        return Work(self.dataset_size, self.batch_size, self.epochs)


def _check_rate(per_hour: float | None) -> float | None:
    """Refuse tiny rates, whose square may underflow."""
    if per_hour is not None and 0 < per_hour < _MIN_RATE:
        least = f"{_MIN_RATE:g}"
        raise PydanticCustomError(
            "rate",
            "Input should be 0, or at least {least}",
            {"least": least, "remedy": f"Send 0, or {least} or more."},
        )
    return per_hour


class SpotIn(RequestModel):
    """The assumptions about spot interruptions; each has a default."""

    interruptions_per_hour: Annotated[
        _Unsigned | None,
        Field(
            ge=0,
            le=3600,
            description="of one instance: 0, or at least 1e-9, one in 100,000 years; default 0.05",
        ),
        AfterValidator(_check_rate),
    ] = None
    checkpoint_interval_s: Annotated[
        float | None,
        Field(
            ge=MIN_CHECKPOINT_INTERVAL_S,
            le=MAX_CHECKPOINT_INTERVAL_S,
            description="work between checkpoints; default 1800",
        ),
    ] = None
    checkpoint_s: Annotated[
        _Unsigned | None, Field(ge=0, le=1e6, description="time to write a checkpoint; default 30")
    ] = None
    restart_s: Annotated[
        _Unsigned | None, Field(ge=0, le=1e6, description="time until work resumes; default 300")
    ] = None

    def to_domain(self) -> SpotTerms:
        """Return the terms."""
        return SpotTerms(**self.__dict__) if self.model_fields_set else NO_SPOT_TERMS


class ExtrasIn(RequestModel):
    """Charges in addition to the instances, in the currency of the answer."""

    other_nodes: Annotated[
        int, Field(ge=0, le=1_000_000, description="nodes without workers: head, parameter server")
    ] = 0
    other_node_per_hour: Rate = Decimal(0)
    storage_gb: Amount = Decimal(0)
    storage_per_gb_month: Annotated[Rate, Field(description="a month is 730 hours")] = Decimal(0)
    platform_per_instance_hour: Rate = Decimal(0)
    egress_gb: Amount = Decimal(0)
    egress_per_gb: Rate = Decimal(0)

    @model_validator(mode="after")
    def _is_priced(self) -> Self:
        for quantity, price in _PRICE_OF_EXTRA.items():
            if getattr(self, quantity) and price not in self.model_fields_set:
                raise PydanticCustomError(
                    "needs_a_price",
                    "Its price is not given: {price}",
                    {"price": price, "path": (quantity,), "remedy": f"Send {price}, 0 if free."},
                )
        return self

    def to_domain(self) -> Extras:
        """Return the charges."""
        return Extras(**self.__dict__) if self.model_fields_set else NO_EXTRAS


class ServerlessIn(RequestModel):
    """How serverless functions are billed; each worker runs one function at a time."""

    memory_gb: Annotated[MemoryGb, Field(description="of one worker")]
    price_per_gb_second: GbSecondPrice
    price_per_call: CallPrice = Decimal(0)
    max_call_s: Annotated[
        CallSeconds | None, Field(description="longer work takes several calls; default: one")
    ] = None
    call_step_s: Annotated[CallStep, Field(description="each call is billed in whole steps")] = (
        Decimal("0.001")
    )
    free_gb_seconds: Annotated[Amount, Field(description="remaining free allowance")] = Decimal(0)
    free_calls: Annotated[int, Field(ge=0, le=10**12)] = 0

    def to_domain(self) -> Serverless:
        """Return the terms."""
        return Serverless(
            memory_gb=self.memory_gb,
            per_gb_second=self.price_per_gb_second,
            per_call=self.price_per_call,
            max_call_s=self.max_call_s,
            step_s=self.call_step_s,
            free_gb_seconds=self.free_gb_seconds,
            free_calls=self.free_calls,
        )


class PricingIn(RequestModel):
    """Which price to use."""

    provider: Name | None = None
    region: Name | None = None
    purchase: Purchase | None = None
    price_per_hour: Annotated[
        Amount | None,
        Field(
            description="overrides every other price; for one whole instance where the"
            " configuration names its instance_type, otherwise for one worker"
        ),
    ] = None
    currency: Annotated[
        Currency | None,
        Field(description="of the answer and of an inline price; default: the workload's"),
    ] = None
    as_of: Annotated[Instant | None, Field(description="uses the prices valid then")] = None
    minimum_billed_s: Annotated[
        int | None, Field(ge=0, le=MAX_BILLED_S, description="overrides the price's own")
    ] = None
    billing_step_s: Annotated[
        int | None, Field(ge=1, le=MAX_BILLED_S, description="overrides the price's own")
    ] = None
    extras: ExtrasIn = ExtrasIn()
    serverless: Annotated[
        ServerlessIn | None, Field(description="an inline price of functions")
    ] = None
    spot: SpotIn = SpotIn()

    @model_validator(mode="after")
    def _has_one_price(self) -> Self:
        if self.price_per_hour is not None and self.serverless is not None:
            raise PydanticCustomError(
                "needs_one_price",
                ONE_PRICE,
                {"remedy": "Send price_per_hour or serverless, not both."},
            )
        return self

    def to_domain(self) -> PriceQuery:
        """Return the price query."""
        if not self.model_fields_set - {"spot"}:
            return ANY_PRICE
        return PriceQuery(
            provider=self.provider,
            region=self.region,
            purchase=self.purchase,
            price_per_hour=self.price_per_hour,
            currency=self.currency,
            as_of=self.as_of,
            minimum_billed_s=self.minimum_billed_s,
            billing_step_s=self.billing_step_s,
            extras=self.extras.to_domain(),
            serverless=None if self.serverless is None else self.serverless.to_domain(),
        )


class EnergyIn(RequestModel):
    """What is known about the energy use of a training."""

    power_usage_effectiveness: Annotated[
        float, Field(ge=1, le=10, description="of the building; 1 counts the accelerators alone")
    ] = 1.0
    utilization: Annotated[
        float | None, Field(gt=0, le=1, description="mean share of the GPU's design power")
    ] = None
    watts_per_worker: Annotated[float | None, Field(gt=0, le=1e6)] = None
    kg_co2e_per_kwh: Annotated[
        _Unsigned | None, Field(ge=0, le=100, description="overrides every grid factor")
    ] = None

    def to_domain(self) -> EnergyTerms:
        """Return the terms."""
        return EnergyTerms(**self.__dict__) if self.model_fields_set else NO_ENERGY_TERMS


class ForecastIn(BodyReadByHand):
    """A forecast request: one question to a workload's regressor."""

    workload: WorkloadId
    configuration: ConfigurationIn = ConfigurationIn()
    work: WorkIn = WorkIn()
    parameters: Annotated[Parameters, Field(default_factory=dict)]
    confidence: Annotated[Probability, Field(description="of the intervals")] = 0.9
    deadline_s: Annotated[Seconds | None, Field(description="asks P(duration <= deadline)")] = None
    budget: Annotated[
        Amount | None,
        Field(description="asks P(cost <= budget); in pricing.currency, else the workload's"),
    ] = None
    pricing: PricingIn = PricingIn()
    energy: EnergyIn = EnergyIn()
    regressor_version: Annotated[
        int | None, Field(ge=1, lt=2**31, description="default: the published one")
    ] = None
    time_limit_quantile: Annotated[
        Probability, Field(description="share of runs that end within time_limit_seconds")
    ] = 0.95
    record: Annotated[bool, Field(description="keep it in the ledger")] = True
    explain: Annotated[bool, Field(description="name the runs that taught it (`taught_by`)")] = (
        False
    )


FORECAST_IN: TypeAdapter[ForecastIn] = TypeAdapter(ForecastIn)
FORECAST_EXAMPLE: dict[str, Any] = {
    "workload": "resnet50",
    "configuration": {"gpu_type": "V100-16GB", "workers": 8},
    "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
    "parameters": {"precision": "fp16"},
    "deadline_s": 36000,
}
MAX_BATCH = 10_000


def _refuse_ref(defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    if "ref" in defaults:
        message = "Unknown field {name}: {hint}"
        context = {"name": "'ref'", "hint": "requests share no ref.", "path": ["ref"]}
        remedy = "Give each of the `requests` a ref of its own."
        raise PydanticCustomError("unknown_field", message, {**context, "remedy": remedy})
    return defaults


class BatchIn(BodyReadByHand):
    """Many forecast requests; each is merged into `defaults`, member by member at every depth."""

    defaults: Annotated[
        Mapping[str, Any],
        AfterValidator(_refuse_ref),
        Field(description="members of a forecast request that all requests share"),
    ] = {}
    requests: Annotated[
        list[dict[str, Any]],
        Field(
            max_length=MAX_BATCH,
            description="forecast requests, each with a `ref` of the caller's choice",
        ),
    ]
    fields: Annotated[
        list[Annotated[str, Field(max_length=100)]] | None,
        Field(max_length=100, description="top-level members of the forecasts to send back"),
    ] = None
