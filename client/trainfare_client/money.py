"""The service's answers about exchange rates and grid factors."""

from __future__ import annotations

from typing import TypedDict


class ExchangeRate(TypedDict):
    """How many units of `to_currency` one of `from_currency` buys, from an instant on."""

    rate_id: str
    from_currency: str
    to_currency: str
    rate: str
    valid_from: str
    source: str


class CreatedExchangeRates(TypedDict):
    """The rates as stored."""

    created: int
    exchange_rates: list[ExchangeRate]


class GridFactor(TypedDict):
    """CO2e per kilowatt hour at a place, from an instant on."""

    factor_id: str | None
    provider: str | None
    region: str | None
    kg_co2e_per_kwh: str
    valid_from: str
    source: str


class CreatedGridFactors(TypedDict):
    """The factors as stored."""

    created: int
    grid_factors: list[GridFactor]
