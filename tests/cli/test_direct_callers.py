"""The protocol answers nobody whom the application would not, and nothing that holds no more."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import TracerProvider

from app.api.shortcut.protocol import MAX_HEADS
from app.cli.processes.direct_protocol import is_compatible
from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.quotas import Limit
from app.main import build_app
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.connections import listening, read_answer
from tests.support.direct import (
    CLOSING,
    PLAIN,
    RECORDED,
    Direct,
    Stage,
    document_of,
    request,
    status_of,
)
from tests.support.regressors import fit


def anew(services: Services, tracing: TracerProvider | None = None, **changes: Any) -> Stage:
    """Return an application of other settings that knows nothing yet."""
    settings = services.context.settings.model_copy(update=changes)
    others = Services(replace(services.context, settings=settings))
    return Stage(build_app(settings, others, tracing), others)


def keyed(token: str) -> bytes:
    """Return a question of the holder of a key."""
    return request(None, f"authorization: Bearer {token}", record=False)


def headers_of(sent: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request as the parser tells them."""
    lines = sent.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]


def test_key_is_answered_by_the_protocol_until_it_is_revoked(
    stage: Stage, services: Services, clock: FakeClock
) -> None:
    key, token = services.access.create_key("ci", [Scope.READ])
    assert [status_of(answer) for answer in stage.exchange([keyed(token)] * 3)] == [200] * 3
    assert stage.n_direct == 2
    services.access.revoke_key(key.key_id)
    clock.advance(5)

    answers = stage.exchange([keyed(token)] * 2)

    assert [status_of(answer) for answer in answers] == [401, 401]
    assert stage.n_direct == 2


def test_key_is_answered_until_it_expires(
    stage: Stage, services: Services, clock: FakeClock
) -> None:
    _, token = services.access.create_key("ci", [Scope.READ], lifetime=timedelta(seconds=3))
    stage.exchange([keyed(token)] * 2)
    clock.advance(2)
    assert [status_of(answer) for answer in stage.exchange([keyed(token)] * 2)] == [200, 200]
    clock.advance(1)

    assert [status_of(answer) for answer in stage.exchange([keyed(token)] * 2)] == [401, 401]
    assert stage.n_direct == 2


@pytest.mark.parametrize(
    "odd",
    [
        keyed("key").replace(b"\r\n", b"\n"),
        keyed("key").replace(b"\r\n\r\n", b"\n\n"),
        keyed("key").replace(b"\r\n\r\n", b"\n\n\r\n\r\n"),
        keyed("key").partition(b"\r\n\r\n")[0],
        keyed("key").replace(b"host: x", b"host: x\r\n y"),
    ],
)
def test_head_whose_lines_are_not_its_headers_is_never_remembered(stage: Stage, odd: bytes) -> None:
    direct = stage.state["direct_answers"]
    headers = headers_of(keyed("key"))

    direct.learn(odd, headers)

    assert [direct.head_of(odd[:end]) for end in range(len(odd) + 1)] == [None] * (len(odd) + 1)
    direct.learn(keyed("key"), headers)
    assert direct.head_of(keyed("key")) is not None


def test_key_that_may_not_read_is_refused_each_time(stage: Stage, services: Services) -> None:
    _, token = services.access.create_key("writer", [Scope.RUNS_WRITE])

    assert [status_of(answer) for answer in stage.exchange([keyed(token)] * 3)] == [403] * 3
    assert stage.n_direct == 0


def test_another_project_is_not_answered_from_this_ones_memory(
    stage: Stage, services: Services
) -> None:
    _, token = services.access.create_key("b", [Scope.ADMIN], project="second")

    answers = stage.exchange([PLAIN, keyed(token), keyed(token), PLAIN])

    assert [status_of(answer) for answer in answers] == [200, 404, 404, 200]
    assert stage.n_direct == 2


def test_caller_that_is_counted_is_answered_by_the_application(
    stage: Stage, services: Services, clock: FakeClock
) -> None:
    services.projects.limit("default", {Limit.REQUESTS_PER_MINUTE: 3})
    clock.advance(5)
    _, token = services.access.create_key("ci", [Scope.READ])

    answers = stage.exchange([keyed(token)] * 4)

    assert [status_of(answer) for answer in answers] == [200, 200, 200, 429]
    assert b"ratelimit-remaining: 0\r\n" in answers[2]
    assert stage.n_direct == 0


