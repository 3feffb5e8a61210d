"""Prices, offers and configurations for tests."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from app.domain.configurations import Configuration, Purchase
from app.domain.exchange_rates import ExchangeRate
from app.domain.prices import Price
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook, PricingFacts

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def make_price(**changes: Any) -> Price:
    """Return a current on-demand price of a fictitious machine with four T4 GPUs."""
    members: dict[str, Any] = {
        "price_per_hour": Decimal("4.00"),
        "currency": "USD",
        "purchase": Purchase.ON_DEMAND,
        "valid_from": datetime(2026, 10, 1, tzinfo=UTC),
        "source": "test",
        "instance_type": "box.4",
        "gpu_type": "T4",
        "gpu_count": 4,
    }
    return Price(**members | changes)


def make_book(*own: Price, rates: Sequence[ExchangeRate] = (), now: datetime = NOW) -> PriceBook:
    """Return the book of a project that stored prices and exchange rates."""
    return PriceBook(PricingFacts(own, tuple(rates)), now)


def make_offer(price_per_hour: str = "4.00", instances: int = 1, **changes: Any) -> Offer:
    """Return an offer of that machine."""
    return Offer(make_price(price_per_hour=Decimal(price_per_hour), **changes), instances)


def on_t4(workers: int = 1, **changes: Any) -> Configuration:
    """Return a configuration with T4 GPUs."""
    members: dict[str, Any] = {"gpu_type": "T4", "workers": workers, **changes}
    return Configuration(**members)
