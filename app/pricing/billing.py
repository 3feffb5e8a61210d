"""Turns durations into money that adds up to the last digit shown."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

from app.domain.forecasts import LineItem
from app.pricing.resolution import Offer

_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_UP)
_QUANTITY: Final = Context(prec=9, rounding=ROUND_HALF_UP)
_SECONDS_PER_HOUR: Final = Decimal(3600)
_CENTS: Final = 2
_MOST_DECIMALS: Final = 12
_KEPT_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class Bill:
    """What a duration and its bounds cost; the line items add up to the median exactly."""

    median: Decimal
    lower: Decimal
    upper: Decimal
    line_items: tuple[LineItem, ...]


def instance_hours(offer: Offer, seconds: float) -> Decimal:
    """Return the hours of instances that a duration takes, to nine significant digits."""
    total = _EXACT.multiply(Decimal(repr(seconds)), Decimal(offer.instances))
    return _QUANTITY.divide(total, _SECONDS_PER_HOUR)


def exact_cost(offer: Offer, seconds: float) -> Decimal:
    """Return what a duration costs before it is rounded."""
    return _EXACT.multiply(instance_hours(offer, seconds), offer.price.price_per_hour)


def decimals_for(amount: Decimal) -> int:
    """Return how many decimals show an amount: cents, or more until three digits are kept.

    A job of seconds costs fractions of a cent; shown in cents it would look free.

    Examples
    --------
    >>> [decimals_for(Decimal(amount)) for amount in ("301.484", "0.000281", "0")]
    [2, 6, 2]
    """
    if amount == 0:
        return _CENTS
    return min(max(_CENTS, _KEPT_DIGITS - 1 - amount.adjusted()), _MOST_DECIMALS)


def bill(offer: Offer, median_s: float, lower_s: float, upper_s: float) -> Bill:
    """Return what a duration and its bounds cost, each rounded half up.

    Parameters
    ----------
    offer
        The price and the number of instances.
    median_s, lower_s, upper_s
        The duration in seconds and its bounds, lower <= median <= upper.
    """
    median = _rounded(exact_cost(offer, median_s))
    item = LineItem(
        kind="compute",
        quantity=instance_hours(offer, median_s),
        unit="gpu-hour" if offer.price.instance_type is None else "instance-hour",
        unit_price=offer.price.price_per_hour,
        amount=median,
    )
    return Bill(
        median=median,
        lower=_rounded(exact_cost(offer, lower_s)),
        upper=_rounded(exact_cost(offer, upper_s)),
        line_items=(item,),
    )


def _rounded(amount: Decimal) -> Decimal:
    return _EXACT.quantize(amount, Decimal(1).scaleb(-decimals_for(amount)))


def affordable_seconds(offer: Offer, budget: Decimal) -> float | None:
    """Return the duration whose cost is the budget, None when the hour costs nothing."""
    per_hour = offer.per_hour
    return float(budget / per_hour) * 3600.0 if per_hour else None
