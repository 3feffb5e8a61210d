"""Which prices are valid at an instant, and which of them are stale."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from app.domain.ages import age
from app.domain.prices import Price

STALE_AFTER: Final = timedelta(days=180)
"""An older price is served with its age and a warning."""


def is_stale(price: Price, as_of: datetime) -> bool:
    """Return whether a price is so old that it is served with a warning."""
    return age(price.valid_from, as_of) > STALE_AFTER


def latest_of(prices: Iterable[Price], as_of: datetime) -> list[Price]:
    """Return the prices that are valid at an instant, the latest of each offer.

    A later price of an instance type may correct its number of GPUs. Among prices of the same date,
    and always where no instance type is named, each number of GPUs is a separate offer.
    """
    latest: dict[tuple[object, ...], dict[int | None, Price]] = {}
    for price in prices:
        if price.valid_from > as_of:
            continue
        gpus = price.gpu_count if price.instance_type is None else None
        key = (price.place, price.hardware, gpus, price.purchase, price.currency)
        since = next((current.valid_from for current in latest.get(key, {}).values()), None)
        if since is None or since < price.valid_from:
            latest[key] = {price.gpu_count: price}
        elif since == price.valid_from:
            latest[key][price.gpu_count] = price
    return [price for counts in latest.values() for price in counts.values()]
