"""Requests end in time: answered, refused without a trace, or not begun."""

import asyncio
import contextlib

import orjson
import pytest
import sqlalchemy as sa
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.middleware.deadlines import DeadlineWatch
from app.api.middleware.exchanges import ExchangeMiddleware, exchange_of
from app.api.middleware.metrics import RequestMetrics
from app.api.requests import preferences
from app.domain import deadlines
from app.domain.availability_errors import DeadlineExceededError, StorageUnavailableError
from app.domain.deadlines import Deadline
from app.settings import Settings
from app.storage.database import Database
from tests.support.layers import within_exchanges


def scope_of(path: str = "/v1/workloads", method: str = "GET") -> Scope:
    return {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}


async def _silent() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


class Caller:
    """Keeps what is sent, and tells when an answer has come."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.answered = asyncio.Event()

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        if message["type"] == "http.response.body":
            self.answered.set()


def _layer(app: ASGIApp, request_s: float = 0.01) -> ExchangeMiddleware:
    return within_exchanges(app, request_s=request_s, max_waiting=1)


def test_late_answer_is_replaced_by_a_problem() -> None:
    async def run() -> Caller:
        caller = Caller()

        async def late(scope: Scope, receive: Receive, send: Send) -> None:
            await caller.answered.wait()
            await Response(b"too late")(scope, receive, send)

        await _layer(late)(scope_of(), _silent, caller.send)
        return caller

    start, body = asyncio.run(run()).messages

    headers = dict(start["headers"])
    assert start["status"] == 503
    assert (headers[b"retry-after"], headers[b"connection"]) == (b"2", b"close")
    assert b"deadline_exceeded" in body["body"]


def test_answer_that_has_not_begun_when_the_process_ends_is_a_problem() -> None:
    watch = DeadlineWatch(request_s=3600, upload_s=3600, max_waiting=1)
    begun = asyncio.Event()

    async def late(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def run() -> list[Caller]:
        layer = ExchangeMiddleware(late, watch, RequestMetrics())
        before, after = Caller(), Caller()
        tasks = [asyncio.create_task(layer(scope_of(), _silent, before.send))]
        await begun.wait()
        watch.stop(0.01)
        tasks.append(asyncio.create_task(layer(scope_of(), _silent, after.send)))
        await asyncio.gather(before.answered.wait(), after.answered.wait())
        # The server waits no longer: the tasks end, and say nothing more.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        return [before, after]

    for caller in asyncio.run(run()):
        start, body = caller.messages
        assert (start["status"], code_of(caller)) == (503, "deadline_exceeded")
        assert b"told to stop" in body["body"]


def test_commit_that_the_end_of_the_process_cuts_off_is_answered_by_a_problem() -> None:
    watch = DeadlineWatch(request_s=3600, upload_s=3600, max_waiting=1)

    async def run() -> Caller:
        caller, begun = Caller(), asyncio.Event()

        async def commits(_scope: Scope, _receive: Receive, _send: Send) -> None:
            deadline = deadlines.current.get()
            assert deadline is not None
            with deadline.committing():
                begun.set()
                await asyncio.Event().wait()

        layer = ExchangeMiddleware(commits, watch, RequestMetrics())
        task = asyncio.create_task(layer(scope_of(), _silent, caller.send))
        await begun.wait()
        watch.stop(0.0)
        task.cancel()
        await task
        return caller

    caller = asyncio.run(run())

    assert (caller.messages[0]["status"], code_of(caller)) == (503, "deadline_exceeded")


def test_refusal_that_is_still_sent_is_brought_to_its_end() -> None:
    async def run() -> list[Message]:
        sent: list[Message] = []
        begun, may_go_on = asyncio.Event(), asyncio.Event()

        async def slow_send(message: Message) -> None:
            begun.set()
            await may_go_on.wait()
            sent.append(message)

        async def ends_meanwhile(_scope: Scope, _receive: Receive, _send: Send) -> None:
            await begun.wait()
            asyncio.get_running_loop().call_soon(may_go_on.set)

        await _layer(ends_meanwhile)(scope_of(), _silent, slow_send)
        return sent

    assert [message["type"] for message in asyncio.run(run())] == [
        "http.response.start",
        "http.response.body",
    ]


def test_begun_answer_may_take_its_time() -> None:
    async def run() -> list[Message]:
        caller = Caller()

        async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.sleep(0.05)
            await send({"type": "http.response.body", "body": b"rows"})

        await _layer(stream)(scope_of(), _silent, caller.send)
        return caller.messages

    assert asyncio.run(run())[1]["body"] == b"rows"


def test_requests_that_are_over_fill_no_queue() -> None:
    callers = [Caller() for _ in range(100)]

    async def run() -> None:
        layer = _layer(Response(b""), request_s=60.0)
        for caller in callers:
            await layer(scope_of(), _silent, caller.send)

    asyncio.run(run())

    assert {caller.messages[0]["status"] for caller in callers} == {200}


@pytest.mark.parametrize(
    ("path", "method", "limit_s"),
    [("/v1/runs", "POST", 300.0), ("/v1/runs", "GET", 5.0), ("/v1/forecasts", "POST", 5.0)],
)
def test_uploads_have_a_limit_of_their_own(path: str, method: str, limit_s: float) -> None:
    seen: list[Deadline | None] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(deadlines.current.get())
        await Response(b"")(scope, receive, send)

    asyncio.run(_layer(note, 5.0)(scope_of(path, method), _silent, Caller().send))

    assert seen[0] is not None
    assert seen[0].limit_s == limit_s
    assert deadlines.current.get() is None


def test_commit_under_way_holds_the_end_off() -> None:
    deadline = Deadline(0.0)

    with deadline.committing():
        ended_meanwhile = deadline.end()

    assert not ended_meanwhile
    deadline.check()
    assert deadline.end()
    with pytest.raises(DeadlineExceededError), deadline.committing():
        pass


def test_commit_that_fails_does_not_hold_the_end_off() -> None:
    deadline = Deadline(0.0)

    with contextlib.suppress(StorageUnavailableError), deadline.committing():
        raise StorageUnavailableError

    assert deadline.end()


def test_what_was_stored_after_the_deadline_is_answered() -> None:
    async def store(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        with exchange.deadline.committing():
            exchange.deadline.cut(0.0)
        exchange.check_deadline()
        await Response(b"stored", 201)(scope, receive, send)

    caller = Caller()
    asyncio.run(_layer(store)(scope_of(), _silent, caller.send))

    assert [message.get("status") for message in caller.messages] == [201, None]


def code_of(caller: Caller) -> str:
    return str(orjson.loads(caller.messages[1]["body"])["code"])


def test_caller_who_prefers_to_wait_is_given_the_time() -> None:
    deadline = Deadline(30.0)
    token = deadlines.current.set(deadline)
    headers = [(b"prefer", b"respond-async, wait=7")]

    wait_s = asyncio.run(preferences._wait_s(Request({"type": "http", "headers": headers})))

    deadlines.current.reset(token)
    assert wait_s == 7
    assert deadline.limit_s == 37.0
    assert deadline.left_s() > 30.0


def _hold(database: Database) -> contextlib.AbstractContextManager[object]:
    """Hold what every writer of projects needs."""
    stack = contextlib.ExitStack()
    connection = stack.enter_context(database.engine.begin())
    if not database.is_sqlite:
        connection.execute(sa.text("LOCK TABLE project IN ACCESS EXCLUSIVE MODE"))
    return stack


def test_database_that_is_slow_is_not_waited_for(database: Database, settings: Settings) -> None:
    impatient = Database(settings.url, pool_size=1, statement_timeout_s=0.1)

    with (
        _hold(database),
        pytest.raises(StorageUnavailableError),
        impatient.transaction() as stores,
    ):
        stores.access.list_projects()

    with impatient.transaction() as stores:
        assert stores.access.list_projects()
    impatient.close()


def test_statements_of_an_upload_may_take_longer(settings: Settings) -> None:
    database = Database(settings.url, pool_size=1, statement_timeout_s=0.1)
    if database.is_sqlite:
        database.close()
        pytest.skip("SQLite has no limit on a statement")
    shown = sa.text("SHOW statement_timeout")

    token = deadlines.current.set(Deadline(300.0))
    with database.reading() as stores:
        within = stores.access._session.execute(shown).scalar_one()
    deadlines.current.reset(token)
    with database.reading() as stores:
        outside = stores.access._session.execute(shown).scalar_one()
    database.close()

    assert (within, outside) == ("5min", "100ms")
