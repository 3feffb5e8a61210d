"""The protocol answers nobody whom the application would not, and nothing that holds no more."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import TracerProvider

from app.api.encoded.cache import MAX_BODY_BYTES
from app.api.shortcut.protocol import MAX_HEADS
from app.cli.processes.direct_protocol import is_compatible
from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.quotas import Limit
from app.main import build_app
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.direct import (
    CLOSING,
    PLAIN,
    RECORDED,
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


def test_name_that_others_can_give_this_machine_is_refused_each_time(stage: Stage) -> None:
    foreign = PLAIN.replace(b"host: x", b"host: fare.example:8000")

    answers = [*stage.exchange([foreign] * 3), *stage.exchange([PLAIN] * 2)]

    assert [status_of(answer) for answer in answers] == [403] * 3 + [200] * 2
    assert document_of(answers[0])["code"] == "forbidden"
    assert stage.n_direct == 2
    assert stage.state["direct_answers"].head_of(foreign) is None


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


@pytest.mark.parametrize("excess", [0, 1])
def test_head_that_is_too_long_or_before_a_long_body_is_not_remembered(
    stage: Stage, excess: int
) -> None:
    direct = stage.state["direct_answers"]
    short = request(b"", "user-agent: ", length=7)
    long = request(b"", "user-agent: ".ljust(12 + 2048 - len(short) + excess, "a"), length=7)
    before_long = request(b"", length=MAX_BODY_BYTES + excess)

    for head in (long, before_long):
        direct.learn(head, headers_of(head))

    assert len(long) == 2048 + excess
    assert [direct.head_of(head) is None for head in (long, before_long)] == [excess > 0] * 2


@pytest.mark.parametrize(
    ("head", "is_remembered"),
    [
        (request(b"", "accept: */*", "user-agent: a", "authorization: key"), True),
        (request(b"", "accept: application/json", "accept-encoding: gzip"), True),
        (request(b"", "accept: text/plain"), False),
        (request(b"", "accept: */*", "accept: text/plain"), False),
        (request(b"", "accept: text/plain", "accept: */*"), False),
        (request(b"", "content-type: application/json"), False),
        (request(b"", "x-request-id: mine"), False),
        (request(b"", "idempotency-key: mine"), False),
        (request(b"", "transfer-encoding: chunked"), False),
        (request(b"", "content-length: 0"), False),
        (request(b"", length=-1), False),
        (request(b"", "content-length: +2", length=-1), False),
        (request(b"", line="POST /v1/recommendations HTTP/1.1"), False),
        (request(b"", line="POST /v1/forecasts:batch HTTP/1.1"), False),
        (request(b"", line="POST /v1/forecasts HTTP/1.0"), False),
    ],
)
def test_head_is_remembered_if_all_that_it_says_is_known(
    stage: Stage, head: bytes, *, is_remembered: bool
) -> None:
    direct = stage.state["direct_answers"]

    direct.learn(head, headers_of(head))

    assert (direct.head_of(head) is not None) is is_remembered


def test_all_heads_are_forgotten_when_there_are_too_many(services: Services) -> None:
    direct = anew(services).state["direct_answers"]
    first, *heads = (request(b"", f"user-agent: {number}") for number in range(MAX_HEADS + 1))
    for head in (first, *heads[:-1]):
        direct.learn(head, headers_of(head))
    assert direct.head_of(first) is not None

    direct.learn(heads[-1], headers_of(heads[-1]))

    assert direct.head_of(first) is None
    assert direct.head_of(heads[-1]) is not None


def test_heads_are_forgotten_before_they_fill_the_memory(stage: Stage) -> None:
    direct = stage.state["direct_answers"]
    for number in range(2 * MAX_HEADS):
        head = request(b"", f"user-agent: {number}", length=7)
        direct.learn(head, headers_of(head))

    assert direct.head_of(request(b"", "user-agent: 0", length=7)) is None
    assert direct.head_of(request(b"", f"user-agent: {2 * MAX_HEADS - 1}", length=7)) is not None


def test_caller_is_not_let_in_before_the_database_was_asked(
    services: Services, stage: Stage
) -> None:
    direct = anew(services).state["direct_answers"]
    direct.learn(PLAIN, headers_of(PLAIN))
    head = direct.head_of(PLAIN)

    assert head is not None
    assert direct.project_of(head[0]) is None
    assert stage.state["direct_answers"].project_of(head[0]) == DEFAULT_PROJECT
