"""A POST with an Idempotency-Key runs once; its first answer comes again."""

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from app.domain.access import Scope
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.echo import Echo, echoing_client

_KEY = {"Idempotency-Key": "8e03978e-40d5-43e8-bc93-6894a57f9324"}


@pytest.fixture
def echoing(settings: Settings, services: Services) -> Iterator[tuple[TestClient, Echo]]:
    with echoing_client(settings, services) as echoing:
        yield echoing


@pytest.fixture
def client(echoing: tuple[TestClient, Echo]) -> TestClient:
    return echoing[0]


@pytest.fixture
def echo(echoing: tuple[TestClient, Echo]) -> Echo:
    return echoing[1]


def test_same_key_and_body_replay_the_first_answer(client: TestClient, echo: Echo) -> None:
    first = client.post("/v1/echo", content=b"rows", headers=_KEY)

    second = client.post("/v1/echo", content=b"rows", headers=_KEY)

    assert echo.calls == 1
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    for name in ("location", "content-type", "x-size", "content-length"):
        assert second.headers[name] == first.headers[name]


def test_without_the_key_every_request_runs(client: TestClient, echo: Echo) -> None:
    client.post("/v1/echo", content=b"rows")
    client.post("/v1/echo", content=b"rows")
    client.get("/v1/echo", headers=_KEY)

    assert echo.calls == 3


def test_compression_does_not_make_another_body(client: TestClient, echo: Echo) -> None:
    client.post("/v1/echo", content=b"rows", headers=_KEY)

    packed = gzip.compress(b"rows")
    repeated = client.post("/v1/echo", content=packed, headers={**_KEY, "Content-Encoding": "gzip"})

    assert repeated.headers["idempotent-replayed"] == "true"
    assert echo.calls == 1


@pytest.mark.parametrize(
    ("path", "content", "content_type"),
    [
        ("/v1/echo", b"other", "text/csv"),
        ("/v1/echo", b"rows", "application/json"),
        ("/v1/echo?dry_run=true", b"rows", "text/csv"),
    ],
)
def test_another_request_under_the_key_is_refused(
    client: TestClient, path: str, content: bytes, content_type: str
) -> None:
    client.post("/v1/echo", content=b"rows", headers={**_KEY, "Content-Type": "text/csv"})

    answer = client.post(path, content=content, headers={**_KEY, "Content-Type": content_type})

    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")


def test_other_paths_and_projects_have_their_own_keys(
    client: TestClient, echo: Echo, services: Services
) -> None:
    _, token = services.access.create_key("team", [Scope.ADMIN], project="team")

    client.post("/v1/echo", content=b"a", headers=_KEY)
    client.post("/v1/echo/other", content=b"b", headers=_KEY)
    client.post("/v1/echo", content=b"c", headers={**_KEY, "Authorization": f"Bearer {token}"})
    client.post("/v1/echo/" + "x" * 400, content=b"d", headers=_KEY)
    repeated = client.post("/v1/echo/" + "x" * 400, content=b"d", headers=_KEY)

    assert echo.calls == 4
    assert repeated.headers["idempotent-replayed"] == "true"


def test_large_bodies_pass_through_the_spool(client: TestClient, echo: Echo) -> None:
    body = bytes(3 << 20) + b"end"

    answer = client.post("/v1/echo", content=body, headers=_KEY)
    repeated = client.post("/v1/echo", content=body, headers=_KEY)

    assert answer.content == repeated.content == body
    assert echo.calls == 1


def test_first_answer_of_a_refusal_is_kept(client: TestClient, echo: Echo) -> None:
    echo.status = 409
    client.post("/v1/echo", content=b"rows", headers=_KEY)
    echo.status = 201

    repeated = client.post("/v1/echo", content=b"rows", headers=_KEY)

    assert repeated.status_code == 409
    assert echo.calls == 1


@pytest.mark.parametrize("status", [0, 403, 429, 500, 503])
def test_answers_that_a_retry_may_change_are_not_kept(
    client: TestClient, echo: Echo, status: int
) -> None:
    echo.status = status
    first = client.post("/v1/echo", content=b"rows", headers=_KEY)
    echo.status = 201

    repeated = client.post("/v1/echo", content=b"rows", headers=_KEY)

    assert first.status_code == (status or 500)
    assert repeated.status_code == 201
    assert "idempotent-replayed" not in repeated.headers


def test_retry_while_the_first_runs_is_in_progress(client: TestClient, echo: Echo) -> None:
    echo.gate.clear()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(client.post, "/v1/echo", content=b"rows", headers=_KEY)
        assert echo.entered.wait(10)
        retry = client.post("/v1/echo", content=b"rows", headers=_KEY)
        echo.gate.set()

        assert first.result().status_code == 201
    assert (retry.status_code, retry.json()["code"]) == (409, "in_progress")
    assert retry.headers["retry-after"]


def test_crashed_request_blocks_its_key_for_a_short_while_only(
    client: TestClient, echo: Echo, clock: FakeClock, database: Database, services: Services
) -> None:
    client.post("/v1/echo", content=b"rows", headers=_KEY)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE idempotency SET status = NULL")

    blocked = client.post("/v1/echo", content=b"rows", headers=_KEY)
    clock.advance(services.idempotency.lock_s + 1)
    retried = client.post("/v1/echo", content=b"rows", headers=_KEY)

    assert blocked.status_code == 409
    assert retried.status_code == 201
    assert echo.calls == 2


def test_answers_are_forgotten_after_a_day(
    client: TestClient, echo: Echo, clock: FakeClock
) -> None:
    client.post("/v1/echo", content=b"rows", headers=_KEY)
    clock.advance(25 * 3600)

    client.post("/v1/echo", content=b"other", headers=_KEY)

    assert echo.calls == 2


@pytest.mark.parametrize("key", ["", "k" * 256, "tab\there", "\u00fcml"])
def test_unusable_keys_are_invalid(client: TestClient, echo: Echo, key: str) -> None:
    headers = {b"Idempotency-Key": key.encode("latin-1")}

    answer = client.post("/v1/echo", content=b"rows", headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"
    assert echo.calls == 0


def test_refused_body_does_not_use_up_the_key(client: TestClient, echo: Echo) -> None:
    broken = client.post(
        "/v1/echo", content=b"nonsense", headers={**_KEY, "Content-Encoding": "gzip"}
    )
    mended = client.post("/v1/echo", content=b"rows", headers=_KEY)

    assert broken.status_code == 422
    assert mended.status_code == 201
    assert echo.calls == 1
