"""Exchange rates: which holds, both ways and by way of a third; nothing is lost on the way."""

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from app.domain.billing import Extras, Serverless
from app.domain.exchange_rates import ExchangeRate
from app.domain.prices import PriceQuery
from app.pricing.billing import bill, exact_cost
from app.pricing.currencies import RateBook, is_stale_rate
from app.pricing.resolution import PriceBook
from tests.support.prices import NOW, make_book, make_price, on_t4

pytestmark = pytest.mark.lengthy

DAY = datetime(2026, 10, 20, tzinfo=UTC)


def make_rate(pair: str, rate: str, valid_from: datetime = DAY) -> ExchangeRate:
    source, target = pair.split("/")
    return ExchangeRate(source, target, Decimal(rate), valid_from, f"bank {pair}")


def rate_of(book: RateBook, pair: str, as_of: datetime = NOW) -> str | None:
    source, target = pair.split("/")
    conversion = book.conversion(source, target, as_of)
    return None if conversion is None else str(conversion.rate)


def test_stored_rate_is_applied_digit_by_digit() -> None:
    book = RateBook([make_rate("EUR/USD", "1.08423456789")])

    assert rate_of(book, "EUR/USD") == "1.08423456789"


def test_opposite_rate_is_inverted_to_twelve_digits() -> None:
    book = RateBook([make_rate("EUR/USD", "1.0842")])

    assert rate_of(book, "USD/EUR") == "0.922339051835"
    conversion = book.conversion("USD", "EUR", NOW)
    assert conversion is not None
    assert conversion.source == "inverse of bank EUR/USD"


def test_two_rates_lead_by_way_of_a_third_currency_and_the_older_date_counts() -> None:
    older = DAY - timedelta(days=3)
    book = RateBook([make_rate("EUR/USD", "1.25", older), make_rate("EUR/CHF", "0.95")])

    conversion = book.conversion("USD", "CHF", NOW)

    assert conversion is not None
    assert (str(conversion.rate), conversion.valid_from) == ("0.76", older)
    assert conversion.source == "inverse of bank EUR/USD; bank EUR/CHF"


def test_of_equal_ways_the_alphabetically_first_currency_is_taken() -> None:
    vias = [f"X{letter}{other}" for letter in "ABC" for other in "AB"]
    rates = [
        ExchangeRate(*pair, Decimal(number), DAY, "a bank")
        for number, via in enumerate(vias, start=1)
        for pair in (("CHF", via), (via, "JPY"))
    ]

    assert rate_of(RateBook(rates), "CHF/JPY") == "1"
    assert rate_of(RateBook(rates[::-1]), "CHF/JPY") == "1"


@pytest.mark.parametrize(
    ("days", "rate"), [(-30, None), (-10, "1.1"), (-1, "1.2"), (5, "1.2"), (20, "1.3")]
)
def test_latest_rate_that_holds_on_the_day_counts(days: int, rate: str | None) -> None:
    dates = {"1.1": -20, "1.2": -5, "1.3": 12}
    book = RateBook([make_rate("EUR/USD", r, NOW + timedelta(days=d)) for r, d in dates.items()])

    assert rate_of(book, "EUR/USD", NOW + timedelta(days=days)) == rate


def test_rate_of_an_earlier_day_that_is_stored_later_does_not_count() -> None:
    book = RateBook([make_rate("EUR/USD", "1.25"), make_rate("EUR/USD", "9.0", DAY.replace(day=3))])

    assert rate_of(book, "EUR/USD") == "1.25"


def test_newer_opposite_rate_goes_before_an_older_direct_one() -> None:
    book = RateBook([make_rate("EUR/USD", "2"), make_rate("USD/EUR", "0.4", NOW)])

    assert rate_of(book, "EUR/USD") == "2.5"


def test_of_two_rates_of_one_day_the_direct_one_counts() -> None:
    book = RateBook([make_rate("EUR/USD", "2"), make_rate("USD/EUR", "0.4")])

    assert rate_of(book, "EUR/USD") == "2"
    assert rate_of(book, "USD/EUR") == "0.4"


def test_rate_of_last_month_is_stale() -> None:
    book = RateBook([make_rate("EUR/USD", "1.1")])
    conversion = book.conversion("EUR", "USD", NOW)

    assert conversion is not None
    assert not is_stale_rate(conversion, DAY + timedelta(days=30))
    assert is_stale_rate(conversion, DAY + timedelta(days=31))


def test_unconnected_currencies_have_no_rate() -> None:
    book = RateBook([make_rate("EUR/USD", "1.1"), make_rate("CHF/JPY", "170")])

    assert rate_of(book, "EUR/JPY") is None


def test_own_prices_of_several_currencies_are_compared_after_conversion() -> None:
    dollars = make_price(instance_type="us", price_per_hour=Decimal("4.00"))
    euros = make_price(instance_type="eu", price_per_hour=Decimal("3.80"), currency="EUR")
    weak, strong = (
        make_book(dollars, euros, rates=[make_rate("EUR/USD", rate)]) for rate in ("1.04", "1.06")
    )

    taken = [book.resolve(on_t4(4), PriceQuery(currency="USD")) for book in (weak, strong)]

    assert [
        None if conversion is None else conversion.price.instance_type for conversion in taken
    ] == ["eu", "us"]


def test_price_in_the_currency_asked_for_is_not_converted_there_and_back() -> None:
    book = make_book(make_price(), rates=[make_rate("EUR/USD", "1.0842")])

    offer = book.resolve(on_t4(), PriceQuery(currency="USD"))

    assert offer is not None
    assert (offer.per_hour, offer.conversion) == (Decimal("4.00"), None)


