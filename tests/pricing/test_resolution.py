"""Which price a configuration is charged, and on how many instances."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from app.domain.billing import Extras
from app.domain.configurations import Configuration, Purchase
from app.domain.prices import Price, PriceQuery
from app.pricing.catalogue import built_in_prices
from app.pricing.gpus import variants_of
from app.pricing.holding import is_stale
from app.pricing.offers import Offer
from tests.support.prices import NOW, make_book, make_price, on_t4

ANY = PriceQuery()


def resolve(
    configuration: Configuration, *own: Price, query: PriceQuery = ANY, now: datetime = NOW
) -> Offer:
    offer = make_book(*own, now=now).resolve(configuration, query)
    assert offer is not None
    return offer


def test_catalogue_has_each_listed_price_with_its_date_and_source() -> None:
    prices = built_in_prices()

    assert sum(price.purchase is Purchase.ON_DEMAND for price in prices) == 410
    assert all(price.source and price.price_per_hour > 0 for price in prices)
    assert not any(price.source.startswith("sparecores") for price in prices)


def test_own_price_goes_before_the_catalogue() -> None:
    offer = resolve(on_t4(), make_price(price_per_hour=Decimal(99)))

    assert offer.price.price_per_hour == 99


@pytest.mark.parametrize(
    ("configuration", "query", "place"),
    [
        ({}, {"provider": "B", "region": "east"}, ("b", "east")),
        ({"provider": "b", "region": "West"}, {}, ("b", "west")),
        ({"provider": "a", "region": "west"}, {"provider": "b", "region": "east"}, ("b", "east")),
    ],
)
def test_place_of_the_pricing_goes_before_that_of_the_configuration(
    configuration: dict[str, Any], query: dict[str, Any], place: tuple[str, str]
) -> None:
    prices = [
        make_price(provider=provider, region=region, price_per_hour=Decimal(price))
        for price, (provider, region) in enumerate(
            [("a", "west"), ("a", "east"), ("b", "west"), ("b", "east")], start=1
        )
    ]

    asked = PriceQuery(**query)
    inline = replace(asked, price_per_hour=Decimal(5))

    assert resolve(on_t4(**configuration), *prices, query=asked).price.place == place
    assert resolve(on_t4(**configuration), *prices, query=inline).price.place == place


def test_inline_price_goes_before_an_own_price() -> None:
    query = PriceQuery(price_per_hour=Decimal("1.5"), currency="EUR")

    offer = resolve(on_t4(3), make_price(), query=query)

    assert (offer.price.price_per_hour, offer.price.currency) == (Decimal("1.5"), "EUR")
    assert offer.price.source == "inline"


def test_inline_price_is_for_a_worker_where_no_machine_is_named() -> None:
    query = PriceQuery(price_per_hour=Decimal(1))

    assert resolve(on_t4(8), query=query).instances == 8


@pytest.mark.parametrize(
    ("changes", "instances"),
    [
        ({"instance_type": "p3.16xlarge", "gpu_type": "V100-16GB"}, 2),
        ({"instance_type": "unheard.of"}, 16),
        ({"instance_type": "unheard.of", "nodes": 3}, 3),
        ({"nodes": 4}, 16),
    ],
)
def test_inline_price_is_for_the_machine_where_one_is_named(
    changes: dict[str, object], instances: int
) -> None:
    query = PriceQuery(price_per_hour=Decimal(1))

    assert resolve(on_t4(16, **changes), query=query).instances == instances


def test_workers_are_packed_onto_the_cheapest_instances() -> None:
    small = make_price(instance_type="one", gpu_count=1, price_per_hour=Decimal("1.10"))
    large = make_price(instance_type="four", gpu_count=4, price_per_hour=Decimal("4.00"))

    assert resolve(on_t4(4), small, large).price.instance_type == "four"
    assert resolve(on_t4(1), small, large).price.instance_type == "one"
    assert resolve(on_t4(5), small, large).per_hour == Decimal("5.10")
    assert resolve(on_t4(5, nodes=2), small, large).per_hour == Decimal("8.00")


def test_nodes_that_are_given_must_hold_the_workers() -> None:
    small = make_price(instance_type="one", gpu_count=1, price_per_hour=Decimal("0.10"))
    large = make_price(instance_type="four", gpu_count=4, price_per_hour=Decimal("4.00"))

    offer = resolve(on_t4(8, nodes=2), small, large)

    assert (offer.price.instance_type, offer.instances) == ("four", 2)


@pytest.mark.parametrize("purchase", [Purchase.ON_DEMAND, Purchase.OWNED])
def test_own_machines_of_other_sizes_go_before_the_catalogue_where_nodes_were_filled_in(
    purchase: Purchase,
) -> None:
    book = make_book(make_price(gpu_type="V100-16GB", purchase=purchase))
    dense = Configuration(gpu_type="V100-16GB", workers=16, nodes=2)

    [told] = book.resolve_all([dense], ANY)
    [assumed] = book.resolve_all([dense], ANY, nodes_assumed=True)
    [roomy] = book.resolve_all([replace(dense, workers=8)], ANY, nodes_assumed=True)

    assert told is not None
    assert (told.price.gpu_count, told.instances) == (8, 2)
    assert [each and (each.price.source, each.instances) for each in (assumed, roomy)] == [
        ("test", 4),
        ("test", 2),
    ]


def test_price_of_a_gpu_counts_the_workers() -> None:
    offer = resolve(on_t4(6, nodes=2), make_price(instance_type=None, gpu_count=None))

    assert offer.per_hour == 24


@pytest.mark.parametrize(("workers", "bought"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_price_of_several_gpus_is_charged_for_each_lot_of_them(workers: int, bought: int) -> None:
    offer = resolve(on_t4(workers, nodes=1), make_price(instance_type=None, gpu_count=4))

    assert (offer.instances, offer.per_hour) == (bought, Decimal(4 * bought))


def test_machines_that_are_named_and_counted_hold_more_workers_than_gpus() -> None:
    offer = resolve(on_t4(8, instance_type="box.4", nodes=1), make_price())

    assert offer.instances == 1


def test_instance_type_without_gpus_hosts_a_worker_each() -> None:
    price = make_price(instance_type="m4.2xlarge", gpu_type=None, gpu_count=None)

    offer = resolve(Configuration(instance_type="M4.2xlarge", workers=6), price)

    assert offer.instances == 6


def test_provider_and_region_narrow_the_offers() -> None:
    query = PriceQuery(provider="GCP", region="us-central1")

    offer = resolve(on_t4(), query=query)

    assert (offer.price.provider, offer.price.region) == ("gcp", "us-central1")


def test_own_price_without_a_region_holds_everywhere() -> None:
    own = make_price(price_per_hour=Decimal(7), region=None)

    assert resolve(on_t4(), own, query=PriceQuery(region="mars-1")).price.price_per_hour == 7


def test_unknown_place_has_no_price() -> None:
    assert make_book().resolve(on_t4(), PriceQuery(region="mars-1")) is None


def test_spot_is_charged_only_where_it_is_asked() -> None:
    spot = make_price(purchase=Purchase.SPOT, price_per_hour=Decimal("0.10"))

    assert resolve(on_t4(), spot).price.purchase is Purchase.ON_DEMAND
    asked = resolve(on_t4(purchase=Purchase.SPOT), spot)
    assert asked.price.price_per_hour == Decimal("0.10")


def test_owned_hardware_is_charged_where_it_has_no_other_own_price() -> None:
    owned = make_price(purchase=Purchase.OWNED, price_per_hour=Decimal(0))

    assert resolve(on_t4(), owned).per_hour == 0
    assert resolve(on_t4(), owned, make_price()).per_hour == 4


def test_latest_price_that_holds_counts() -> None:
    first = make_price(price_per_hour=Decimal(1), valid_from=datetime(2026, 9, 1, tzinfo=UTC))
    second = make_price(price_per_hour=Decimal(2), valid_from=datetime(2026, 10, 1, tzinfo=UTC))
    coming = make_price(price_per_hour=Decimal(3), valid_from=datetime(2026, 12, 1, tzinfo=UTC))
    in_september = PriceQuery(as_of=datetime(2026, 9, 15, tzinfo=UTC))

    assert resolve(on_t4(), coming, second, first).per_hour == 2
    assert resolve(on_t4(), coming, second, first, query=in_september).per_hour == 1
    later = make_price(valid_from=datetime(2026, 12, 2, tzinfo=UTC))
    assert make_book(first, later, coming).changes_at == coming.valid_from


def test_latest_price_counts_however_its_names_are_written() -> None:
    names = {"provider": "aws", "region": "us-east-1", "instance_type": "box.4", "gpu_type": "T4"}
    first = make_price(price_per_hour=Decimal(1), **names)
    shouted = {name: value.upper() for name, value in names.items()}
    second = make_price(price_per_hour=Decimal(2), valid_from=NOW, **shouted)

    assert resolve(on_t4(), first, second).per_hour == 2
    assert resolve(on_t4(), second, first).per_hour == 2
    assert resolve(on_t4(instance_type="box.4"), second).per_hour == 2
    assert resolve(on_t4(instance_type="BOX.4"), first).per_hour == 1


def test_place_is_one_however_its_names_are_written() -> None:
    large = make_price(provider="Lab", region="north")
    small = make_price(provider="LAB", region="North", instance_type="box.1", gpu_count=1)
    book = make_book(large, small)

    mixed = resolve(on_t4(5), large, small)

    own = [place for place in book.places(on_t4(), ANY) if (place[0] or "").casefold() == "lab"]
    assert len(own) == 1
    assert mixed.total_instances == 2


def test_stale_offer_is_taken_only_where_there_is_no_other() -> None:
    old = make_price(
        instance_type="old",
        price_per_hour=Decimal("0.01"),
        valid_from=NOW - timedelta(days=400),
    )

    assert resolve(on_t4(), old, make_price()).price.instance_type == "box.4"
    alone = resolve(on_t4(), old)
    assert alone.price.instance_type == "old"
    assert is_stale(alone.price, NOW)


def test_whether_an_offer_is_stale_counts_at_the_date_asked_about() -> None:
    cheap = make_price(
        region="here", price_per_hour=Decimal(1), valid_from=NOW - timedelta(days=250)
    )
    dear = make_price(
        region="there", price_per_hour=Decimal(2), valid_from=NOW - timedelta(days=110)
    )
    then = PriceQuery(as_of=NOW - timedelta(days=100))

    assert resolve(on_t4(nodes=1), cheap, dear, query=then).per_hour == 1
    assert resolve(on_t4(nodes=1), cheap, dear).per_hour == 2


def test_gpu_measured_under_a_family_name_is_priced_by_its_variants() -> None:
    offer = resolve(Configuration(gpu_type="V100", workers=1))

    assert offer.price.gpu_type in variants_of("V100")


def test_price_of_another_gpu_does_not_fit_an_instance_type() -> None:
    book = make_book(make_price())

    assert book.resolve(on_t4(instance_type="box.4"), ANY) is not None
    asked = Configuration(gpu_type="L4", instance_type="box.4")
    assert book.resolve(asked, ANY) is None


def test_configuration_without_hardware_has_no_price() -> None:
    assert make_book(make_price()).resolve(Configuration(workers=4), ANY) is None


def test_what_was_resolved_is_remembered_within_bounds() -> None:
    book = make_book(make_price())

    answers = [book.resolve(on_t4(workers), ANY) for workers in range(1, 5000)]

    assert all(answers)
    assert book.resolve(on_t4(4999), ANY) is answers[-1]


@pytest.mark.parametrize(
    "changes",
    [
        [{"as_of": NOW - timedelta(days=days)} for days in range(9)],
        [{"minimum_billed_s": seconds} for seconds in range(9)],
        [{"billing_step_s": seconds} for seconds in range(9)],
        [{"extras": Extras(storage_gb=Decimal(size))} for size in range(9)],
        [{"purchase": purchase} for purchase in Purchase],
    ],
)
def test_what_differs_in_one_term_is_told_apart_without_comparisons(
    changes: list[dict[str, Any]],
) -> None:
    queries = [PriceQuery(price_per_hour=Decimal(2), **change) for change in changes]
    offers = [make_book().resolve(on_t4(), query) for query in queries]

    assert len(set(map(hash, queries))) == len(queries)
    assert len(set(map(hash, offers))) == len(offers)


def test_markets_of_ever_new_questions_are_remembered_within_bounds() -> None:
    prices = [make_price(instance_type=f"box.{size}", gpu_count=size) for size in range(1, 2001)]
    book = make_book(*prices)

    for step in range(1, 41):
        assert book.resolve(on_t4(), PriceQuery(billing_step_s=step)) is not None

    held = sum(markets.n_singles for markets in book._markets.values())
    assert 2000 < held <= 65_536


def test_gpu_of_an_instance_type_is_known() -> None:
    assert make_book().gpu_types_of("P3.16xlarge") == {"V100-16GB"}
