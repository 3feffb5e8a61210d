"""Requests that are refused in time: nothing of them is done later, and few wait."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from anyio import to_thread
from fastapi import FastAPI
from starlette.types import Message

from app.domain import deadlines
from app.domain.access import DEFAULT_PROJECT, Project
from app.domain.availability_errors import DeadlineExceededError
from app.domain.deadlines import Deadline
from app.domain.identifiers import ProjectId, Slug
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from models import FeatureTable
from tests.api.test_deadlines import Caller, code_of, scope_of
from tests.support.regressors import publish_regressor

_TEAM = Project(ProjectId("prj_late"), "late")


def services_for(database: Database, settings: Settings, *, request_timeout_s: float) -> Services:
    """Return services of which one request has the database and one more may wait for it."""
    changes = {"database_pool_size": 1, "max_waiting_requests": 1}
    changed = settings.model_copy(update={**changes, "request_timeout_s": request_timeout_s})
    return Services(ServiceContext(database, changed))


@pytest.fixture
def hurried(database: Database, settings: Settings) -> Services:
    return services_for(database, settings, request_timeout_s=1.0)


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


@contextmanager
def with_slow_route(services: Services) -> Iterator[tuple[FastAPI, Slow]]:
    app, route = build_app(services.context.settings, services), Slow(services)
    app.add_api_route("/v1/slow", route.store, methods=["POST"])
    yield app, route
    route.gate.set()


@pytest.fixture
def slow(hurried: Services) -> Iterator[tuple[FastAPI, Slow]]:
    with with_slow_route(hurried) as found:
        yield found


@pytest.fixture
def patient_slow(database: Database, settings: Settings) -> Iterator[tuple[FastAPI, Slow]]:
    with with_slow_route(services_for(database, settings, request_timeout_s=600.0)) as found:
        yield found


def call(app: FastAPI, path: str, method: str = "POST") -> tuple[asyncio.Task[None], Caller]:
    caller = Caller()
    scope = {**scope_of(path, method), "http_version": "1.1", "raw_path": path.encode()}
    return asyncio.create_task(app(scope, no_body, caller.send)), caller


async def no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_refused_request_stores_nothing_later(
    slow: tuple[FastAPI, Slow], database: Database
) -> None:
    app, route = slow

    async def run() -> Caller:
        task, caller = call(app, "/v1/slow")
        await caller.answered.wait()
        route.gate.set()
        await task
        return caller

    caller = asyncio.run(run())

    assert (caller.messages[0]["status"], code_of(caller)) == (503, "deadline_exceeded")
    assert len(caller.messages) == 2
    with database.reading() as stores:
        assert stores.access.find_project(_TEAM.name) is None


def test_more_requests_than_may_wait_are_refused_at_once(
    patient_slow: tuple[FastAPI, Slow],
) -> None:
    app, route = patient_slow

    async def run() -> tuple[Caller, Caller]:
        async with app.router.lifespan_context(app):
            limiter = to_thread.current_default_thread_limiter()
            first, _ = call(app, "/v1/slow")
            second, _ = call(app, "/v1/slow")
            while not limiter.statistics().tasks_waiting:  # noqa: ASYNC110 - nobody tells it
                await asyncio.sleep(0)
            third, refused = call(app, "/v1/slow")
            await third
            fourth, life = call(app, "/healthz", "GET")
            await fourth
            route.gate.set()
            await asyncio.gather(first, second)
        return refused, life

    refused, life = asyncio.run(run())

    assert (refused.messages[0]["status"], code_of(refused)) == (503, "overloaded")
    assert life.messages[0]["status"] == 200


def test_requests_that_come_in_one_instant_are_bounded_too(slow: tuple[FastAPI, Slow]) -> None:
    app, route = slow

    async def run() -> list[Caller]:
        async with app.router.lifespan_context(app):
            tasks, callers = zip(*[call(app, "/v1/slow") for _ in range(20)], strict=True)
            await asyncio.gather(*(caller.answered.wait() for caller in callers))
            route.gate.set()
            await asyncio.gather(*tasks)
        return list(callers)

    codes = list(map(code_of, asyncio.run(run())))

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


def test_key_of_a_refused_request_may_be_used_again(
    slow: tuple[FastAPI, Slow], hurried: Services, settings: Settings
) -> None:
    app, route = slow
    # However slow the machine is, the second request is in time.
    patient = build_app(settings, hurried)
    patient.add_api_route("/v1/slow", route.store, methods=["POST"])
    key = [(b"idempotency-key", b"late-1")]

    async def run() -> Caller:
        first = Caller()
        scope = {**scope_of("/v1/slow", "POST"), "headers": key, "http_version": "1.1"}
        task = asyncio.create_task(app(dict(scope), no_body, first.send))
        await first.answered.wait()
        route.gate.set()
        await task
        second = Caller()
        await patient(dict(scope), no_body, second.send)
        return second

    assert asyncio.run(run()).messages[0]["status"] == 200


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
        task, caller = call(app, "/v1/long")
        await caller.answered.wait()
        gate.set()
        await task
        return caller

    caller = asyncio.run(run())

    assert (caller.messages[0]["status"], code_of(caller)) == (503, "deadline_exceeded")
    assert ends == ["early"]