def test_caller_without_a_key_is_refused_where_keys_are_required(
    stage: Stage, services: Services
) -> None:
    guarded = anew(services, require_keys=True)

    assert [status_of(answer) for answer in guarded.exchange([PLAIN] * 2)] == [401, 401]
    assert guarded.n_direct == 0


def test_new_version_answers_as_soon_as_it_is_known(
    stage: Stage, services: Services, clock: FakeClock
) -> None:
    assert document_of(stage.exchange([PLAIN])[0])["regressor_version"] == 1
    fit(services, "fitted")
    clock.advance(services.context.settings.regressor_refresh_s + 1)

    answers = stage.exchange([PLAIN] * 3)

    assert [document_of(answer)["regressor_version"] for answer in answers] == [2] * 3


def test_each_recorded_forecast_stands_in_the_ledger(stage: Stage, application: FastAPI) -> None:
    answers = [document_of(each) for each in stage.exchange([RECORDED] * 2)]

    with TestClient(application) as client:
        entries = [
            client.get(f"/v1/forecasts/{answer['forecast_id']}").json()["forecast"]
            for answer in answers
        ]

    assert entries == answers
    assert stage.n_direct == 2


def test_answers_of_the_protocol_are_counted(stage: Stage, application: FastAPI) -> None:
    def counted() -> list[float]:
        names = (
            'trainfare_http_requests_total{method="POST",route="/v1/forecasts",status="200"} ',
            "trainfare_direct_forecasts_total ",
            'trainfare_cache_hits_total{cache="bodies"} ',
        )
        lines = client.get("/metrics").text.splitlines()
        return [
            float(line.rpartition(" ")[2])
            for name in names
            for line in lines
            if line.startswith(name)
        ]

    with TestClient(application) as client:
        before = counted()
        stage.exchange([PLAIN] * 3)
        after = counted()

    assert [late - early for early, late in zip(before, after, strict=True)] == [3, 3, 3]


def test_answer_has_the_headers_that_the_server_has_by_then(stage: Stage) -> None:
    direct = stage.state["direct_answers"]
    early, late = [(b"date", b"early")], [(b"date", b"late"), (b"via", b"x")]
    started_at = time.perf_counter() - 0.5

    first, second, third = (
        direct.message(headers, b"{}", started_at) for headers in (early, early, late)
    )

    assert first.startswith(b"HTTP/1.1 200 OK\r\ndate: early\r\ncontent-length: 2\r\n")
    assert second.startswith(b"HTTP/1.1 200 OK\r\ndate: early\r\ncontent-length: 2\r\n")
    assert third.startswith(b"HTTP/1.1 200 OK\r\ndate: late\r\nvia: x\r\ncontent-length: 2\r\n")
    assert all(float(each.split(b"dur=")[1].split()[0]) >= 500 for each in (first, second, third))


def test_requests_that_are_logged_pass_the_application(stage: Stage) -> None:
    stage.send_pieces([PLAIN, CLOSING], access_log=True)

    assert stage.n_direct == 0


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("per_minute", [0, 10])
def test_protocol_answers_where_nothing_is_traced_or_counted(
    services: Services, *, is_traced: bool, per_minute: int
) -> None:
    tracing = TracerProvider() if is_traced else None
    changed = anew(services, tracing, rate_limit_per_minute=per_minute)

    async def start() -> bool:
        async with changed.application.router.lifespan_context(changed.application) as state:
            return "direct_answers" in (state or {})

    assert asyncio.run(start()) is not (is_traced or per_minute > 0)


def test_connection_whose_server_is_unknown_is_answered_by_the_application() -> None:
    assert not is_compatible(object())


def test_heads_are_forgotten_before_they_fill_the_memory(stage: Stage) -> None:
    direct = stage.state["direct_answers"]
    for number in range(2 * MAX_HEADS):
        head = request(b"", f"user-agent: {number}", length=7)
        direct.learn(head, headers_of(head))

    assert direct.head_of(request(b"", "user-agent: 0", length=7)) is None
    assert direct.head_of(request(b"", f"user-agent: {2 * MAX_HEADS - 1}", length=7)) is not None


@asynccontextmanager
async def received(stage: Stage, what: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, Direct]]:
    """Hand a request to a connection, within this turn of the loop."""
    async with listening(stage.application, Direct, stage.state) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        [taken] = await served.wait_for_connections(1)
        assert isinstance(taken, Direct)
        try:
            taken.data_received(what)
            yield reader, taken
        finally:
            writer.close()


