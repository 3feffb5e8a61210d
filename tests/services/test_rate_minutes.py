"""The minutes of a project's limit are those of the clock that all processes share."""

import asyncio

import pytest

from app.domain.access import DEFAULT_PROJECT
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
