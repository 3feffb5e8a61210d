"""Bills for thousands of durations at once, in integers: identical to `bill` to the last digit."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.columns import Repeated
from app.pricing.billing import MAX_DECIMALS, is_plain
from app.pricing.offers import Offer

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_POWERS: Final = np.array([10**power for power in range(19)], dtype=np.int64)
_DIGITS, _QUANTITY_DIGITS, _CENTS = 7, 9, 2
_MAX_SCALE, _MAX_SIZE = 11, 12
_MAX_TOTAL, _MAX_PRICE, _MAX_PLAIN = 10**15, 4 * 10**9, 10**15
_MIN_PLAIN: Final = 1e-5
_HOUR_S: Final = 3600
_EXACT: Final = Context(prec=80)
_FIRST, _SECOND = [1, 0], [0, 2]
_RELATIVE_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class MoneyColumn:
    """Amounts of `units` / 10**`decimals`, shown with `decimals` decimals; each of shape (n,)."""

    units: IntArray
    decimals: IntArray


@dataclass(frozen=True, slots=True)
class BillColumns:
    """Bills of one line item each: instance hours and amounts; see `Bill`.

    Where `is_exact` is false the others are meaningless, because integers do not suffice there.
    """

    is_exact: BoolArray
    hours: FloatArray
    median: MoneyColumn
    lower: MoneyColumn
    upper: MoneyColumn


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of each row: instances, billing rules, price = `units` / 10**`scale`."""

    is_plain: BoolArray
    count: IntArray
    minimum_s: IntArray
    step_s: IntArray
    units: IntArray
    scale: IntArray


def bills(
    offers: Sequence[Offer | None],
    median_s: Sequence[float],
    lower_s: Sequence[float],
    upper_s: Sequence[float],
) -> BillColumns:
    """Return the bills of durations of up to seven digits, in seconds."""
    hours, money, is_exact = _charged(np.array([median_s, lower_s, upper_s]), _terms_of(offers))
    units, decimals = money.units, money.decimals
    amounts = _quotient(units, decimals)
    # Pairs (lower, median) and (median, upper): the first must not exceed the second.
    is_alike = decimals[_FIRST] == decimals[_SECOND]
    is_above = np.where(
        is_alike, units[_FIRST] > units[_SECOND], amounts[_FIRST] > amounts[_SECOND]
    )
    # Nearly equal amounts with different decimals are not compared here.
    is_near = np.abs(amounts[_FIRST] - amounts[_SECOND]) <= _RELATIVE_TOLERANCE * amounts[_SECOND]
    is_clear = np.logical_and.reduce(is_exact) & ~np.logical_or.reduce(is_near & ~is_alike)
    units[1:] = np.where(is_above, units[0], units[1:])
    decimals[1:] = np.where(is_above, decimals[0], decimals[1:])
    return BillColumns(is_clear, hours[0], *map(MoneyColumn, units, decimals))


def _terms_of(offers: Sequence[Offer | None]) -> _Terms:
    terms = Repeated.of(offers).made(_terms)
    table = np.array(terms.distinct, dtype=np.int64).reshape(-1, 6).T
    columns = table.take(np.frombuffer(terms.places, dtype=np.int64), axis=1)
    return _Terms(columns[0].astype(np.bool_), *columns[1:])


def _terms(offer: Offer | None) -> tuple[int, int, int, int, int, int]:
    if offer is None or not is_plain(offer):
        return 0, 1, 0, 0, 0, 0
    price = offer.price
    _, digits, exponent = price.price_per_hour.normalize(_EXACT).as_tuple()
    units, scale = int("".join(map(str, digits))), -int(exponent)
    if scale < 0:
        units, scale = units * 10**-scale, 0
    if units >= _MAX_PRICE or scale > _MAX_SCALE:
        return 0, 1, 0, 0, 0, 0
    return 1, offer.instances, price.minimum_billed_s or 0, price.billing_step_s or 0, units, scale