def test_question_that_waits_is_answered_before_the_service_ends(stage: Stage) -> None:
    async def talk() -> bytes:
        async with received(stage, request(work={"dataset_size": 1500}, record=False)) as (
            reader,
            taken,
        ):
            taken.shutdown()
            return await reader.read()

    answer = asyncio.run(talk())

    assert status_of(answer) == 200
    assert b"connection: close" in answer
    assert stage.n_direct == 0


def test_service_that_ends_closes_a_connection_that_waits(stage: Stage) -> None:
    async def talk() -> bytes:
        async with received(stage, PLAIN) as (reader, taken):
            await read_answer(reader)
            taken.shutdown()
            return await reader.read()

    assert asyncio.run(talk()) == b""
    assert stage.n_direct == 1


def test_more_than_the_question_that_waits_is_read_by_the_application(stage: Stage) -> None:
    new = request(work={"dataset_size": 1600}, record=False)

    async def talk() -> list[bytes]:
        async with received(stage, new) as (reader, taken):
            taken.data_received(PLAIN)
            return [await read_answer(reader) for _ in range(2)]

    answers = asyncio.run(talk())

    sizes = [document_of(answer)["work"]["dataset_size"] for answer in answers]
    assert sizes == [1600, 1000]
    assert stage.n_direct == 0


def test_question_is_answered_after_the_request_before_it(stage: Stage) -> None:
    async def talk() -> list[bytes]:
        async with received(stage, request(b"", line="GET /v1/nothing HTTP/1.1")) as (
            reader,
            taken,
        ):
            taken.data_received(PLAIN)
            return [await read_answer(reader) for _ in range(2)]

    answers = asyncio.run(talk())

    assert [status_of(answer) for answer in answers] == [404, 200]


def test_body_that_looks_like_a_question_is_not_answered(stage: Stage) -> None:
    head = request(b"", line="POST /v1/nothing HTTP/1.1", length=len(PLAIN))

    async def talk() -> int:
        async with received(stage, head) as (reader, taken):
            status = status_of(await read_answer(reader))
            # The answer did not wait for the body.
            taken.data_received(PLAIN)
            return status

    assert asyncio.run(talk()) == 404
    assert stage.n_direct == 0


def test_caller_who_does_not_read_is_not_answered_further(stage: Stage) -> None:
    async def talk() -> tuple[int, int]:
        async with received(stage, PLAIN) as (reader, taken):
            await read_answer(reader)
            taken.pause_writing()
            taken.data_received(PLAIN)
            n_direct = stage.n_direct
            taken.resume_writing()
            return n_direct, status_of(await read_answer(reader))

    assert asyncio.run(talk()) == (1, 200)


def test_caller_who_leaves_while_a_question_waits_is_not_answered(stage: Stage) -> None:
    async def talk() -> None:
        new = request(work={"dataset_size": 1700}, record=False)
        async with received(stage, new) as (reader, taken):
            taken.transport.abort()
            with suppress(ConnectionError):
                await reader.read()

    asyncio.run(talk())

    assert stage.n_direct == 0


def test_connection_is_closed_when_nothing_more_is_asked(stage: Stage) -> None:
    async def talk() -> bool:
        async with received(stage, PLAIN) as (reader, taken):
            await read_answer(reader)
            taken.timeout_keep_alive_handler()
            was_open = not taken.transport.is_closing()
            taken.timeout_keep_alive = 0
            taken.timeout_keep_alive_handler()
            return was_open and await reader.read() == b""

    assert asyncio.run(talk())
    assert stage.n_direct == 1


class _Brief(Direct):
    """Keeps no connection open."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.timeout_keep_alive = 0


def test_connection_whose_answers_all_came_from_the_protocol_is_closed_in_time(
    stage: Stage,
) -> None:
    answer = stage.send_pieces([PLAIN], _Brief)

    assert status_of(answer) == 200
    assert stage.n_direct == 1


def test_connection_stays_open_while_a_question_waits(stage: Stage) -> None:
    async def talk() -> int:
        async with received(stage, request(work={"dataset_size": 1800}, record=False)) as (
            reader,
            taken,
        ):
            taken.timeout_keep_alive_handler()
            return status_of(await read_answer(reader))

    assert asyncio.run(talk()) == 200
    assert stage.n_direct == 1


def test_caller_is_not_let_in_before_the_database_was_asked(
    services: Services, stage: Stage
) -> None:
    direct = anew(services).state["direct_answers"]
    direct.learn(PLAIN, headers_of(PLAIN))
    head = direct.head_of(PLAIN)

    assert head is not None
    assert direct.project_of(head[0]) is None
    assert stage.state["direct_answers"].project_of(head[0]) == DEFAULT_PROJECT
