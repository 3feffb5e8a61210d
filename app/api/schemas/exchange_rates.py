"""Requests and responses about exchange rates."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from app.api.schemas.base import BodyReadByHand, ResponseModel
from app.api.schemas.forecasts import Currency
from app.api.schemas.instants import Instant
from app.api.schemas.quantities import number_text
from app.api.schemas.texts import Printable
from app.domain.exchange_rates import ExchangeRate
from app.domain.pages import Page
from app.pricing.currencies import RATE_DIGITS

RATE_EXAMPLE: dict[str, Any] = {
    "from_currency": "EUR",
    "to_currency": "USD",
    "rate": "1.0842",
    "valid_from": "2026-11-02T00:00:00Z",
    "source": "ECB reference rate",
}
RATES_CSV = """\
from_currency,to_currency,rate,valid_from,source
EUR,USD,1.0842,2026-11-02,ECB reference rate
EUR,CHF,0.9377,2026-11-02,ECB reference rate
"""


class ExchangeRateIn(BodyReadByHand):
    """An exchange rate: units of `to_currency` per unit of `from_currency`."""

    from_currency: Currency
    to_currency: Currency
    rate: Annotated[
        Decimal,
        Field(
            gt=0,
            lt=10**9,
            max_digits=RATE_DIGITS,
            description="units of to_currency for one of from_currency",
        ),
    ]
    valid_from: Annotated[Instant | None, Field(description="default: now")] = None
    source: Annotated[Printable, Field(min_length=1, max_length=500)] = "own"

    @model_validator(mode="after")
    def _is_of_two(self) -> Self:
        if self.from_currency == self.to_currency:
            raise PydanticCustomError(
                "same_currency",
                "A rate needs two different currencies",
                {"remedy": "Name another to_currency."},
            )
        return self

    def to_domain(self, now: datetime) -> ExchangeRate:
        """Return the rate."""
        return ExchangeRate(
            self.from_currency, self.to_currency, self.rate, self.valid_from or now, self.source
        )


class ExchangeRateOut(ResponseModel):
    """A stored exchange rate."""

    rate_id: str
    from_currency: str
    to_currency: str
    rate: str
    valid_from: datetime
    source: str

    @classmethod
    def of(cls, rate: ExchangeRate) -> "ExchangeRateOut":
        """Return the schema of a rate."""
        assert rate.rate_id is not None
        return cls(
            rate_id=rate.rate_id,
            from_currency=rate.from_currency,
            to_currency=rate.to_currency,
            rate=number_text(rate.rate),
            valid_from=rate.valid_from,
            source=rate.source,
        )


class ExchangeRatesOut(ResponseModel):
    """A page of exchange rates."""

    exchange_rates: list[ExchangeRateOut]
    next_page_token: str | None

    @classmethod
    def of(cls, page: Page[ExchangeRate]) -> "ExchangeRatesOut":
        """Return the schema of a page."""
        return cls(
            exchange_rates=[ExchangeRateOut.of(rate) for rate in page.items],
            next_page_token=page.next_key,
        )


class CreatedExchangeRatesOut(ResponseModel):
    """The stored exchange rates, in the order of the request."""

    created: int
    exchange_rates: list[ExchangeRateOut]
