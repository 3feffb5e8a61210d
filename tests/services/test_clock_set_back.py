"""What was read by a clock that was ahead is read again once the clock has been set back."""

import asyncio
import io
from collections.abc import Callable
from datetime import timedelta

import orjson
import pytest

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.access_errors import UnauthenticatedError
from app.domain.idempotency import IdempotencyTicket
from app.domain.identifiers import Slug
from app.domain.prices import ANY_PRICE
from app.domain.workloads import RefitMode, RefitPolicy, WorkloadDeclaration
from app.services.refitting.overdue import OverdueRefits
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.prices import make_price, on_t4
from tests.support.regressors import fit, publish_regressor
from tests.support.uploads import make_json_run

_OWNER = Principal(DEFAULT_PROJECT, frozenset(Scope))
_DAY_S = timedelta(days=1).total_seconds()
_FITTED = Slug("fitted")


def test_key_that_was_revoked_since_is_refused(services: Services, clock: FakeClock) -> None:
    key, token = services.access.create_key("ci", [Scope.READ])
    header = f"Bearer {token}"
    clock.advance(_DAY_S)
    asyncio.run(services.access.authenticate(header))
    clock.advance(-_DAY_S)
    services.access.revoke_key(key.key_id)

    with pytest.raises(UnauthenticatedError):
        asyncio.run(services.access.authenticate(header))


def test_key_of_a_request_that_died_is_free_again(services: Services, clock: FakeClock) -> None:
    ticket = IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", "key")
    clock.advance(_DAY_S)
    services.idempotency.begin(ticket, "body")
    clock.advance(-_DAY_S)

    assert isinstance(services.idempotency.begin(ticket, "body"), IdempotencyTicket)


def _ask(services: Services) -> int:
    return services.regressor_cache.get(DEFAULT_PROJECT, _FITTED).version


def _ask_with_others(services: Services) -> int:
    cache = services.regressor_cache
    return cache.prepare(DEFAULT_PROJECT, [(_FITTED, None)]).get(_FITTED, None).version


@pytest.mark.parametrize("ask", [_ask, _ask_with_others])
def test_version_that_was_published_since_answers(
    services: Services, clock: FakeClock, ask: Callable[[Services], int]
) -> None:
    publish_regressor(services)
    clock.advance(_DAY_S)
    before = ask(services)
    clock.advance(-_DAY_S)
    fit(services, "fitted")

    assert (before, ask(services)) == (1, 2)


def test_price_that_another_process_stored_since_counts(
    services: Services, clock: FakeClock
) -> None:
    clock.advance(_DAY_S)
    before = services.prices.book(DEFAULT_PROJECT)
    clock.advance(-_DAY_S)
    Services(services.context).prices.add(_OWNER, [make_price()])

    after = services.prices.book(DEFAULT_PROJECT)

    assert (len(before.facts.prices), len(after.facts.prices)) == (0, 1)


def test_price_that_is_not_valid_yet_does_not_count(services: Services, clock: FakeClock) -> None:
    valid_from = clock() + timedelta(hours=12)
    services.prices.add(_OWNER, [make_price(), make_price(valid_from=valid_from)])
    clock.advance(_DAY_S)
    before = services.prices.book(DEFAULT_PROJECT)
    clock.advance(-_DAY_S)

    after = services.prices.book(DEFAULT_PROJECT)

    offers = [book.resolve(on_t4(), ANY_PRICE) for book in (before, after)]
    dates = [offer.price.valid_from for offer in offers if offer is not None]
    assert dates == [valid_from, make_price().valid_from]


def test_refits_that_are_overdue_are_looked_for(services: Services, clock: FakeClock) -> None:
    policy = RefitPolicy(RefitMode.AUTO, min_new_runs=100, max_age_s=60.0)
    publish_regressor(services)
    services.workloads.declare(DEFAULT_PROJECT, _FITTED, WorkloadDeclaration(refit_policy=policy))
    overdue = OverdueRefits(services.context, at_most=1)
    clock.advance(_DAY_S)
    looked = overdue.look()
    clock.advance(-_DAY_S + 1.0)
    body = io.BytesIO(orjson.dumps(make_json_run(workload="fitted")))
    services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)
    clock.advance(120.0)

    assert (looked, overdue.look()) == (0, 1)
