"""Batches at once: their entries are bounded, and their memory is given back."""

import asyncio
import ctypes
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Message, Scope

from app.api.batches.room import BatchRoom, release_memory
from app.api.schemas.forecasts import MAX_BATCH
from app.domain.availability_errors import BatchesUnderWayError
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.regressors import publish_regressor

_ENTRIES = b'{"requests":[{},{},{},{}]}'
"""Five objects."""


@pytest.fixture
def narrow(database: Database, settings: Settings) -> FastAPI:
    changed = settings.model_copy(update={"max_batch_entries": 8})
    services = Services(ServiceContext(database, changed))
    publish_regressor(services)
    return build_app(changed, services)


def test_more_entries_than_there_is_room_for_are_refused(narrow: FastAPI) -> None:
    with TestClient(narrow) as client:
        with narrow.state.batch_room.reserve_for(_ENTRIES):
            refused = client.post("/v1/forecasts:batch", content=_ENTRIES)
            small = client.post("/v1/forecasts:batch", json={"requests": []})
        later = client.post("/v1/forecasts:batch", content=_ENTRIES)

    assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
    assert int(refused.headers["Retry-After"]) > 0
    assert "about 5 entries" in refused.json()["detail"]
    assert (small.status_code, later.status_code) == (200, 200)


def test_one_batch_is_answered_however_large_it_is(narrow: FastAPI) -> None:
    with TestClient(narrow) as client:
        answer = client.post("/v1/forecasts:batch", json={"requests": [{}] * 20})

    assert (answer.status_code, answer.json()["failed"]) == (200, 20)


def test_batch_counts_until_its_answer_is_sent(narrow: FastAPI) -> None:
    room: BatchRoom = narrow.state.batch_room
    seen: list[int] = []
    path = "/v1/forecasts:batch"
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "headers": [],
        "query_string": b"",
        "http_version": "1.1",
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": _ENTRIES, "more_body": False}

    async def send(_message: Message) -> None:
        seen.append(room._entries)

    asyncio.run(narrow(scope, receive, send))

    assert seen == [5, 5]
    assert room._entries == 0


def test_text_counts_as_no_more_entries_than_a_batch_may_have() -> None:
    room = BatchRoom(2 * MAX_BATCH)

    async def run() -> None:
        with ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(room.reserve_for(b"{" * (MAX_BATCH + 1)))
            with pytest.raises(BatchesUnderWayError):
                stack.enter_context(room.reserve_for(b"{"))

    asyncio.run(run())


@pytest.mark.parametrize("is_glibc", [False, True])
def test_memory_is_given_back_where_the_system_can_take_it(
    monkeypatch: pytest.MonkeyPatch, *, is_glibc: bool
) -> None:
    kept: list[int] = []
    functions = {"malloc_trim": kept.append} if is_glibc else {}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(**functions))

    release_memory()

    assert kept == [0] * is_glibc


def test_memory_is_given_back_when_no_large_batch_follows() -> None:
    async def run() -> int:
        loop, released = asyncio.get_running_loop(), asyncio.Event()
        calls = []

        def release() -> None:
            calls.append(1)
            release_memory()
            loop.call_soon_threadsafe(released.set)

        room = BatchRoom(MAX_BATCH, release, idle_s=0.0)
        for objects in (1_000, 1, 1_000):
            with room.reserve_for(b"{" * objects):
                pass
        await released.wait()
        with room.reserve_for(b"{"):
            pass
        assert room._timer is None
        return len(calls)

    assert asyncio.run(run()) == 1