def test_price_is_converted_by_the_rate_of_the_day_asked_about() -> None:
    rates = [make_rate("EUR/USD", "1.5"), make_rate("EUR/USD", "2", DAY + timedelta(days=2))]
    book = make_book(make_price(currency="EUR"), rates=rates)

    offers = [
        book.resolve(on_t4(), PriceQuery(currency="USD", as_of=as_of)) for as_of in (DAY, None)
    ]

    assert [offer and offer.per_hour for offer in offers] == [6, 8]


def test_instances_listed_in_two_currencies_are_never_mixed() -> None:
    """One rate holds for all prices of an offer, and is the one that the answer names."""
    eight = make_price(instance_type="eight", gpu_count=8, price_per_hour=Decimal(4))
    two = make_price(
        instance_type="two", gpu_count=2, price_per_hour=Decimal("0.60"), currency="CHF"
    )
    book = make_book(eight, two, rates=[make_rate("CHF/USD", "1.9")])

    taken = book.resolve(on_t4(10), PriceQuery(currency="USD"))

    assert taken is not None
    assert (taken.price.instance_type, taken.instances, taken.others) == ("two", 5, ())
    assert taken.listed_per_hour == Decimal("0.60")


def test_price_without_a_rate_counts_only_where_there_is_no_other() -> None:
    yen = make_price(instance_type="jp", price_per_hour=Decimal(1), currency="JPY")
    book = make_book(make_price(), yen)

    known = book.resolve(on_t4(4), PriceQuery(), currency="USD")
    alone = make_book(yen).resolve(on_t4(4), PriceQuery(), currency="USD")

    assert known is not None
    assert alone is not None
    assert (known.price.currency, known.is_as_asked) == ("USD", True)
    assert (alone.price.currency, alone.is_as_asked) == ("JPY", False)


def _random_book(random: np.random.Generator) -> PriceBook:
    def money(most: float, digits: int = 6) -> Decimal:
        return Decimal(str(round(random.uniform(most / 1000, most), digits)))

    rules: dict[str, int] = {}
    if random.random() < 0.4:
        terms = Serverless(
            memory_gb=money(64, 3),
            per_gb_second=money(0.0001, 9),
            per_call=money(0.01, 9),
            max_call_s=[None, Decimal(900), Decimal(3600)][random.integers(3)],
            step_s=[Decimal("0.001"), Decimal("0.1"), Decimal(1)][random.integers(3)],
        )
        price = make_price(serverless=terms, price_per_hour=terms.per_hour, currency="EUR")
    else:
        rules = {"minimum_billed_s": 60, "billing_step_s": int(random.choice([1, 60, 3600]))}
        price = make_price(price_per_hour=money(40), currency="EUR", **rules)
    small = make_price(
        price_per_hour=money(10), currency="EUR", instance_type="one", gpu_count=1, **rules
    )
    rate = make_rate(random.choice(["EUR/CHF", "CHF/EUR"]), str(money(200)))
    return make_book(price, small, rates=[rate])


def test_ten_thousand_converted_and_serverless_requests_add_up_to_the_last_digit() -> None:
    random = np.random.default_rng(11)
    book = _random_book(random)
    converted, functions, mixed = 0, 0, 0

    for number in range(10_000):
        if number % 4 == 0:
            book = _random_book(random)
        extras = Extras(
            egress_gb=Decimal(int(random.integers(0, 50))), egress_per_gb=Decimal("0.09")
        )
        workers, seconds = int(random.integers(1, 40)), float(10 ** random.uniform(-2, 6))
        offer = book.resolve(
            on_t4(workers), PriceQuery(currency="CHF", extras=extras), seconds=seconds
        )
        assert offer is not None
        cost = bill(offer, seconds, seconds / 2, seconds * 2)

        unit = Decimal(1).scaleb(int(cost.median.as_tuple().exponent))
        assert sum(item.amount for item in cost.line_items) == cost.median
        for item in cost.line_items:
            exact = item.quantity * item.unit_price
            assert item.amount == exact.quantize(unit, ROUND_HALF_UP)
        assert cost.lower <= cost.median <= cost.upper
        listed = book.resolve(
            on_t4(workers), PriceQuery(currency="EUR", extras=extras), seconds=seconds
        )
        assert offer.conversion is not None
        assert listed is not None
        rate, once = offer.conversion.rate, extras.once
        exact = (exact_cost(listed, seconds) - once) * rate + once
        assert abs(cost.median - exact) <= unit / 2 * len(cost.line_items)
        converted += offer.conversion is not None
        functions += offer.price.serverless is not None
        mixed += bool(offer.others)

    assert converted == 10_000
    assert min(functions, mixed) > 500


def test_fair_rounding_neither_gains_nor_loses_over_many_conversions() -> None:
    random = np.random.default_rng(5)
    book = make_book(
        make_price(currency="EUR", price_per_hour=Decimal("3.17")),
        rates=[make_rate("EUR/USD", "1.0842")],
    )
    offer = book.resolve(on_t4(4), PriceQuery(currency="USD"))
    assert offer is not None
    assert offer.price.price_per_hour == Decimal("3.17") * Decimal("1.0842")

    seconds = random.uniform(3600, 36_000, size=2000).tolist()
    shown = sum((bill(offer, second, second, second).median for second in seconds), Decimal(0))
    exact = sum((exact_cost(offer, second) for second in seconds), Decimal(0))

    assert abs(shown - exact) < Decimal("0.005") * 90  # two deviations of 2,000 roundings
