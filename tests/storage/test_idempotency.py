"""First answers are kept once, under a lock that lapses and a fence that does not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app.domain.access import DEFAULT_PROJECT, Project
from app.domain.errors import IdempotencyKeyReusedError, InProgressError
from app.domain.idempotency import IdempotencyTicket, Replay
from app.domain.identifiers import ProjectId
from app.services.context import ServiceContext
from app.services.idempotency import IdempotencyService
from app.services.wiring import Services
from app.storage.database import Database
from tests.support.clock import FakeClock

_TICKET = IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", "key-1")
_LOCK_S = 30.0


@pytest.fixture
def context(services: Services) -> ServiceContext:
    return services.context


def _begin(
    database: Database, clock: FakeClock, *, body: str = "a", ticket: IdempotencyTicket = _TICKET
) -> Replay | IdempotencyTicket:
    with database.transaction() as stores:
        return stores.idempotency.begin(ticket, body, clock(), _LOCK_S)


def _held_ticket(database: Database, clock: FakeClock) -> IdempotencyTicket:
    ticket = _begin(database, clock)
    assert isinstance(ticket, IdempotencyTicket)
    return ticket


def _numbered(number: int) -> IdempotencyTicket:
    return IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", f"key-{number}")


def _finish(database: Database, ticket: IdempotencyTicket) -> None:
    with database.transaction() as stores:
        stores.idempotency.finish(ticket, 201, {"location": "/x"}, b"{}")


def test_finished_request_is_replayed(database: Database, clock: FakeClock) -> None:
    _finish(database, _held_ticket(database, clock))

    answer = _begin(database, clock)

    assert answer == Replay(201, {"location": "/x"}, b"{}")


def test_running_request_is_in_progress(database: Database, clock: FakeClock) -> None:
    _begin(database, clock)

    with pytest.raises(InProgressError):
        _begin(database, clock)


@pytest.mark.parametrize("is_finished", [True, False])
def test_other_body_is_refused(database: Database, clock: FakeClock, *, is_finished: bool) -> None:
    ticket = _held_ticket(database, clock)
    if is_finished:
        _finish(database, ticket)

    with pytest.raises(IdempotencyKeyReusedError):
        _begin(database, clock, body="b")


def test_other_path_is_another_request(database: Database, clock: FakeClock) -> None:
    _begin(database, clock)

    other = _begin(database, clock, ticket=IdempotencyTicket(DEFAULT_PROJECT, "/v1/x", "key-1"))

    assert isinstance(other, IdempotencyTicket)


def test_lapsed_lock_is_taken_over_and_fences_off_the_first(
    database: Database, clock: FakeClock
) -> None:
    first = _held_ticket(database, clock)
    clock.advance(_LOCK_S + 1)
    second = _held_ticket(database, clock)

    with pytest.raises(InProgressError):
        _finish(database, first)
    _finish(database, second)

    assert isinstance(_begin(database, clock), Replay)


def test_request_that_is_taken_over_leaves_the_others_under_way_alone(
    database: Database, clock: FakeClock
) -> None:
    _begin(database, clock)
    clock.advance(_LOCK_S + 1)
    other = _begin(database, clock, ticket=_numbered(2))
    _begin(database, clock)

    assert isinstance(other, IdempotencyTicket)
    _finish(database, other)


def test_lapsed_lock_is_not_taken_over_by_another_body(
    database: Database, clock: FakeClock
) -> None:
    _begin(database, clock)
    clock.advance(_LOCK_S + 1)

    with pytest.raises(IdempotencyKeyReusedError):
        _begin(database, clock, body="b")


def test_renewed_lock_does_not_lapse(database: Database, clock: FakeClock) -> None:
    ticket = _held_ticket(database, clock)
    with database.transaction() as stores:
        stores.idempotency.renew(ticket, clock() + timedelta(seconds=3 * _LOCK_S))
    clock.advance(_LOCK_S + 1)

    with pytest.raises(InProgressError):
        _begin(database, clock)


def test_forgotten_request_may_run_again(database: Database, clock: FakeClock) -> None:
    ticket = _held_ticket(database, clock)
    with database.transaction() as stores:
        stores.idempotency.forget(ticket)

    assert isinstance(_begin(database, clock, body="b"), IdempotencyTicket)


def test_purge_deletes_what_began_before(database: Database, clock: FakeClock) -> None:
    _finish(database, _held_ticket(database, clock))
    with database.transaction() as stores:
        kept = stores.idempotency.purge(clock(), limit=9)
        deleted = stores.idempotency.purge(clock() + timedelta(seconds=1), limit=9)

    assert (kept, deleted) == (0, 1)


def test_purge_of_a_project_leaves_what_others_have(database: Database, clock: FakeClock) -> None:
    team = ProjectId("prj_team")
    with database.transaction() as stores:
        stores.access.add_project(Project(team, "team"), clock())
    _begin(database, clock)
    _begin(database, clock, ticket=replace(_TICKET, project_id=team))
    later = clock() + timedelta(seconds=1)

    with database.transaction() as stores:
        counted = stores.idempotency.count(later, team)
        deleted = stores.idempotency.purge(later, team, limit=9)
        left = [stores.idempotency.count(later, key) for key in (team, DEFAULT_PROJECT)]

    assert (counted, deleted, left) == (1, 1, [0, 1])


def test_each_request_removes_a_portion_of_what_has_lapsed(
    database: Database, context: ServiceContext, clock: FakeClock
) -> None:
    service = IdempotencyService(context, at_once=2)
    for number in range(5):
        _begin(database, clock, ticket=_numbered(number))
    clock.advance(25 * 3600)

    left = []
    for number in range(5, 9):
        service.begin(_numbered(number), "a")
        left.append(service.count_lapsed())

    assert left == [3, 1, 0, 0]


def test_purge_on_request_removes_all_portions(
    database: Database, context: ServiceContext, clock: FakeClock
) -> None:
    for number in range(5):
        _begin(database, clock, ticket=_numbered(number))
    clock.advance(25 * 3600)

    service = IdempotencyService(context, at_once=2)

    assert (service.purge(), service.count_lapsed()) == (5, 0)


def test_room_of_a_new_process_is_what_its_project_has_left(
    database: Database, context: ServiceContext, clock: FakeClock
) -> None:
    team = ProjectId("prj_team")
    with database.transaction() as stores:
        stores.access.add_project(Project(team, "team"), clock())
    settings = context.settings.model_copy(update={"idempotency_bytes": 2})
    tickets = [
        IdempotencyTicket(project_id, "/v1/schedules:rank", f"key-{number}")
        for project_id in (team, DEFAULT_PROJECT)
        for number in range(2)
    ]

    for ticket in tickets:
        service = IdempotencyService(ServiceContext(database, settings, clock))
        held = service.begin(ticket, "a")
        assert isinstance(held, IdempotencyTicket)
        service.keep(held, 200, {}, b"{}")

    again = [isinstance(_begin(database, clock, ticket=ticket), Replay) for ticket in tickets]
    assert again == [True, False, True, False]
