"""Which prices of a project hold, and what they tell of its machines."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from app.domain.configurations import Configuration
from app.domain.prices import Price, PriceQuery
from app.pricing.holding import latest_of
from tests.support.prices import NOW, make_book, make_price, on_t4

SEPTEMBER, OCTOBER, DECEMBER = (datetime(2026, month, 1, tzinfo=UTC) for month in (9, 10, 12))
MACHINE = Configuration(instance_type="BOX.4")


def priced(gpu_count: int | None, since: datetime = OCTOBER, **changes: Any) -> Price:
    return make_price(gpu_count=gpu_count, valid_from=since, **changes)


@pytest.mark.parametrize("gpu_count", [4, 16, None])
def test_later_price_corrects_how_many_gpus_a_machine_has(gpu_count: int | None) -> None:
    old, new = priced(8, SEPTEMBER), priced(gpu_count)

    assert latest_of([old, new], NOW) == latest_of([new, old], NOW) == [new]
    assert latest_of([old, new], SEPTEMBER) == [old]
    assert make_book(old, new).gpus_of(MACHINE) == gpu_count


def test_corrected_price_is_billed() -> None:
    old = priced(8, SEPTEMBER, price_per_hour=Decimal(1))
    book = make_book(old, priced(4, price_per_hour=Decimal(5)))
    before = PriceQuery(as_of=SEPTEMBER)

    now, then = (book.resolve(on_t4(8), query) for query in (PriceQuery(), before))

    assert now is not None
    assert then is not None
    assert (now.instances, now.per_hour) == (2, Decimal(10))
    assert (then.instances, then.per_hour) == (1, Decimal(1))


def test_machines_of_one_date_may_have_different_numbers_of_gpus() -> None:
    one, four, corrected = priced(1), priced(4), priced(4, price_per_hour=Decimal(9))

    assert latest_of([one, four, corrected], NOW) == [one, corrected]
    assert make_book(one, four).gpus_of(MACHINE) is None


def test_prices_of_gpus_are_told_apart_by_their_number() -> None:
    prices = [priced(1, SEPTEMBER, instance_type=None), priced(4, instance_type=None)]

    assert latest_of(prices, NOW) == prices


def test_machine_is_what_it_is_now_and_not_what_it_will_be() -> None:
    now, later = priced(8), priced(4, DECEMBER, gpu_type="L4")

    assert make_book(now, later).gpus_of(MACHINE) == 8
    assert make_book(now, later).gpu_types_of("box.4") == {"T4"}
    assert make_book(later).gpus_of(MACHINE) == 4
    assert make_book(later).gpu_types_of("box.4") == {"L4"}


def test_machine_may_have_several_gpu_types() -> None:
    book = make_book(priced(4, SEPTEMBER), priced(4, gpu_type="L4"))

    assert book.gpu_types_of("box.4") == {"T4", "L4"}
    assert book.gpu_types_of("p3.16xlarge") == {"V100-16GB"}
    assert book.gpu_types_of("unheard.of") == set()
