"""The costs of durations, as amounts that add up to the last digit shown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.billing import HOURS_PER_MONTH, NO_EXTRAS, SECONDS_PER_HOUR
from app.domain.forecasts import LineItem
from app.domain.prices import Price
from app.pricing.offers import Offer

FloatArray = npt.NDArray[np.float64]
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_UP)
_ANY: Final = Context(prec=400, rounding=ROUND_HALF_UP)
"""Precise enough for the cost of any finite number of seconds."""
_QUANTITY: Final = Context(prec=9, rounding=ROUND_HALF_UP)
_CENTS: Final = 2
MAX_DECIMALS: Final = 15
_MAX_STEPS: Final = 10**15
_NOISELESS_DIGITS: Final = 12
_SIGNIFICANT_DIGITS: Final = 3
_ZERO: Final = Decimal(0)
_UNITS: Final = tuple(Decimal(1).scaleb(-decimals) for decimals in range(MAX_DECIMALS + 1))
_Charge = tuple[str, Decimal, str, Decimal, Decimal]
"""Kind, quantity, unit, unit price and amount."""


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of a duration and its bounds; the line items add up to the median exactly."""

    median: Decimal
    lower: Decimal
    upper: Decimal
    line_items: tuple[LineItem, ...]


def billed_seconds(price: Price, seconds: float) -> Decimal:
    """Return the seconds billed for a duration: at least the minimum, in whole steps.

    A price without rules bills the duration as it is.
    """
    billed = Decimal(repr(seconds))
    if price.minimum_billed_s is not None:
        billed = max(billed, Decimal(price.minimum_billed_s))
    if price.billing_step_s:
        steps = (billed / price.billing_step_s).to_integral_value(ROUND_CEILING)
        billed = steps * price.billing_step_s
    return billed


def instance_hours(offer: Offer, seconds: float) -> Decimal:
    """Return the billed hours of instances, to nine significant digits."""
    return _hours(offer.price, seconds, offer.total_instances)


def _hours(price: Price, seconds: float, count: int) -> Decimal:
    total = _EXACT.multiply(billed_seconds(price, seconds), Decimal(count))
    return _QUANTITY.divide(total, SECONDS_PER_HOUR)


def exact_cost(offer: Offer, seconds: float) -> Decimal:
    """Return the unrounded cost of a duration, further charges included."""
    return _total(_charges(offer, seconds))


def _total(charges: Sequence[_Charge]) -> Decimal:
    total = _ZERO
    for charge in charges:
        total += charge[-1]
    return total


def _charges(offer: Offer, seconds: float) -> list[_Charge]:
    """Return the unrounded charges: always compute, and further ones where given."""
    charges = _compute_charges(offer.price, offer.instances, seconds)
    for lot in offer.others:
        charges += _compute_charges(lot.price, lot.instances, seconds)
    if offer.extras is not NO_EXTRAS:
        charges += _extra_charges(offer, seconds)
    return charges


def _extra_charges(offer: Offer, seconds: float) -> Iterator[_Charge]:
    """Yield the charges besides the instances."""
    price, extras = offer.price, offer.extras
    if extras.other_nodes:
        node_hours = _hours(price, seconds, extras.other_nodes)
        yield _charge("other_nodes", node_hours, "node-hour", extras.other_node_per_hour)
    if extras.storage_gb:
        months = _EXACT.divide(_hours(price, seconds, 1), HOURS_PER_MONTH)
        gb_months = _QUANTITY.multiply(months, extras.storage_gb)
        yield _charge("storage", gb_months, "GB-month", extras.storage_per_gb_month)
    if extras.platform_per_instance_hour:
        hours = instance_hours(offer, seconds)
        yield _charge("platform_fee", hours, _unit(price), extras.platform_per_instance_hour)
    if extras.egress_gb:
        yield _charge("egress", extras.egress_gb, "GB", extras.egress_per_gb)


