"""Bills in columns: each is the bill of its row, to the last digit."""

from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.domain.billing import Extras
from app.pricing.bill_columns import BillColumns, MoneyColumn, bills
from app.pricing.billing import bill, plain_bills
from app.pricing.offers import Lot, Offer
from tests.support.prices import make_offer

seconds = st.floats(1e-6, 1e13).map(lambda value: float(f"{value:.7g}"))
rules = st.fixed_dictionaries(
    {
        "minimum_billed_s": st.none() | st.integers(0, 31 * 86_400),
        "billing_step_s": st.none() | st.integers(1, 31 * 86_400),
    }
)
prices = st.decimals(0, 10**6, places=6) | st.decimals(0, 40, places=4)


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    terms: dict[str, Any] = draw(rules)
    count = draw(st.integers(1, 1_000_000) | st.integers(1, 64))
    return make_offer(str(draw(prices)), count, **terms)


def shown(money: MoneyColumn, row: int) -> str:
    return format(Decimal(int(money.units[row])).scaleb(-int(money.decimals[row])), "f")


def assert_is_bill(found: BillColumns, row: int, offer: Offer, asked: list[float]) -> None:
    lower, median, upper = asked
    expected = bill(offer, median, lower, upper)
    [item] = expected.line_items
    assert shown(found.median, row) == format(expected.median, "f") == format(item.amount, "f")
    assert shown(found.lower, row) == format(expected.lower, "f")
    assert shown(found.upper, row) == format(expected.upper, "f")
    assert Decimal(repr(float(found.hours[row]))) == item.quantity


@given(st.lists(st.tuples(offers(), st.lists(seconds, min_size=3, max_size=3)), min_size=1))
def test_each_is_the_bill_of_its_row(asked: list[tuple[Offer, list[float]]]) -> None:
    times = [sorted(each) for _, each in asked]
    lower, median, upper = (list(column) for column in zip(*times, strict=True))

    billed = bills([offer for offer, _ in asked], median, lower, upper)

    for row, (offer, _) in enumerate(asked):
        if billed.is_exact[row]:
            assert_is_bill(billed, row, offer, times[row])


@given(offers(), st.lists(st.lists(seconds, min_size=3, max_size=3), min_size=1))
def test_bills_of_a_plain_offer_are_those_made_one_by_one(
    offer: Offer, asked: list[list[float]]
) -> None:
    times = [(each[1], each[0], each[2]) for each in map(sorted, asked)]

    found = list(plain_bills(offer, times))

    for (hours, median, lower, upper), (median_s, lower_s, upper_s) in zip(
        found, times, strict=True
    ):
        expected = bill(offer, median_s, lower_s, upper_s)
        [item] = expected.line_items
        told = (item.quantity, expected.median, expected.lower, expected.upper)
        assert list(map(str, (hours, median, lower, upper))) == list(map(str, told))


def test_usual_prices_and_durations_are_all_billed_at_once() -> None:
    random = np.random.default_rng(3)
    median = [float(f"{each:.7g}") for each in np.exp(random.normal(7.0, 2.0, 2000)).tolist()]
    lower = [float(f"{each * 0.9:.7g}") for each in median]
    upper = [float(f"{each * 1.3:.7g}") for each in median]
    cents = random.integers(1, 10**6, 2000).tolist()
    asked = [
        make_offer(f"{each}e-4", each % 64 + 1, minimum_billed_s=(None, 60)[each % 2])
        for each in cents
    ]

    billed = bills(asked, median, lower, upper)

    assert billed.is_exact.all()
    for row, offer in enumerate(asked):
        assert_is_bill(billed, row, offer, [lower[row], median[row], upper[row]])


def test_what_has_several_items_or_is_free_of_a_price_is_left_to_the_bill() -> None:
    plain = make_offer()
    extra = Offer(plain.price, 1, Extras(egress_gb=Decimal(1), egress_per_gb=Decimal(1)))
    several = Offer(plain.price, 1, others=(Lot(plain.price, 1),))

    billed = bills([plain, extra, several, None], [60.0] * 4, [60.0] * 4, [60.0] * 4)

    assert billed.is_exact.tolist() == [True, False, False, False]


def test_a_price_of_nought_comes_to_nought() -> None:
    billed = bills([make_offer("0")], [90.0], [60.0], [3600.0])

    assert billed.is_exact.all()
    assert_is_bill(billed, 0, make_offer("0"), [60.0, 90.0, 3600.0])
