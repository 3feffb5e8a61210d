"""Runs of coroutines: the loop of events goes on while they are uploaded, and none is lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from trainfare_client import ClientSettings, record

from client.tests.faulty import Answer, FaultyServer, faulty_server


def _settings(server: FaultyServer, folder: Path) -> ClientSettings:
    return ClientSettings(
        url=server.url, spool=folder / "spool.jsonl", attempts=1, first_pause_s=0, timeout_s=6
    )


def _spooled(settings: ClientSettings) -> list[dict[str, Any]]:
    return [json.loads(line) for line in settings.spool.read_text().splitlines()]


async def _train(settings: ClientSettings, form: str) -> str:
    options: dict[str, Any] = {"settings": settings, "quiet": True}

    @record("awaited", **options)
    async def train() -> str:
        return "trained"

    @record("awaited", **options)
    async def epochs() -> AsyncIterator[str]:
        yield "trained"

    if form == "coroutine":
        return await train()
    if form == "generator":
        (epoch,) = [epoch async for epoch in epochs()]
        return epoch
    async with record("awaited", **options) as run:
        run.step(samples=1)
    return "trained"


@pytest.mark.parametrize("form", ["coroutine", "generator", "block"])
def test_loop_goes_on_while_a_run_is_uploaded(tmp_path: Path, form: str) -> None:
    async def others(server: FaultyServer) -> None:
        training = asyncio.create_task(_train(_settings(server, tmp_path), form))
        await asyncio.to_thread(server.was_called.wait, 5)

        assert not training.done()
        server.stopped.set()
        assert await training == "trained"

    with faulty_server(Answer(silence=True)) as server:
        asyncio.run(others(server))

    assert len(server.requests) == 1
    assert not (tmp_path / "spool.jsonl").exists()


def test_run_of_a_task_that_is_cancelled_while_it_is_uploaded_is_kept(tmp_path: Path) -> None:
    async def cancel(server: FaultyServer, settings: ClientSettings) -> None:
        training = asyncio.create_task(_train(settings, "coroutine"))
        await asyncio.to_thread(server.was_called.wait, 5)
        training.cancel()
        with pytest.raises(asyncio.CancelledError):
            await training

    with faulty_server(Answer(silence=True)) as server:
        settings = _settings(server, tmp_path)
        asyncio.run(cancel(server, settings))

        (run,) = _spooled(settings)
        assert run["status"] == "succeeded"


def test_coroutine_that_no_loop_of_asyncio_runs_is_recorded(tmp_path: Path) -> None:
    with faulty_server(Answer()) as server:
        training = _train(_settings(server, tmp_path), "coroutine")
        with pytest.raises(StopIteration, match="trained"):
            training.send(None)

    assert len(server.requests) == 1


def test_coroutine_that_is_closed_is_recorded_as_cancelled(tmp_path: Path) -> None:
    async def close(settings: ClientSettings) -> None:
        @record("awaited", settings=settings, quiet=True)
        async def train() -> None:
            await asyncio.sleep(60)

        training = train()
        training.send(None)
        training.close()

    with faulty_server(Answer()) as server:
        asyncio.run(close(_settings(server, tmp_path)))

    assert b'"status":"cancelled"' in server.requests[0][3]
