"""The cost of a forecast duration at an offer, and the difference of two."""

from decimal import Decimal

from app.domain.forecasts import CostForecast, Interval
from app.pricing.billing import Bill, bill
from app.pricing.offers import Offer


def cost_of(offer: Offer, duration: Interval) -> CostForecast:
    """Return the cost of a duration: its median with line items, and its bounds."""
    return billed(offer, bill(offer, duration.median, duration.lower, duration.upper))


def billed(offer: Offer, money: Bill) -> CostForecast:
    """Return a bill with the details of its offer."""
    return CostForecast(
        currency=offer.price.currency,
        median=money.median,
        lower=money.lower,
        upper=money.upper,
        price_per_hour=offer.price.price_per_hour,
        price=offer.price,
        instances=offer.instances,
        line_items=money.line_items,
        others=tuple((lot.price, lot.instances) for lot in offer.others),
        conversion=offer.conversion,
        listed_per_hour=offer.listed_per_hour,
    )


def extra_cost(before: CostForecast | None, after: CostForecast | None) -> Decimal | None:
    """Return how much more one cost is than another; None if unknown or in another currency."""
    if before is None or after is None or before.currency != after.currency:
        return None
    return after.median - before.median
