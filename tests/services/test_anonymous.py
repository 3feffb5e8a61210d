"""Who calls without a key is the default project, under its limit as it was read last."""

import asyncio

from app.domain.access import Principal
from app.domain.quotas import Limit
from app.services.identity.anonymous import AnonymousCaller
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.outage import make_available, make_unavailable


async def _settled(caller: AnonymousCaller) -> Principal:
    """Return who calls once nothing is being read any more."""
    await caller.principal()
    if caller.reading is not None:
        await caller.reading
    return await caller.principal()


def test_limit_is_read_first_and_then_every_few_seconds(
    services: Services, clock: FakeClock
) -> None:
    caller = AnonymousCaller(services.context)
    found = [asyncio.run(_settled(caller)).requests_per_minute]
    services.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 7})

    for seconds in (1.0, 5.0):
        clock.advance(seconds)
        found.append(asyncio.run(_settled(caller)).requests_per_minute)

    assert found == [None, None, 7]


def test_known_limit_holds_while_the_database_is_away(services: Services, clock: FakeClock) -> None:
    services.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 7})
    caller = AnonymousCaller(services.context)
    asyncio.run(caller.principal())
    make_unavailable(services.context.database)
    clock.advance(6.0)

    limits = asyncio.run(_settled(caller))

    make_available(services.context.database)
    assert limits.requests_per_minute == 7
    assert limits.key_id is None


def test_application_that_was_closed_meanwhile_finds_its_caller(
    services: Services, clock: FakeClock
) -> None:
    asyncio.run(services.access.authenticate(None))
    services.access.close()
    clock.advance(6.0)

    found = asyncio.run(services.access.authenticate(None))

    assert found.project_id == "default"
