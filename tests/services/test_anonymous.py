"""Who calls without a key is the default project, under its limit as it was read last."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from typing_extensions import override

from app.domain.quotas import Limit
from app.services.anonymous import AnonymousCaller
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.outage import give_back, take_away


class AtOnce(Executor):
    """Does what is submitted at once, and counts it."""

    def __init__(self) -> None:
        self.done = 0

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.done += 1
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_limit_is_read_first_and_then_every_few_seconds(
    services: Services, clock: FakeClock
) -> None:
    behind = AtOnce()
    caller = AnonymousCaller(services.context, behind)
    found = [asyncio.run(caller.principal()).requests_per_minute]
    services.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 7})

    for seconds in (1.0, 5.0):
        clock.advance(seconds)
        found.append(asyncio.run(caller.principal()).requests_per_minute)

    assert found == [None, None, 7]
    assert behind.done == 1


def test_known_limit_holds_while_the_database_is_away(services: Services, clock: FakeClock) -> None:
    services.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 7})
    caller = AnonymousCaller(services.context, AtOnce())
    asyncio.run(caller.principal())
    take_away(services.context.database)
    clock.advance(6.0)

    found = asyncio.run(caller.principal())

    give_back(services.context.database)
    assert found.requests_per_minute == 7
    assert found.key_id is None
