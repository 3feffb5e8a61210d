"""Functions are billed by GB-seconds and calls, as a provider's own example says."""

from dataclasses import replace
from decimal import Decimal
from math import ceil

import numpy as np
import pytest

from app.domain.billing import Extras, Serverless
from app.domain.prices import PriceQuery
from app.pricing.billing import affordable_seconds, bill, costs_of, exact_cost
from app.pricing.offers import Offer
from tests.support.prices import make_book, make_price, on_t4

LAMBDA = Serverless(
    memory_gb=Decimal("0.5"),
    per_gb_second=Decimal("0.00001667"),
    per_call=Decimal("0.0000002"),
    step_s=Decimal("0.1"),
    free_gb_seconds=Decimal(400_000),
    free_calls=1_000_000,
)
"""Example 1 of aws.amazon.com/lambda/pricing: 512 MB, a month's free allowance."""


def make_functions(workers: int = 1, **changes: object) -> Offer:
    members = {"memory_gb": Decimal(2), "per_gb_second": Decimal("0.0001"), **changes}
    terms = Serverless(**members)  # type: ignore[arg-type] # changes are members of it
    return Offer(make_price(serverless=terms, price_per_hour=terms.per_hour), workers)


def test_worked_example_of_the_provider() -> None:
    price = make_price(serverless=LAMBDA, price_per_hour=LAMBDA.per_hour)

    cost = bill(Offer(price, 3_000_000), 1.0, 1.0, 1.0)

    told = [(item.kind, item.quantity, item.unit, str(item.amount)) for item in cost.line_items]
    assert told == [
        ("compute", Decimal(1_100_000), "GB-second", "18.34"),
        ("calls", Decimal(2_000_000), "call", "0.40"),
    ]
    assert str(cost.median) == "18.74"


@pytest.mark.parametrize(
    ("seconds", "gb_seconds", "calls"),
    [
        (0.0001, "0.002", 1),
        (1.0004, "2.002", 1),
        (900.0, "1800", 1),
        (900.0001, "1800.002", 2),
        (2000.0, "4000", 3),
    ],
)
def test_each_call_is_billed_in_whole_steps(seconds: float, gb_seconds: str, calls: int) -> None:
    terms = make_functions(max_call_s=Decimal(900)).price.serverless
    assert terms is not None

    assert terms.usage(Decimal(repr(seconds)), 1) == (Decimal(gb_seconds), calls)
    assert terms.usage(Decimal(repr(seconds)), 3) == (3 * Decimal(gb_seconds), 3 * calls)


@pytest.mark.parametrize(
    ("seconds", "minimum_s", "step_s", "billed_s"),
    [
        (100.0, None, None, "100"),
        (100.0, 3600, None, "3600"),
        (4000.5, 3600, None, "4000.5"),
        (100.0, 130, 60, "180"),
        (0.25, None, 60, "60"),
    ],
)
def test_the_rules_of_a_price_hold_for_functions_and_extras_alike(
    seconds: float, minimum_s: int | None, step_s: int | None, billed_s: str
) -> None:
    functions = make_functions(2, per_call=Decimal("0.01"), max_call_s=Decimal(60))
    price = replace(functions.price, minimum_billed_s=minimum_s, billing_step_s=step_s)
    extras = Extras(other_nodes=1, other_node_per_hour=Decimal(3600))
    offer = Offer(price, 2, extras)

    cost = bill(offer, seconds, seconds, seconds)

    compute, calls, other = cost.line_items
    n_calls = 2 * ceil(seconds / 60)
    assert compute.quantity == 2 * 2 * Decimal(billed_s)
    assert calls.quantity == n_calls
    assert other.amount == pytest.approx(Decimal(billed_s), rel=Decimal("1e-8"))
    assert cost.median == cost.lower == cost.upper
    assert float(exact_cost(offer, seconds)) == pytest.approx(
        float(costs_of([offer], np.array([seconds]))[0])
    )


def test_a_budget_below_the_minimum_of_functions_pays_for_nothing() -> None:
    price = replace(make_functions().price, minimum_billed_s=3600)

    assert affordable_seconds(Offer(price, 1), Decimal("0.5")) == 0.0
    assert affordable_seconds(Offer(price, 1), Decimal("0.72")) == 3600.0


def test_costs_of_many_functions_equal_their_bills_and_rise() -> None:
    offer = make_functions(4, per_call=Decimal("0.01"), max_call_s=Decimal(60))
    seconds = np.linspace(0.5, 500.0, 400)

    costs = costs_of([offer] * 400, seconds)

    exact = [float(exact_cost(offer, value)) for value in seconds.tolist()]
    np.testing.assert_allclose(costs, exact, rtol=1e-9)
    assert (np.diff(costs) >= 0).all()
    several = costs_of([offer] * 200, seconds.reshape(2, 200))
    np.testing.assert_array_equal(several, costs.reshape(2, 200))


@pytest.mark.parametrize("budget", ["0.001", "0.05", "3.00", "250"])
def test_longest_affordable_duration_is_where_the_budget_ends(budget: str) -> None:
    offer = make_functions(4, per_call=Decimal("0.01"), max_call_s=Decimal(60))

    seconds = affordable_seconds(offer, Decimal(budget))

    assert seconds is not None
    assert seconds == 0.0 or exact_cost(offer, seconds) <= Decimal(budget)
    assert exact_cost(offer, seconds + 0.002) > Decimal(budget)


def test_free_functions_are_affordable_for_ever() -> None:
    assert affordable_seconds(make_functions(per_gb_second=Decimal(0)), Decimal(0)) is None


def test_functions_compete_with_machines_by_the_whole_bill() -> None:
    terms = Serverless(Decimal(16), Decimal("0.0000166667"))
    functions = make_price(
        instance_type="function", gpu_count=1, serverless=terms, price_per_hour=terms.per_hour
    )
    machine = make_price(price_per_hour=Decimal("0.80"), gpu_count=1, billing_step_s=3600)
    book = make_book(functions, machine)

    short, long = (book.resolve(on_t4(1), PriceQuery(), seconds=each) for each in (30.0, 7200.0))

    assert short is not None
    assert long is not None
    assert (short.price.instance_type, long.price.instance_type) == ("function", "box.4")


def test_inline_price_of_functions_is_for_each_worker() -> None:
    query = PriceQuery(serverless=LAMBDA, currency="EUR")

    offer = make_book().resolve(on_t4(8, nodes=2), query)

    assert offer is not None
    assert (offer.instances, offer.price.currency, offer.price.source) == (8, "EUR", "inline")


def test_a_price_of_functions_is_for_each_worker_on_whatever_nodes() -> None:
    functions = make_price(
        instance_type="function", gpu_count=4, serverless=LAMBDA, price_per_hour=LAMBDA.per_hour
    )

    offer = make_book(functions).resolve(on_t4(8, nodes=2), PriceQuery())

    assert offer is not None
    assert (offer.price.instance_type, offer.instances) == ("function", 8)