def _compute_charges(price: Price, instances: int, seconds: float) -> list[_Charge]:
    """Return the charges for instances of one type, or for GB-seconds and calls of functions."""
    terms = price.serverless
    if terms is None:
        hours = _hours(price, seconds, instances)
        return [_charge("compute", hours, _unit(price), price.price_per_hour)]
    minimum_s = billed_seconds(price, seconds)
    gb_seconds, calls = terms.usage(Decimal(repr(seconds)), instances, minimum_s)
    charges = [_charge("compute", gb_seconds, "GB-second", terms.per_gb_second)]
    if terms.per_call:
        charges.append(_charge("calls", Decimal(calls), "call", terms.per_call))
    return charges


def _unit(price: Price) -> str:
    is_one_gpu = price.instance_type is None and (price.gpu_count or 1) == 1
    return "gpu-hour" if is_one_gpu else "instance-hour"


def _charge(kind: str, quantity: Decimal, unit: str, unit_price: Decimal) -> _Charge:
    return kind, quantity, unit, unit_price, _EXACT.multiply(quantity, unit_price)


def decimals_for(amount: Decimal) -> int:
    """Return the decimals to show of an amount: cents, or more to keep three significant digits.

    A job of seconds costs fractions of a cent and would look free if shown in cents.

    Examples
    --------
    >>> [decimals_for(Decimal(amount)) for amount in ("301.484", "0.000281", "0")]
    [2, 6, 2]
    """
    size = amount.adjusted()
    if size >= _SIGNIFICANT_DIGITS - 1 - _CENTS or not amount:
        return _CENTS
    return min(_SIGNIFICANT_DIGITS - 1 - size, MAX_DECIMALS)


def bill(offer: Offer, median_s: float, lower_s: float, upper_s: float) -> Bill:
    """Return the costs of a duration and its bounds, each rounded half up.

    Cost rises with the duration, even with steps and a minimum, so the cost of a quantile of the
    duration is that quantile of the cost. Each item is rounded separately; the median is their
    sum, and the bounds never cross it.

    Parameters
    ----------
    offer
        The price, the number of instances and further charges.
    median_s, lower_s, upper_s
        The duration in seconds and its bounds, lower <= median <= upper.
    """
    charges = _charges(offer, median_s)
    decimals = decimals_for(_total(charges))
    items = tuple([LineItem(*charge[:-1], _rounded(charge[-1], decimals)) for charge in charges])
    median = sum([item.amount for item in items], _ZERO)
    return Bill(
        median=median,
        lower=min(shown(exact_cost(offer, lower_s)), median),
        upper=max(shown(exact_cost(offer, upper_s)), median),
        line_items=items,
    )


def is_plain(offer: Offer) -> bool:
    """Return whether an offer charges only the hours of instances of one type."""
    return not offer.others and offer.extras is NO_EXTRAS and offer.price.serverless is None


def plain_bills(
    offer: Offer, seconds: Iterable[tuple[float, float, float]]
) -> Iterator[tuple[Decimal, Decimal, Decimal, Decimal]]:
    """Yield hours, median, lower and upper of the bills of a plain offer, identical to `bill`.

    Parameters
    ----------
    offer
        A plain offer (`is_plain`).
    seconds
        Durations with their lower and upper bounds.
    """
    price, count = offer.price, Decimal(offer.instances)
    has_rules = price.minimum_billed_s is not None or price.billing_step_s
    multiply, divide, per_hour = _EXACT.multiply, _QUANTITY.divide, price.price_per_hour
    for durations in seconds:
        if has_rules:
            billed = [billed_seconds(price, duration_s) for duration_s in durations]
        else:
            billed = list(map(Decimal, map(repr, durations)))
        if count != 1:
            billed = [multiply(duration_s, count) for duration_s in billed]
        hours, low, high = [divide(duration_s, SECONDS_PER_HOUR) for duration_s in billed]
        amount = multiply(hours, per_hour)
        lower, upper = _ZERO + multiply(low, per_hour), _ZERO + multiply(high, per_hour)
        median = _rounded(amount, decimals_for(_ZERO + amount))
        yield hours, median, min(shown(lower), median), max(shown(upper), median)


def _rounded(amount: Decimal, decimals: int) -> Decimal:
    return _ANY.quantize(amount, _UNITS[decimals])


def shown(amount: Decimal) -> Decimal:
    """Return an amount as it is shown, with the decimals of `decimals_for`.

    Examples
    --------
    >>> [str(shown(Decimal(amount))) for amount in ("301.484", "0.000281")]
    ['301.48', '0.000281']
    """
    return _rounded(amount, decimals_for(amount))


