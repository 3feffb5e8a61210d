"""Money adds up to the last digit shown."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.energy import EnergyTerms, PowerDraw
from app.pricing.billing import affordable_seconds, bill, exact_cost, instance_hours, shown
from app.pricing.energy import kilowatt_hours, power_draw
from tests.support.prices import make_offer

prices = st.decimals(min_value="0", max_value="100000", places=6, allow_nan=False)
seconds = st.floats(min_value=1e-3, max_value=1e9, allow_nan=False)


def test_worked_example_of_the_contract() -> None:
    cost = bill(make_offer("32.77"), 33120.0, 30660.0, 37200.0)

    assert (str(cost.median), str(cost.lower), str(cost.upper)) == ("301.48", "279.09", "338.62")
    [item] = cost.line_items
    assert (item.kind, item.quantity, item.unit) == ("compute", Decimal("9.2"), "instance-hour")
    assert item.amount == cost.median


def test_price_of_a_gpu_is_billed_by_gpu_hours() -> None:
    [item] = bill(
        make_offer(instances=3, instance_type=None, gpu_count=1), 60.0, 50.0, 70.0
    ).line_items

    assert (item.unit, item.quantity) == ("gpu-hour", Decimal("0.05"))


def test_hours_of_several_gpus_at_one_price_are_not_called_gpu_hours() -> None:
    offer = make_offer("8.00", instances=2, instance_type=None, gpu_count=4)

    [item] = bill(offer, 60.0, 50.0, 70.0).line_items

    assert item.unit == "instance-hour"


def test_job_of_seconds_does_not_look_free() -> None:
    cost = bill(make_offer("0.526"), 2.0, 1.5, 3.0)

    assert cost.lower > 0
    assert str(cost.median) == "0.000292"


@given(price=prices, instances=st.integers(1, 10_000), median=seconds)
def test_items_add_up_and_bounds_are_ordered(price: Decimal, instances: int, median: float) -> None:
    cost = bill(make_offer(str(price), instances), median, median / 2, median * 2)

    assert sum(item.amount for item in cost.line_items) == cost.median
    assert cost.lower <= cost.median <= cost.upper
    assert (cost.median == 0) == (price == 0)
    [item] = cost.line_items
    unit = Decimal(1).scaleb(int(cost.median.as_tuple().exponent))
    assert abs(item.quantity * item.unit_price - item.amount) <= unit / 2


@given(price=st.decimals(min_value="0.01", max_value="1000", places=2), median=seconds)
def test_cost_is_linear_in_price(price: Decimal, median: float) -> None:
    once = bill(make_offer(str(price)), median, median, median)
    thrice = bill(make_offer(str(3 * price)), median, median, median)

    unit = Decimal(1).scaleb(int(thrice.median.as_tuple().exponent))
    assert abs(thrice.median - 3 * once.median) <= 2 * unit


def test_affordable_duration_costs_the_budget() -> None:
    offer = make_offer("4.00", instances=2)

    affordable = affordable_seconds(offer, Decimal(16))

    assert affordable == 7200.0
    assert instance_hours(offer, affordable) * offer.price.price_per_hour == 16
    assert affordable_seconds(make_offer("0"), Decimal(1)) is None


def test_energy_is_known_where_the_power_is() -> None:
    sheet = power_draw("V100", EnergyTerms(), {})

    assert sheet == PowerDraw(300.0, "data_sheet")
    assert kilowatt_hours(sheet.watts, 2, 1800.0, 1.0) == 0.3
    assert power_draw("A100", EnergyTerms(), {}) == PowerDraw(400.0, "data_sheet")
    assert power_draw("my-board", EnergyTerms(), {}) is None
    assert power_draw("TPU-v5e", EnergyTerms(), {}) is None
    assert power_draw(None, EnergyTerms(), {}) is None


@pytest.mark.parametrize("seconds", [1e-9, 1.0, 1e20, 1e104, 1e300])
def test_any_finite_duration_has_a_cost_that_can_be_shown(seconds: float) -> None:
    offer = make_offer("3.60")

    cost = shown(exact_cost(offer, seconds))

    assert float(cost) == pytest.approx(seconds * 1e-3, rel=0.01)
