"""The minutes of a project's limit are those of the clock that all processes share."""

import asyncio
from datetime import datetime

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import StorageUnavailableError
from app.services.context import ServiceContext
from app.services.rates import Allowance, RequestRates
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock

_LIMIT = 20


def _take(rates: RequestRates, requests: int) -> list[Allowance]:
    async def take() -> list[Allowance]:
        return [await rates.take(DEFAULT_PROJECT, _LIMIT) for _ in range(requests)]

    return asyncio.run(take())


@pytest.mark.parametrize("seconds", [-0.5, 0.5, 3600.5])
def test_minute_spent_does_not_count_for_the_next_where_clocks_differ(
    database: Database, settings: Settings, clock: FakeClock, seconds: float
) -> None:
    own = FakeClock()
    own.advance(seconds)
    rates = RequestRates(ServiceContext(database, settings, own, shared_now=lambda _: clock()))

    def advance(by: float) -> None:
        clock.advance(by)
        own.advance(by)

    advance(30)
    spent = _take(rates, _LIMIT + 1)
    advance(29.75)
    end = _take(rates, 1)
    advance(0.25)
    begun = _take(rates, _LIMIT + 1)

    assert [sum(each.is_allowed for each in taken) for taken in (spent, end, begun)] == [
        _LIMIT,
        0,
        _LIMIT,
    ]
    assert [taken[-1].reset_s for taken in (spent, end, begun)] == [30, 1, 60]


def test_each_answer_tells_how_many_requests_are_left(
    database: Database, settings: Settings, clock: FakeClock
) -> None:
    rates = RequestRates(ServiceContext(database, settings, clock))

    taken = _take(rates, _LIMIT + 1)

    assert [each.remaining for each in taken] == [*reversed(range(_LIMIT)), 0]


def test_requests_that_come_at_once_lose_nothing_of_the_limit(
    database: Database, settings: Settings, clock: FakeClock
) -> None:
    rates = RequestRates(ServiceContext(database, settings, clock))
    limit = 200

    async def take() -> list[Allowance]:
        at_once = [rates.take(DEFAULT_PROJECT, limit) for _ in range(10)]
        first = await asyncio.gather(*at_once)
        return [*first, *[await rates.take(DEFAULT_PROJECT, limit) for _ in range(limit)]]

    allowed = [each.is_allowed for each in asyncio.run(take())]

    assert allowed == [True] * limit + [False] * 10


@pytest.mark.parametrize("error", [StorageUnavailableError, TimeoutError])
def test_limit_holds_in_each_process_while_the_database_is_away(
    database: Database, settings: Settings, clock: FakeClock, error: type[Exception]
) -> None:
    def ask(_session: object) -> datetime:
        raise error

    rates = RequestRates(ServiceContext(database, settings, clock, shared_now=ask))

    taken = _take(rates, _LIMIT + 2)
    clock.advance(60)
    later = _take(rates, 1)

    assert [each.is_allowed for each in (*taken, *later)] == [True] * _LIMIT + [False] * 2 + [True]
