"""Workers are packed onto mixed instances as cheaply as trying everything finds."""

from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pytest

from app.domain.billing import Extras
from app.domain.configurations import Purchase
from app.domain.prices import Price, PriceQuery
from app.pricing.billing import exact_cost
from app.pricing.catalogue import built_in_prices
from app.pricing.holding import is_stale
from app.pricing.offers import Offer
from app.pricing.packing import pack
from app.pricing.shelves import shelves_of
from tests.support.prices import NOW, make_book, make_price, on_t4


def _cheapest_by_trying(sizes: list[int], costs: list[Decimal], workers: int) -> Decimal:
    most = [range(-(-workers // size) + 1) for size in sizes]
    return min(
        sum((each * count for each, count in zip(costs, counts, strict=True)), Decimal(0))
        for counts in product(*most)
        if sum(size * count for size, count in zip(sizes, counts, strict=True)) >= workers
    )


def test_packing_equals_trying_everything() -> None:
    random = np.random.default_rng(2)

    for _ in range(150):
        sizes = sorted(set(random.choice([1, 2, 3, 4, 6, 8], size=3).tolist()))
        costs = [Decimal(int(random.integers(1, 60))) / 10 * size for size in sizes]
        workers = int(random.integers(1, 25))

        packing = pack(sizes, costs, workers)

        places = sum(size * count for size, count in zip(sizes, packing.counts, strict=True))
        assert places >= workers
        assert packing.cost == _cheapest_by_trying(sizes, costs, workers)


def test_many_workers_are_packed_as_a_full_table_would() -> None:
    sizes, costs = [1, 3, 8], [Decimal("1.05"), Decimal("3.00"), Decimal("7.90")]
    best = [Decimal(0)]
    for workers in range(1, 3001):
        best.append(
            min(
                best[max(workers - size, 0)] + cost for size, cost in zip(sizes, costs, strict=True)
            )
        )

    assert [pack(sizes, costs, workers).cost for workers in range(1, 3001)] == best[1:]


def test_equally_cheap_instances_are_the_fewest() -> None:
    assert pack([1, 4], [Decimal(1), Decimal(4)], 8).counts == (0, 2)


def test_cheapest_offer_is_that_of_the_whole_bill_not_of_the_hour() -> None:
    by_hour = make_price(
        instance_type="by-hour", price_per_hour=Decimal("3.00"), billing_step_s=3600
    )
    by_second = make_price(instance_type="by-second", price_per_hour=Decimal("3.60"))
    book = make_book(by_hour, by_second)

    taken = {
        seconds: book.resolve(on_t4(4), PriceQuery(), seconds=seconds)
        for seconds in (60.0, 3590.0, 3700.0, 36_000.0)
    }

    names = {each: offer and offer.price.instance_type for each, offer in taken.items()}
    assert names == {60.0: "by-second", 3590.0: "by-hour", 3700.0: "by-second", 36_000.0: "by-hour"}
    for seconds, offer in taken.items():
        assert offer is not None
        others = [
            make_book(price).resolve(on_t4(4), PriceQuery()) for price in (by_hour, by_second)
        ]
        assert exact_cost(offer, seconds) == min(
            exact_cost(each, seconds) for each in others if each is not None
        )


def test_instances_of_two_places_or_rules_are_never_mixed() -> None:
    four = make_price(instance_type="four", region="here", gpu_count=4)
    one = make_price(
        instance_type="one", region="there", gpu_count=1, price_per_hour=Decimal("0.10")
    )
    slow = make_price(
        instance_type="slow",
        region="here",
        gpu_count=1,
        price_per_hour=Decimal("1.5"),
        billing_step_s=60,
    )
    offer = make_book(four, one, slow).resolve(on_t4(5), PriceQuery())

    assert offer is not None
    assert (offer.price.instance_type, offer.instances, offer.others) == ("one", 5, ())


def test_machines_too_large_to_be_mixed_compete_with_each_other_and_with_small_ones() -> None:
    def rack(region: str, price: str) -> Price:
        return make_price(
            instance_type="rack", region=region, gpu_count=72, price_per_hour=Decimal(price)
        )

    small = [
        make_price(
            instance_type=f"box.{size}",
            region="there",
            gpu_count=size,
            price_per_hour=Decimal(size),
        )
        for size in (1, 4)
    ]
    book = make_book(rack("here", "60.00"), rack("there", "50.00"), *small)

    taken = {workers: book.resolve(on_t4(workers), PriceQuery()) for workers in (40, 72, 100)}

    assert {workers: offer and offer.per_hour for workers, offer in taken.items()} == {
        40: Decimal(40),
        72: Decimal("50.00"),
        100: Decimal(100),
    }


def test_given_nodes_are_filled_by_a_place_that_is_dearer_otherwise() -> None:
    eight = make_price(
        instance_type="eight", region="here", gpu_count=8, price_per_hour=Decimal("9.00")
    )
    one = make_price(
        instance_type="one", region="there", gpu_count=1, price_per_hour=Decimal("1.00")
    )
    book = make_book(eight, one)

    open_nodes = book.resolve(on_t4(8), PriceQuery())
    one_node = book.resolve(on_t4(8, nodes=1), PriceQuery())

    assert open_nodes is not None
    assert one_node is not None
    assert (open_nodes.price.instance_type, open_nodes.instances) == ("one", 8)
    assert (one_node.price.instance_type, one_node.instances) == ("eight", 1)


def test_cheapest_offer_of_the_catalogue_is_that_of_all_its_shelves() -> None:
    listed = built_in_prices()

    for gpu_type in ("T4", "V100-16GB", "A100-40GB"):
        book = make_book()
        fresh = [
            Offer(price, 1)
            for price in listed
            if price.gpu_type == gpu_type
            and price.purchase is Purchase.ON_DEMAND
            and not is_stale(price, NOW)
        ]
        shelves = shelves_of(fresh)
        for workers in (*range(1, 40), 64, 100, 1000):
            resolved = book.resolve(on_t4(workers, gpu_type=gpu_type), PriceQuery())
            every = [each.offer_for(on_t4(workers, gpu_type=gpu_type)) for each in shelves]

            assert resolved is not None
            assert resolved.per_hour == min(each.per_hour for each in every if each is not None)


def _with_fee(fee: str) -> PriceQuery:
    return PriceQuery(extras=Extras(platform_per_instance_hour=Decimal(fee)))


@pytest.mark.parametrize("changes", [{}, {"region": "there"}, {"billing_step_s": 60}])
def test_fee_of_each_instance_counts_where_offers_are_compared(changes: dict[str, Any]) -> None:
    one = make_price(instance_type="one", gpu_count=1, price_per_hour=Decimal("1.00"))
    eight = make_price(
        instance_type="eight", gpu_count=8, price_per_hour=Decimal("8.40"), **changes
    )
    book = make_book(one, eight)

    free = book.resolve(on_t4(8), PriceQuery(), seconds=3600.0)
    charged = book.resolve(on_t4(8), _with_fee("1.00"), seconds=3600.0)

    assert free is not None
    assert charged is not None
    assert (free.price.instance_type, free.instances) == ("one", 8)
    assert (charged.price.instance_type, charged.per_hour) == ("eight", Decimal("9.40"))


def test_packing_with_a_fee_equals_trying_everything() -> None:
    random = np.random.default_rng(9)

    for _ in range(60):
        sizes = sorted(set(random.choice([1, 2, 3, 4, 8], size=3).tolist()))
        hours = [Decimal(int(random.integers(5, 40))) / 10 * size for size in sizes]
        fee = Decimal(int(random.integers(1, 30))) / 10
        prices = [
            make_price(instance_type=f"box.{size}", gpu_count=size, price_per_hour=hour)
            for size, hour in zip(sizes, hours, strict=True)
        ]
        workers = int(random.integers(1, 20))

        resolved = make_book(*prices).resolve(on_t4(workers), _with_fee(str(fee)))

        assert resolved is not None
        cheapest = _cheapest_by_trying(sizes, [hour + fee for hour in hours], workers)
        assert resolved.per_hour == cheapest


def test_mixed_instances_are_billed_one_line_each() -> None:
    four = make_price(instance_type="four", gpu_count=4)
    one = make_price(instance_type="one", gpu_count=1, price_per_hour=Decimal("1.10"))

    offer = make_book(four, one).resolve(on_t4(6), PriceQuery())

    assert offer is not None
    others = [(lot.price.instance_type, lot.instances) for lot in offer.others]
    assert (offer.price.instance_type, offer.instances, others) == ("four", 1, [("one", 2)])
    assert (offer.total_instances, offer.per_hour) == (3, Decimal("6.20"))
