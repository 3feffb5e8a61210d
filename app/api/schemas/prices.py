"""Requests and responses about prices."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from app.api.schemas.base import PageQuery, RequestModel, ResponseModel
from app.api.schemas.forecasts import MAX_BILLED_S, Currency, Name
from app.api.schemas.instants import Instant
from app.api.schemas.quantities import money_text
from app.api.schemas.texts import Printable
from app.domain.configurations import Purchase
from app.domain.pages import Page
from app.domain.prices import Price, PriceFilter, PriceOrigin

MAX_PRICES = 10_000
_OWN = "own"


def _folded(value: Any) -> Any:
    return value.strip().casefold() if isinstance(value, str) else value


PricePerHour = Annotated[Decimal, Field(ge=0, lt=10**9, decimal_places=6)]
FoldedPurchase = Annotated[Purchase, BeforeValidator(_folded)]


class PriceIn(RequestModel):
    """What one hour of an instance costs, or of one GPU where no instance is named."""

    price_per_hour: Annotated[
        PricePerHour, Field(description="of the whole instance; 0 where it costs nothing")
    ]
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
        int | None, Field(ge=0, le=MAX_BILLED_S, description="seconds that are billed at least")
    ] = None
    billing_step_s: Annotated[
        int | None,
        Field(ge=1, le=MAX_BILLED_S, description="billed in whole steps, 3600 for started hours"),
    ] = None
    valid_from: Annotated[Instant | None, Field(description="default: now")] = None
    source: Annotated[
        Printable, Field(min_length=1, max_length=500, description="where the price stands")
    ] = _OWN

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if self.instance_type is None and self.gpu_type is None:
            raise PydanticCustomError(
                "names_nothing",
                "A price names an instance_type or a gpu_type",
                {"remedy": "Send one of them, or both."},
            )
        return self

    def to_domain(self, now: datetime) -> Price:
        """Return the price."""
        return Price(
            price_per_hour=self.price_per_hour,
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
        )


PRICE_IN: TypeAdapter[PriceIn] = TypeAdapter(PriceIn)
PRICE_COLUMNS = tuple(PriceIn.model_fields)
PRICE_EXAMPLE: dict[str, Any] = {
    "provider": "aws",
    "region": "us-east-1",
    "instance_type": "p3.16xlarge",
    "gpu_type": "V100-16GB",
    "gpu_count": 8,
    "price_per_hour": "19.10",
    "purchase": "reserved",
    "currency": "USD",
    "valid_from": "2026-07-01",
    "source": "our contract of June 2026",
}


class PriceOut(ResponseModel):
    """A price; `price_id` is null in the built-in catalogue."""

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

    @classmethod
    def of(cls, price: Price) -> "PriceOut":
        """Return the schema of a price."""
        return cls(
            price_id=price.price_id,
            origin=PriceOrigin.CATALOGUE if price.price_id is None else PriceOrigin.OWN,
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
        )


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
    """The prices that were stored, in the order in which they came."""

    created: int
    prices: list[PriceOut]


class PricesQuery(PageQuery):
    """Which prices a list shows."""

    provider: Name | None = None
    region: Name | None = None
    gpu_type: Name | None = None
    instance_type: Name | None = None
    purchase: Purchase | None = None
    as_of: Annotated[Instant | None, Field(description="prices that held then")] = None
    origin: PriceOrigin | None = None
    include_withdrawn: bool = False

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