def affordable_seconds(offer: Offer, budget: Decimal) -> float | None:
    """Return the longest duration whose cost is within the budget.

    None if an hour costs nothing and the budget covers what is charged once; 0 if the budget does
    not even cover the shortest billed duration.
    """
    price, remaining = offer.price, budget - offer.extras.once
    if remaining < 0:
        return 0.0
    if price.serverless is not None:
        return _affordable_calls(offer, budget, price.serverless.step_s)
    if not offer.per_hour:
        return None
    # In this order no third of an hour is rounded down below a whole step.
    seconds = _EXACT.divide(remaining * SECONDS_PER_HOUR, offer.per_hour)
    if price.billing_step_s:
        steps = _EXACT.divide(seconds, Decimal(price.billing_step_s))
        seconds = steps.to_integral_value(ROUND_FLOOR) * price.billing_step_s
    return float(seconds) if seconds >= (price.minimum_billed_s or 0) else 0.0


def _affordable_calls(offer: Offer, budget: Decimal, step_s: Decimal) -> float | None:
    """Return the longest duration of functions within the budget, in whole steps."""
    if _cost_of_steps(offer, _MAX_STEPS, step_s) <= budget:
        return None
    low, high = 0, _MAX_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        if _cost_of_steps(offer, middle, step_s) <= budget:
            low = middle
        else:
            high = middle
    return float(low * step_s)


def _cost_of_steps(offer: Offer, steps: int, step_s: Decimal) -> Decimal:
    return exact_cost(offer, float(steps * step_s))


def costs_of(offers: Sequence[Offer | None], seconds: FloatArray) -> FloatArray:
    """Return the unrounded costs of durations; NaN where there is no offer.

    The rules are those of `bill`, for thousands of candidates at once.

    Parameters
    ----------
    offers
        The offers of n candidates.
    seconds
        Their durations, shape (n,), or several of each, shape (k, n); the result has this shape.
    """
    flat_terms = chain.from_iterable(map(_terms, offers))
    terms = np.fromiter(flat_terms, dtype=np.float64, count=4 * len(offers)).reshape(-1, 4)
    minimum_s, step_s, per_hour, once = terms.T
    billed = np.maximum(seconds, minimum_s)
    step = np.where(step_s > 0.0, step_s, 1.0)
    billed = np.where(step_s > 0.0, np.ceil(billed / step) * step, billed)
    costs: FloatArray = billed / float(SECONDS_PER_HOUR) * per_hour + once
    stepped_rows = np.flatnonzero((step_s > 0.0) | (minimum_s > 0.0))
    if stepped_rows.size:
        costs[..., stepped_rows] = _without_noise(costs[..., stepped_rows])
    for row, offer in enumerate(offers):
        if offer is not None and offer.price.serverless is not None:
            durations_s = np.atleast_1d(seconds[..., row]).tolist()
            exact_costs = [float(exact_cost(offer, duration_s)) for duration_s in durations_s]
            costs[..., row] = exact_costs if seconds.ndim > 1 else exact_costs[0]
    return costs


def _without_noise(costs: FloatArray) -> FloatArray:
    """Return amounts to twelve digits, since bills in steps often equal another or a budget.

    Three hours at 0.10 are then exactly 0.30, not slightly more.
    """
    with np.errstate(all="ignore"):
        size = np.floor(np.log10(costs))
        power = 10.0 ** (_NOISELESS_DIGITS - 1 - size)
        rounded = np.rint(costs * power) / power
    return np.where(np.isfinite(rounded), rounded, costs)


def _terms(offer: Offer | None) -> tuple[float, float, float, float]:
    if offer is None:
        return 0.0, 0.0, np.nan, 0.0
    price = offer.price
    minimum_s, step_s = price.minimum_billed_s or 0.0, price.billing_step_s or 0.0
    if offer.extras is NO_EXTRAS and not offer.others:
        return minimum_s, step_s, float(price.price_per_hour) * offer.instances, 0.0
    return minimum_s, step_s, float(offer.per_hour), float(offer.extras.once)
