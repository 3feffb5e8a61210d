"""The built-in catalogue: list prices of cloud instances with GPUs, with dates and sources."""

import csv
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Final

from app.domain.configurations import Purchase
from app.domain.prices import Price

_COLUMNS: Final = {
    Purchase.ON_DEMAND: "price_usd_per_hour",
    Purchase.SPOT: "spot_price_usd_per_hour",
}


def _prices(row: Mapping[str, str]) -> Iterator[Price]:
    for purchase, column in _COLUMNS.items():
        if row[column]:
            yield Price(
                price_per_hour=Decimal(row[column]),
                currency="USD",
                purchase=purchase,
                valid_from=datetime.fromisoformat(row["as_of"]).replace(tzinfo=UTC),
                source=row["source"],
                provider=row["provider"],
                region=row["region"],
                instance_type=row["instance_type"],
                gpu_type=row["gpu_type"],
                gpu_count=int(row["gpu_count"]),
            )


@cache
def built_in_prices() -> tuple[Price, ...]:
    """Return the list prices by provider, region and instance type.

    Examples
    --------
    >>> {price.currency for price in built_in_prices()}
    {'USD'}
    """
    text = (files("app.pricing") / "data" / "gpu_prices.csv").read_text(encoding="utf-8")
    listed = [price for row in csv.DictReader(text.splitlines()) for price in _prices(row)]
    return tuple(
        sorted(
            listed,
            key=lambda price: (
                price.provider or "",
                price.region or "",
                price.instance_type or "",
                price.purchase,
            ),
        )
    )
