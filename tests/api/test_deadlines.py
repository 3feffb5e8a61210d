"""Requests end in time: answered, refused without a trace, or not begun."""

import asyncio
import contextlib
from collections.abc import Iterator
from threading import Event

import orjson
import pytest
import sqlalchemy as sa
from anyio import to_thread
from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import preferences
from app.api.middleware.deadlines import DeadlineWatch
from app.api.middleware.exchanges import ExchangeMiddleware
from app.api.middleware.metrics import RequestMetrics
from app.domain import deadlines
from app.domain.access import DEFAULT_PROJECT, Project
from app.domain.availability_errors import DeadlineExceededError, StorageUnavailableError
from app.domain.deadlines import Deadline
from app.domain.identifiers import ProjectId, Slug
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services, build_services
from app.settings import Settings
from app.storage.database import Database
from models import FeatureTable
from tests.support.layers import within_exchanges
from tests.support.regressors import publish_regressor

_TEAM = Project(ProjectId("prj_late"), "late")


def _scope(path: str = "/v1/workloads", method: str = "GET") -> Scope:
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

        await _layer(late)(_scope(), _silent, caller.send)
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
        tasks = [asyncio.create_task(layer(_scope(), _silent, before.send))]
        await begun.wait()
        watch.stop(0.01)
        tasks.append(asyncio.create_task(layer(_scope(), _silent, after.send)))
        await asyncio.gather(before.answered.wait(), after.answered.wait())
        # The server waits no longer: the tasks end, and say nothing more.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        return [before, after]

    for caller in asyncio.run(run()):
        start, body = caller.messages
        assert (start["status"], _code(caller)) == (503, "deadline_exceeded")
        assert b"told to end" in body["body"]


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
        task = asyncio.create_task(layer(_scope(), _silent, caller.send))
        await begun.wait()
        watch.stop(0.0)
        task.cancel()
        await task
        return caller

    caller = asyncio.run(run())

    assert (caller.messages[0]["status"], _code(caller)) == (503, "deadline_exceeded")


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

        await _layer(ends_meanwhile)(_scope(), _silent, slow_send)
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

        await _layer(stream)(_scope(), _silent, caller.send)
        return caller.messages

    assert asyncio.run(run())[1]["body"] == b"rows"


@pytest.mark.parametrize(
    ("path", "method", "limit_s"),
    [("/v1/runs", "POST", 300.0), ("/v1/runs", "GET", 5.0), ("/v1/forecasts", "POST", 5.0)],
)
def test_uploads_have_a_limit_of_their_own(path: str, method: str, limit_s: float) -> None:
    seen: list[Deadline | None] = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(deadlines.current.get())
        await Response(b"")(scope, receive, send)

    asyncio.run(_layer(note, 5.0)(_scope(path, method), _silent, Caller().send))

    assert seen[0] is not None
    assert seen[0].limit_s == limit_s
    assert deadlines.current.get() is None


def test_commit_under_way_holds_the_end_off() -> None:
    deadline = Deadline(0.0)

    with deadline.committing():
        ended_meanwhile = deadline.end()

    assert not ended_meanwhile
    assert deadline.end()
    with pytest.raises(DeadlineExceededError), deadline.committing():
        pass


@pytest.fixture
def hurried(database: Database, settings: Settings) -> Services:
    changed = settings.model_copy(
        update={"request_timeout_s": 0.2, "database_pool_size": 1, "max_waiting_requests": 1}
    )
    return build_services(ServiceContext(database, changed))


