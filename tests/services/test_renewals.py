"""What requests go on with is read anew behind them before it is too old."""

from datetime import UTC, datetime
from decimal import Decimal
from threading import Event
from typing import Any

import pytest

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.availability_errors import StorageUnavailableError
from app.domain.exchange_rates import ExchangeRate
from app.domain.grid_factors import GridFactor
from app.domain.identifiers import (
    ExchangeRateId,
    GridFactorId,
    PriceId,
    Slug,
    new_identifier,
)
from app.services.renewals import Renewals
from app.services.serving import RegressorCache
from app.services.wiring import Services
from app.storage.prices import PriceStore
from tests.support.clock import FakeClock
from tests.support.overtaking import after_first
from tests.support.prices import make_price
from tests.support.queries import recorded_queries
from tests.support.regressors import fit, publish_regressor

FITTED = Slug("fitted")
HALF_OLD_S, TOO_OLD_S = 0.6, 1.1
_THEN = datetime(2026, 10, 1, tzinfo=UTC)
_RATE = ExchangeRate("EUR", "USD", Decimal("1.25"), _THEN, "bank", ExchangeRateId("fx_1"))
_FACTOR = GridFactor(Decimal("0.4"), _THEN, "grid", factor_id=GridFactorId("grid_1"))


def wait_for(renewals: Renewals) -> None:
    """Wait until all is read that was asked for."""
    renewals._thread.submit(lambda: None).result()


def test_one_thing_is_read_once_at_a_time() -> None:
    renewals, may_go_on = Renewals(patience_s=60), Event()
    reads: list[bool] = []

    for _ in range(3):
        renewals.renew("one", lambda: reads.append(may_go_on.wait()))
    may_go_on.set()
    wait_for(renewals)
    renewals.renew("one", lambda: reads.append(may_go_on.wait()))
    wait_for(renewals)
    renewals.close()

    assert reads == [True] * 2


def test_nothing_is_read_after_the_end() -> None:
    renewals = Renewals(patience_s=60)
    reads: list[int] = []
    renewals.close()

    renewals.renew("one", lambda: reads.append(1))
    renewals.close()

    assert reads == []


def test_failed_reading_is_left_to_the_request_that_needs_it() -> None:
    renewals = Renewals(patience_s=60)
    reads: list[int] = []

    def fail() -> None:
        raise StorageUnavailableError

    renewals.renew("one", fail)
    wait_for(renewals)
    renewals.renew("one", lambda: reads.append(1))
    wait_for(renewals)
    renewals.close()

    assert reads == [1]


def test_published_version_is_known_before_a_request_would_wait_for_it(
    services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    cache = RegressorCache(services.context)
    cache.get(DEFAULT_PROJECT, FITTED)
    fit(services, "fitted")
    clock.advance(HALF_OLD_S)
    earlier = cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now())
    wait_for(cache._renewals)

    later = cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now())
    cache.close()

    assert earlier is not None
    assert later is not None
    assert (earlier.version, later.version) == (1, 2)


def test_regressor_that_is_not_read_anew_in_time_is_too_old(
    services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    cache, may_go_on = RegressorCache(services.context), Event()
    cache.get(DEFAULT_PROJECT, FITTED)
    cache._renewals.renew("before", may_go_on.wait)
    clock.advance(HALF_OLD_S)
    assert cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now()) is not None

    clock.advance(TOO_OLD_S - HALF_OLD_S)

    assert cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now()) is None
    may_go_on.set()
    cache.close()


def test_prices_are_read_anew_and_stay_the_same_book_while_they_say_the_same(
    services: Services, clock: FakeClock
) -> None:
    prices = services.prices
    book = prices.book(DEFAULT_PROJECT)
    clock.advance(HALF_OLD_S)
    assert prices.book_in_memory(DEFAULT_PROJECT, services.context.now()) is book
    wait_for(prices._renewals)

    clock.advance(HALF_OLD_S)

    assert prices.book_in_memory(DEFAULT_PROJECT, services.context.now()) is book
    prices.close()


def test_prices_rates_and_factors_are_read_again_only_once_they_change(
    services: Services, clock: FakeClock
) -> None:
    database, prices = services.context.database, services.prices
    price_id = PriceId(new_identifier("price"))
    price = make_price(price_id=price_id)
    changes: list[Any] = [
        lambda stores: stores.prices.add_many(DEFAULT_PROJECT, [price], _THEN),
        lambda stores: stores.prices.withdraw(DEFAULT_PROJECT, price_id, _THEN),
        lambda stores: stores.exchange_rates.add_many(DEFAULT_PROJECT, [_RATE], _THEN),
        lambda stores: stores.grid_factors.add_many(DEFAULT_PROJECT, [_FACTOR], _THEN),
    ]
    known = prices.book(DEFAULT_PROJECT).facts
    for change in changes:
        clock.advance(TOO_OLD_S)
        with recorded_queries(database) as queries:
            assert prices.book(DEFAULT_PROJECT).facts is known
        assert not [query for query in queries if ".source" in query]
        # Another process stores something.
        with database.transaction() as stores:
            change(stores)
        clock.advance(TOO_OLD_S)
        assert prices.book(DEFAULT_PROJECT).facts != known
        known = prices.book(DEFAULT_PROJECT).facts
    prices.close()

    assert (known.prices, known.rates, known.factors) == ((), (_RATE,), (_FACTOR,))


def test_prices_that_were_forgotten_meanwhile_are_not_kept(
    services: Services, clock: FakeClock
) -> None:
    prices, may_go_on = services.prices, Event()
    prices.book(DEFAULT_PROJECT)
    clock.advance(HALF_OLD_S)
    prices._renewals.renew("before", may_go_on.wait)
    prices.book_in_memory(DEFAULT_PROJECT, services.context.now())
    prices.forget(DEFAULT_PROJECT)
    may_go_on.set()
    wait_for(prices._renewals)

    assert prices.book_in_memory(DEFAULT_PROJECT, services.context.now()) is None


def test_prices_that_change_while_they_are_read_first_are_read_again(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Principal(DEFAULT_PROJECT, frozenset(Scope))
    after_first(monkeypatch, PriceStore, "in_force", lambda: prices.add(caller, [make_price()]))
    prices = services.prices

    prices.book(DEFAULT_PROJECT)

    assert len(prices.book(DEFAULT_PROJECT).facts.prices) == 1


@pytest.mark.parametrize("made", [True, False])
def test_services_end_what_reads_for_them(services: Services, *, made: bool) -> None:
    if made:
        services.prices.book(DEFAULT_PROJECT)

    services.close()

    assert (Services.prices.made_by(services) is not None) is made