def _charged(seconds: FloatArray, terms: _Terms) -> tuple[FloatArray, MoneyColumn, BoolArray]:
    """Return hours to nine digits, the amounts, and where both are exact; shape (3, n) each."""
    with np.errstate(all="ignore"):
        billed, scale, is_exact = _billed(seconds, terms)
        total = billed * terms.count
        is_exact &= terms.is_plain & (total > 0) & (total < _MAX_TOTAL)
        total = np.where(is_exact, total, 1)
        scale = np.where(is_exact, scale, 0)
        shift = _QUANTITY_DIGITS - 1 - np.floor(np.log10(total / _HOUR_S)).astype(np.int64)
        numerator = total * _POWERS[np.maximum(shift, 0)]
        divisor = _HOUR_S * _POWERS[np.maximum(-shift, 0)]
        units = (2 * numerator + divisor) // (2 * divisor)
        # Near a power of ten the logarithm may be off by one; such rows are left to `bill`.
        is_exact &= (units >= 10 ** (_QUANTITY_DIGITS - 1)) & (units <= 10**_QUANTITY_DIGITS)
        scale += shift
        hours = _quotient(units, scale)
        is_exact &= (hours >= _MIN_PLAIN) & (hours < _MAX_PLAIN) & (np.abs(scale) < len(_POWERS))
        amounts, is_money = _rounded(units * terms.units, scale + terms.scale)
    return hours, amounts, is_exact & is_money


def _billed(seconds: FloatArray, terms: _Terms) -> tuple[IntArray, IntArray, BoolArray]:
    """Return the billed seconds as integers, scales, and where exact; see `billed_seconds`."""
    size = np.floor(np.log10(seconds))
    is_exact = (size >= _DIGITS - 1 - _MAX_SCALE) & (size <= _MAX_SIZE)
    scale = np.where(is_exact, _DIGITS - 1 - size, 0).astype(np.int64)
    power = _POWERS[np.abs(scale)]
    billed = np.rint(np.where(scale >= 0, seconds * power, seconds / power)).astype(np.int64)
    is_exact &= _quotient(billed, scale) == seconds
    if terms.minimum_s.any():
        is_short = seconds < terms.minimum_s
        billed, scale = np.where(is_short, terms.minimum_s, billed), np.where(is_short, 0, scale)
    is_stepped = terms.step_s > 0
    if not is_stepped.any():
        return billed, scale, is_exact
    step = np.maximum(terms.step_s, 1)
    whole = billed * _POWERS[np.maximum(-scale, 0)]
    steps = -(-whole // (step * _POWERS[np.maximum(scale, 0)]))
    return (
        np.where(is_stepped, steps * step, billed),
        np.where(is_stepped, 0, scale),
        is_exact,
    )


def _quotient(units: IntArray, scale: IntArray) -> FloatArray:
    """Return units / 10**scale as the nearest float, since both are exact."""
    power = _POWERS[np.minimum(np.abs(scale), len(_POWERS) - 1)].astype(np.float64)
    quotient: FloatArray = np.where(scale >= 0, units / power, units * power)
    return quotient


def _rounded(units: IntArray, scale: IntArray) -> tuple[MoneyColumn, BoolArray]:
    """Return amounts of units / 10**scale as they are shown; see `decimals_for`."""
    size = np.log10(np.maximum(units, 1).astype(np.float64)).astype(np.int64)
    size = np.minimum(size, len(_POWERS) - 2)
    size += units >= _POWERS[size + 1]
    size -= units < _POWERS[size]
    needed = np.where(units == 0, _CENTS, np.maximum(_CENTS, _CENTS - (size - scale)))
    decimals = np.minimum(needed, MAX_DECIMALS)
    shift = scale - decimals
    is_exact = (shift < len(_POWERS)) & (size - shift < len(_POWERS) - 1)
    down = _POWERS[np.minimum(np.maximum(shift, 0), len(_POWERS) - 1)]
    up = _POWERS[np.minimum(np.maximum(-shift, 0), len(_POWERS) - 1)]
    shown = np.where(shift > 0, (units + down // 2) // down, units * up)
    return MoneyColumn(shown, decimals), is_exact