class Slow:
    """A route that stores a project and holds its transaction open until it is told."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.begun, self.gate, self.ended = Event(), Event(), Event()

    def store(self) -> None:
        """Store in a transaction that ends late."""
        try:
            with self._services.context.database.transaction() as stores:
                stores.access.add_project(_TEAM, self._services.context.now())
                self.begun.set()
                self.gate.wait()
        finally:
            self.ended.set()


@pytest.fixture
def slow(hurried: Services) -> Iterator[tuple[FastAPI, Slow]]:
    app, route = build_app(hurried.context.settings, hurried), Slow(hurried)
    app.add_api_route("/v1/slow", route.store, methods=["POST"])
    yield app, route
    route.gate.set()


def _call(app: FastAPI, path: str, method: str = "POST") -> tuple[asyncio.Task[None], Caller]:
    caller = Caller()
    scope = {**_scope(path, method), "http_version": "1.1", "raw_path": path.encode()}
    return asyncio.create_task(app(scope, _no_body, caller.send)), caller


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _code(caller: Caller) -> str:
    return str(orjson.loads(caller.messages[1]["body"])["code"])


def test_refused_request_stores_nothing_later(
    slow: tuple[FastAPI, Slow], database: Database
) -> None:
    app, route = slow

    async def run() -> Caller:
        task, caller = _call(app, "/v1/slow")
        await caller.answered.wait()
        route.gate.set()
        await task
        return caller

    caller = asyncio.run(run())

    assert (caller.messages[0]["status"], _code(caller)) == (503, "deadline_exceeded")
    assert len(caller.messages) == 2
    with database.reading() as stores:
        assert stores.access.find_project(_TEAM.name) is None


def test_more_requests_than_may_wait_are_refused_at_once(slow: tuple[FastAPI, Slow]) -> None:
    app, route = slow

    async def run() -> tuple[Caller, Caller]:
        async with app.router.lifespan_context(app):
            limiter = to_thread.current_default_thread_limiter()
            first, _ = _call(app, "/v1/slow")
            second, _ = _call(app, "/v1/slow")
            while not limiter.statistics().tasks_waiting:  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(0)
            third, refused = _call(app, "/v1/slow")
            await third
            fourth, life = _call(app, "/healthz", "GET")
            await fourth
            route.gate.set()
            await asyncio.gather(first, second)
        return refused, life

    refused, life = asyncio.run(run())

    assert (refused.messages[0]["status"], _code(refused)) == (503, "overloaded")
    assert life.messages[0]["status"] == 200


def test_requests_that_come_in_one_instant_are_bounded_too(slow: tuple[FastAPI, Slow]) -> None:
    app, route = slow

    async def run() -> list[Caller]:
        async with app.router.lifespan_context(app):
            tasks, callers = zip(*[_call(app, "/v1/slow") for _ in range(20)], strict=True)
            await asyncio.gather(*(each.answered.wait() for each in callers))
            route.gate.set()
            await asyncio.gather(*tasks)
        return list(callers)

    codes = list(map(_code, asyncio.run(run())))

    # One has the thread and one waits for it, until their time is over.
    assert sorted(codes) == 2 * ["deadline_exceeded"] + 18 * ["overloaded"]


def test_request_that_waited_beyond_its_time_is_not_begun(
    slow: tuple[FastAPI, Slow], hurried: Services
) -> None:
    _, route = slow
    token = deadlines.current.set(Deadline(60.0))
    try:
        ended = deadlines.current.get()
        assert ended is not None
        ended.end()
        with pytest.raises(DeadlineExceededError):
            route.store()
        with pytest.raises(DeadlineExceededError), hurried.context.database.reading():
            pass
    finally:
        deadlines.current.reset(token)

    assert not route.begun.is_set()


def test_key_of_a_refused_request_may_be_used_again(slow: tuple[FastAPI, Slow]) -> None:
    app, route = slow
    key = [(b"idempotency-key", b"late-1")]

    async def run() -> Caller:
        first = Caller()
        scope = {**_scope("/v1/slow", "POST"), "headers": key, "http_version": "1.1"}
        task = asyncio.create_task(app(dict(scope), _no_body, first.send))
        await first.answered.wait()
        route.gate.set()
        await task
        second = Caller()
        await app(dict(scope), _no_body, second.send)
        return second

    assert asyncio.run(run()).messages[0]["status"] == 200


def test_caller_who_prefers_to_wait_is_given_the_time() -> None:
    deadline = Deadline(30.0)
    token = deadlines.current.set(deadline)

    wait_s = asyncio.run(preferences._wait_s("respond-async, wait=7"))

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


def test_computation_of_a_refused_request_ends_at_its_next_step(hurried: Services) -> None:
    publish_regressor(hurried)
    served = hurried.regressor_cache.get(DEFAULT_PROJECT, Slug("fitted"))
    gate, ends = Event(), []

    def compute() -> None:
        gate.wait()
        try:
            served.predict(FeatureTable({}, {}, 0))
        except DeadlineExceededError:
            ends.append("early")
            raise
        ends.append("late")

    app = build_app(hurried.context.settings, hurried)
    app.add_api_route("/v1/long", compute, methods=["POST"])

    async def run() -> Caller:
        task, caller = _call(app, "/v1/long")
        await caller.answered.wait()
        gate.set()
        await task
        return caller

    caller = asyncio.run(run())

    assert (caller.messages[0]["status"], _code(caller)) == (503, "deadline_exceeded")
    assert ends == ["early"]
