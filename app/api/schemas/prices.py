"""Requests and responses about prices."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from app.api.schemas.base import BodyReadByHand, PageQuery, ResponseModel
from app.api.schemas.forecasts import (
    MAX_BILLED_S,
    ONE_PRICE,
    CallPrice,
    CallSeconds,
    CallStep,
    Currency,
    GbSecondPrice,
    MemoryGb,
    Name,
)
from app.api.schemas.instants import Instant
from app.api.schemas.quantities import UNSIGNED, money_text, number_text
from app.api.schemas.texts import Printable
from app.domain.billing import Serverless
from app.domain.configurations import Purchase
from app.domain.pages import Page
from app.domain.prices import Price, PriceFilter, PriceOrigin

_OWN = "own"


def _folded(value: Any) -> Any:
    return value.strip().casefold() if isinstance(value, str) else value


PricePerHour = Annotated[Decimal, Field(ge=0, lt=10**9, decimal_places=6), UNSIGNED]
FoldedPurchase = Annotated[Purchase, BeforeValidator(_folded)]


class PriceIn(BodyReadByHand):
    """The hourly price of an instance, or of one GPU without an instance; or a function's rates."""

    price_per_hour: Annotated[
        PricePerHour | None,
        Field(
            description="of the whole instance; 0 where it costs nothing; none with `serverless`"
        ),
    ] = None
    currency: Currency = "USD"
    purchase: FoldedPurchase = Purchase.ON_DEMAND
    provider: Name | None = None
    region: Name | None = None
    instance_type: Name | None = None
    gpu_type: Name | None = None
    gpu_count: Annotated[
        int | None, Field(ge=0, le=100_000, description="GPUs of the instance; 0 without any")
    ] = None
    minimum_billed_s: Annotated[
        int | None, Field(ge=0, le=MAX_BILLED_S, description="least seconds billed")
    ] = None
    billing_step_s: Annotated[
        int | None,
        Field(ge=1, le=MAX_BILLED_S, description="billed in whole steps, 3600 for started hours"),
    ] = None
    valid_from: Annotated[Instant | None, Field(description="default: now")] = None
    source: Annotated[
        Printable, Field(min_length=1, max_length=500, description="where the price is published")
    ] = _OWN
    memory_gb: Annotated[
        MemoryGb | None, Field(description="of a function; makes this a function's price")
    ] = None
    price_per_gb_second: GbSecondPrice | None = None
    price_per_call: CallPrice | None = None
    max_call_s: CallSeconds | None = None
    call_step_s: CallStep | None = None

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.instance_type is None and self.gpu_type is None:
            raise PydanticCustomError(
                "names_nothing",
                "A price names an instance_type or a gpu_type",
                {"remedy": "Send one of them, or both."},
            )
        if self.gpu_type is not None and self.gpu_count == 0:
            raise PydanticCustomError(
                "no_gpus",
                "The price of a {gpu_type} has a gpu_count of 0",
                {
                    "gpu_type": self.gpu_type,
                    "path": ["gpu_count"],
                    "remedy": "Count the GPUs of the instance, or leave gpu_type out.",
                },
            )
        return self

    @model_validator(mode="after")
    def _has_one_price(self) -> Self:
        if (self.price_per_hour is None) == (self.price_per_gb_second is None):
            raise PydanticCustomError(
                "needs_one_price",
                ONE_PRICE,
                {"remedy": "Send price_per_hour, or memory_gb and price_per_gb_second."},
            )
        function_fields = {name: getattr(self, name) for name in _FUNCTION_FIELDS}
        if self.price_per_gb_second is None and any(
            value is not None for value in function_fields.values()
        ):
            raise PydanticCustomError(
                "needs_gb_seconds",
                "Only functions have " + ", ".join(_FUNCTION_FIELDS),
                {"remedy": "Send price_per_gb_second, or leave them out."},
            )
        if self.price_per_gb_second is not None and self.memory_gb is None:
            raise PydanticCustomError(
                "needs_memory", "A function's price needs memory_gb", {"remedy": "Send memory_gb."}
            )
        return self

    def _serverless(self) -> Serverless | None:
        if self.memory_gb is None or self.price_per_gb_second is None:
            return None
        return Serverless(
            self.memory_gb,
            self.price_per_gb_second,
            per_call=self.price_per_call or Decimal(0),
            max_call_s=self.max_call_s,
            step_s=self.call_step_s or Decimal("0.001"),
        )

    def to_domain(self, now: datetime) -> Price:
        """Return the price."""
        terms = self._serverless()
        per_hour = self.price_per_hour if terms is None else terms.per_hour
        assert per_hour is not None
        return Price(
            price_per_hour=per_hour,
            currency=self.currency,
            purchase=self.purchase,
            valid_from=self.valid_from or now,
            source=self.source,
            provider=self.provider,
            region=self.region,
            instance_type=self.instance_type,
            gpu_type=self.gpu_type,
            gpu_count=self.gpu_count,
            minimum_billed_s=self.minimum_billed_s,
            billing_step_s=self.billing_step_s,
            serverless=terms,
        )


