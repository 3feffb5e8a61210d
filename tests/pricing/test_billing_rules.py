"""Minimum, steps and further charges: every item adds up, and quantiles stay quantiles."""

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.billing import Extras
from app.domain.prices import PriceQuery
from app.pricing.billing import affordable_seconds, bill, costs_of, exact_cost
from app.pricing.offers import Offer
from tests.support.prices import make_book, make_offer, make_price, on_t4

FULL = Extras(
    other_nodes=1,
    other_node_per_hour=Decimal("0.192"),
    storage_gb=Decimal(200),
    storage_per_gb_month=Decimal("0.08"),
    platform_per_instance_hour=Decimal("0.40"),
    egress_gb=Decimal(10),
    egress_per_gb=Decimal("0.09"),
)


def _random_offer(random: np.random.Generator) -> Offer:
    def money(most: float) -> Decimal:
        return Decimal(str(round(random.uniform(0, most), int(random.integers(0, 7)))))

    extras = Extras(
        other_nodes=int(random.integers(0, 4)),
        other_node_per_hour=money(5),
        storage_gb=money(5000),
        storage_per_gb_month=money(1),
        platform_per_instance_hour=money(3),
        egress_gb=money(500),
        egress_per_gb=money(1),
    )
    price = make_price(
        price_per_hour=money(100),
        minimum_billed_s=int(random.choice([0, 60, 3600])),
        billing_step_s=int(random.choice([0, 1, 60, 3600])) or None,
    )
    return Offer(price, int(random.integers(1, 100)), extras)


@pytest.mark.lengthy
def test_line_items_of_ten_thousand_random_requests_add_up_to_the_last_digit() -> None:
    random = np.random.default_rng(7)

    for _ in range(10_000):
        offer, seconds = _random_offer(random), float(10 ** random.uniform(-2, 7))
        cost = bill(offer, seconds, seconds / 3, seconds * 3)

        unit = Decimal(1).scaleb(int(cost.median.as_tuple().exponent))
        assert sum(item.amount for item in cost.line_items) == cost.median
        assert unit <= Decimal("0.01")
        for item in cost.line_items:
            exact = item.quantity * item.unit_price
            assert item.amount == exact.quantize(unit, ROUND_HALF_UP)
        assert cost.lower <= cost.median <= cost.upper


def test_worked_example_of_every_charge() -> None:
    cost = bill(Offer(make_price(), 2, FULL), 5400.0, 5000.0, 6000.0)

    amounts = {item.kind: str(item.amount) for item in cost.line_items}
    assert amounts == {
        "compute": "12.00",
        "other_nodes": "0.29",
        "storage": "0.03",
        "platform_fee": "1.20",
        "egress": "0.90",
    }
    assert str(cost.median) == "14.42"


@pytest.mark.parametrize(
    ("minimum_s", "step_s", "seconds", "billed_s"),
    [
        (60, None, 10.0, 60),
        (60, None, 61.5, 61.5),
        (None, 3600, 1.0, 3600),
        (None, 3600, 3600.0, 3600),
        (None, 3600, 3600.5, 7200),
        (90, 60, 1.0, 120),
    ],
)
def test_duration_is_billed_by_the_rules_of_its_price(
    minimum_s: int | None, step_s: int | None, seconds: float, billed_s: float
) -> None:
    offer = make_offer("3600", minimum_billed_s=minimum_s, billing_step_s=step_s)

    assert float(exact_cost(offer, seconds)) == pytest.approx(billed_s, rel=1e-8)


def test_rules_and_charges_of_the_question_go_before_those_of_the_price() -> None:
    book = make_book(make_price(minimum_billed_s=60, billing_step_s=60))
    query = PriceQuery(minimum_billed_s=0, billing_step_s=3600, extras=FULL)

    offer = book.resolve(on_t4(), query)

    assert offer is not None
    assert (offer.price.minimum_billed_s, offer.price.billing_step_s) == (0, 3600)
    assert offer.extras == FULL
    assert offer.per_hour == 4 + FULL.per_hour(1)


@given(
    step_s=st.sampled_from([None, 1, 60, 3600]),
    minimum_s=st.sampled_from([None, 60, 4000]),
    budget=st.decimals(min_value="0", max_value="1000", places=2),
)
def test_longest_affordable_duration_is_where_the_budget_ends(
    step_s: int | None, minimum_s: int | None, budget: Decimal
) -> None:
    price = make_price(minimum_billed_s=minimum_s, billing_step_s=step_s)
    offer = Offer(price, 3, FULL)

    seconds = affordable_seconds(offer, budget)

    assert seconds is not None
    tolerance = Decimal("1e-6") * (1 + budget)
    if seconds > 0:
        assert exact_cost(offer, seconds) <= budget + tolerance
    longer = max(seconds, 0.001) * 1.0001 + 0.01
    assert exact_cost(offer, longer) > budget - tolerance


def test_budget_that_pays_no_egress_affords_nothing() -> None:
    free = make_price(price_per_hour=Decimal(0))
    charged = Offer(free, 1, replace(Extras(), egress_gb=Decimal(1), egress_per_gb=Decimal(2)))

    assert affordable_seconds(charged, Decimal(1)) == 0.0
    assert affordable_seconds(charged, Decimal(2)) is None


@pytest.mark.parametrize(
    ("rules", "budget", "expected"),
    [
        ({"billing_step_s": 60}, "1.00", 1200.0),
        ({"billing_step_s": 1}, "0.04", 48.0),
        ({"minimum_billed_s": 60}, "0.05", 60.0),
        ({"billing_step_s": 60}, "0.9999", 1140.0),
    ],
)
def test_budget_that_exactly_pays_for_a_duration_affords_it(
    rules: dict[str, int], budget: str, expected: float
) -> None:
    assert affordable_seconds(make_offer("3.00", **rules), Decimal(budget)) == expected


def test_costs_of_many_candidates_equal_their_bills() -> None:
    random = np.random.default_rng(3)
    offers = [_random_offer(random) for _ in range(200)]
    seconds = 10 ** random.uniform(0, 6, size=200)

    costs = costs_of([*offers, None], np.append(seconds, 1.0))

    exact = [float(exact_cost(*pair)) for pair in zip(offers, seconds.tolist(), strict=True)]
    np.testing.assert_allclose(costs[:-1], exact, rtol=1e-6)
    assert np.isnan(costs[-1])
    assert costs_of([], np.empty(0)).shape == (0,)


def test_cost_of_a_quantile_is_the_quantile_of_the_cost() -> None:
    offer = Offer(make_price(minimum_billed_s=600, billing_step_s=3600), 2, FULL)
    durations = np.sort(np.random.default_rng(5).lognormal(9.0, 0.5, 2001))

    costs = costs_of([offer] * durations.size, durations)

    for share in (0.05, 0.5, 0.95):
        at = int(share * 2000)
        expected = costs_of([offer], durations[at : at + 1])[0]
        assert np.sort(costs)[at] == expected


@pytest.mark.parametrize("text", ["0.1", "0.7", "1.1", "0.07", "3.06"])
@pytest.mark.parametrize("workers", [1, 2, 3, 6, 7])
def test_bills_in_steps_are_those_of_whole_numbers(text: str, workers: int) -> None:
    stepped = make_offer(text, minimum_billed_s=3600, billing_step_s=3600)
    offers = [replace(stepped, instances=workers)] * 9
    seconds = [3600.0 * hours - 1 for hours in range(1, 10)]

    costs = costs_of(offers, np.array(seconds))

    assert costs.tolist() == [float(Decimal(text) * workers * hours) for hours in range(1, 10)]