_FUNCTION_FIELDS = ("memory_gb", "price_per_call", "max_call_s", "call_step_s")
PRICE_EXAMPLE: dict[str, Any] = {
    "provider": "aws",
    "region": "us-east-1",
    "instance_type": "p3.16xlarge",
    "gpu_type": "V100-16GB",
    "gpu_count": 8,
    "price_per_hour": "19.10",
    "purchase": "reserved",
    "currency": "USD",
    "valid_from": "2026-07-01T00:00:00Z",
    "source": "our contract of June 2026",
}


PRICES_CSV = """\
provider,region,instance_type,gpu_type,gpu_count,price_per_hour,purchase,currency,valid_from,source
aws,us-east-1,p3.16xlarge,V100-16GB,8,19.10,reserved,USD,2026-07-01,our contract of June 2026
"""


class PriceOut(ResponseModel):
    """A price; `price_id` is null for prices of the built-in catalogue."""

    price_id: str | None
    origin: PriceOrigin
    provider: str | None
    region: str | None
    instance_type: str | None
    gpu_type: str | None
    gpu_count: int | None
    price_per_hour: str
    purchase: Purchase
    currency: str
    valid_from: datetime
    source: str
    withdrawn_at: datetime | None
    minimum_billed_s: int | None = None
    billing_step_s: int | None = None
    memory_gb: str | None = None
    price_per_gb_second: str | None = None
    price_per_call: str | None = None
    max_call_s: str | None = None
    call_step_s: str | None = None

    @classmethod
    def of(cls, price: Price) -> "PriceOut":
        """Return the schema of a price."""
        return cls(
            price_id=price.price_id,
            origin=price.origin,
            provider=price.provider,
            region=price.region,
            instance_type=price.instance_type,
            gpu_type=price.gpu_type,
            gpu_count=price.gpu_count,
            price_per_hour=money_text(price.price_per_hour),
            purchase=price.purchase,
            currency=price.currency,
            valid_from=price.valid_from,
            source=price.source,
            withdrawn_at=price.withdrawn_at,
            minimum_billed_s=price.minimum_billed_s,
            billing_step_s=price.billing_step_s,
            **{name: number_text(value) for name, value in function_columns(price).items()},
        )


def function_columns(price: Price) -> dict[str, Decimal]:
    """Return the members that only prices of functions have."""
    terms = price.serverless
    if terms is None:
        return {}
    members = {
        "memory_gb": terms.memory_gb,
        "price_per_gb_second": terms.per_gb_second,
        "price_per_call": terms.per_call,
        "max_call_s": terms.max_call_s,
        "call_step_s": terms.step_s,
    }
    return {name: value for name, value in members.items() if value is not None}


class PricesOut(ResponseModel):
    """A page of prices."""

    prices: list[PriceOut]
    next_page_token: str | None

    @classmethod
    def of(cls, page: Page[Price]) -> "PricesOut":
        """Return the schema of a page."""
        return cls(
            prices=[PriceOut.of(price) for price in page.items], next_page_token=page.next_key
        )


class CreatedPricesOut(ResponseModel):
    """The stored prices, in the order of the request."""

    created: int
    prices: list[PriceOut]


class PricesQuery(PageQuery):
    """Which prices a list shows."""

    provider: Annotated[Name | None, Field(description="such as aws")] = None
    region: Annotated[Name | None, Field(description="such as us-east-1")] = None
    gpu_type: Annotated[Name | None, Field(description="in any spelling of its name")] = None
    instance_type: Annotated[Name | None, Field(description="such as p3.16xlarge")] = None
    purchase: Annotated[Purchase | None, Field(description="how the hours are bought")] = None
    as_of: Annotated[Instant | None, Field(description="uses the prices valid then")] = None
    origin: Annotated[
        PriceOrigin | None,
        Field(description="own: the project's; catalogue: the built-in ones; default: both"),
    ] = None
    include_withdrawn: Annotated[
        bool, Field(description="also the project's withdrawn ones, which no longer count")
    ] = False

    def to_filter(self) -> PriceFilter:
        """Return the filter of the list."""
        return PriceFilter(
            provider=self.provider,
            region=self.region,
            gpu_type=self.gpu_type,
            instance_type=self.instance_type,
            purchase=self.purchase,
            as_of=self.as_of,
            origin=self.origin,
            include_withdrawn=self.include_withdrawn,
        )
