"""Waiting for fits that do not succeed, following what is not there, and uploading files."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from trainfare_client import AsyncClient, Client, ClientSettings, UnreachableError
from trainfare_client.errors import (
    AuthenticationError,
    FitFailedError,
    FitTimeoutError,
    NotFoundError,
    RunConflictError,
    UploadFileError,
)

from client.tests.faulty import Answer, faulty_server, problem
from client.tests.runs import make_profile

_RUNNING = b'{"fit_id":"fit_1","state":"running","progress":0.5}'
_CANCELLED = b'{"fit_id":"fit_1","state":"cancelled","progress":0.5,"problem":null}'


def _settings(url: str, attempts: int = 2) -> ClientSettings:
    return ClientSettings(url=url, spool=Path("unused.jsonl"), first_pause_s=0, attempts=attempts)


@pytest.mark.parametrize(
    ("body", "error"), [(_RUNNING, FitTimeoutError), (_CANCELLED, FitFailedError)]
)
def test_wait_ends_without_success(body: bytes, error: type[Exception]) -> None:
    async def wait(url: str) -> None:
        async with AsyncClient(settings=_settings(url)) as client:
            await client.fits.wait("fit_1", timeout_s=0)

    with faulty_server(Answer(200, body)) as server:
        with Client(settings=_settings(server.url)) as client, pytest.raises(error):
            client.fits.wait("fit_1", timeout_s=0)
        with pytest.raises(error):
            asyncio.run(wait(server.url))


_ASKED = {"time_budget_s": 60.0, "seed": 0, "regressors": None, "publish": "auto",
          "runs_since": None}  # fmt: skip


def _fit(fit_id: str, state: str, status: int = 200, **request: object) -> Answer:
    fit = {"fit_id": fit_id, "state": state, "progress": 0.5, "request": {**_ASKED, **request}}
    return Answer(status, json.dumps({**fit, "problem": None}).encode())


@pytest.mark.parametrize(
    ("active", "options"),
    [
        # It began before the last run was stored, perhaps.
        (_fit("fit_1", "running"), {}),
        (_fit("fit_1", "queued", publish="never"), {}),
        (_fit("fit_1", "queued"), {"seed": 1}),
        (_fit("fit_1", "queued"), {"time_budget_s": 5.0, "seed": None}),
        # The service may write an option otherwise than it was given.
        (_fit("fit_1", "queued", regressors=["trees"]), {"regressors": ["trees", "trees"]}),
    ],
)
@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_fit_that_is_not_as_asked_is_followed_by_another(
    active: Answer, options: dict[str, Any], end: str
) -> None:
    answers = [_fit("fit_1", end), _fit("fit_2", "queued", 202), _fit("fit_2", "succeeded")]

    with (
        faulty_server(active, *answers) as server,
        Client(settings=_settings(server.url)) as client,
    ):
        assert client.fits.run("resnet", **options)["fit_id"] == "fit_2"

    asked = [(method, path) for method, path, *_ in server.requests]
    keys = [headers.get("Idempotency-Key") for _, _, headers, _ in server.requests]
    fits = ("POST", "/v1/workloads/resnet/fits")
    assert keys[0] != keys[2]  # or the first answer would be repeated
    assert asked == [fits, ("GET", "/v1/fits/fit_1"), fits, ("GET", "/v1/fits/fit_2")]


def test_fit_is_waited_for_while_it_runs() -> None:
    answers = [_fit("fit_1", "queued", 202), _fit("fit_1", "running"), _fit("fit_1", "succeeded")]

    with faulty_server(*answers) as server, Client(settings=_settings(server.url)) as client:
        assert client.fits.run("resnet")["state"] == "succeeded"

    assert len(server.requests) == 3


def test_own_fit_that_fails_is_told() -> None:
    waiting, failed = _fit("fit_1", "queued", seed=1), _fit("fit_1", "failed", seed=1)

    async def run(url: str) -> None:
        async with AsyncClient(settings=_settings(url)) as client:
            await client.fits.run("resnet", seed=1)

    with faulty_server(waiting, failed) as server, pytest.raises(FitFailedError):
        asyncio.run(run(server.url))
    assert len(server.requests) == 2


def test_events_of_no_fit_are_refused(settings: ClientSettings) -> None:
    async def follow() -> None:
        async with AsyncClient(settings=settings) as client:
            async for _ in client.fits.events("fit_none"):
                """Nothing comes."""

    with Client(settings=settings) as client, pytest.raises(NotFoundError):
        list(client.fits.events("fit_none"))
    with pytest.raises(NotFoundError):
        asyncio.run(follow())


_STREAM = {"Content-Type": "text/event-stream"}


def _event(state: str, progress: float) -> bytes:
    fit = {"fit_id": "fit_1", "state": state, "progress": progress}
    return f"data: {json.dumps(fit)}\n\n".encode()


def test_events_go_on_where_the_stream_broke() -> None:
    begun, half = _event("running", 0.1), _event("running", 0.5)
    script = [
        Answer(200, begun, _STREAM),
        problem(503, "overloaded"),
        Answer(200, begun + half + b"data: {", _STREAM),
        Answer(200, _event("succeeded", 1), _STREAM),
    ]

    async def follow(url: str) -> list[float]:
        async with AsyncClient(settings=_settings(url, 3)) as client:
            return [fit["progress"] async for fit in client.fits.events("fit_1")]

    with faulty_server(*script) as server, Client(settings=_settings(server.url, 3)) as client:
        assert [fit["progress"] for fit in client.fits.events("fit_1")] == [0.1, 0.5, 1]
        assert len(server.requests) == 4
    with faulty_server(*script) as server:
        assert asyncio.run(follow(server.url)) == [0.1, 0.5, 1]


def test_events_of_a_key_that_was_revoked_end_with_the_refusal() -> None:
    script = [Answer(200, _event("running", 0.1), _STREAM), problem(401, "unauthorized")]

    with (
        faulty_server(*script) as server,
        Client(settings=_settings(server.url)) as client,
        pytest.raises(AuthenticationError),
    ):
        list(client.fits.events("fit_1"))


def test_stream_that_never_tells_anything_is_given_up() -> None:
    with (
        faulty_server(Answer(200, b": ping\n\n", _STREAM)) as server,
        Client(settings=_settings(server.url)) as client,
    ):
        with pytest.raises(UnreachableError, match="The stream ended too early"):
            list(client.fits.events("fit_1"))
        assert len(server.requests) == 2


def test_events_of_a_service_that_is_away_are_told() -> None:
    settings = _settings("http://127.0.0.1:9")

    async def follow() -> None:
        async with AsyncClient(settings=settings) as client:
            async for _ in client.fits.events("fit_1"):
                """Nothing comes."""

    with Client(settings=settings) as client, pytest.raises(UnreachableError):
        list(client.fits.events("fit_1"))
    with pytest.raises(UnreachableError):
        asyncio.run(follow())


def test_refused_runs_are_kept_by_the_asynchronous_flush_too(
    settings: ClientSettings, workload: str
) -> None:
    async def tell() -> int:
        async with AsyncClient(settings=settings) as client:
            away = ClientSettings(url="http://127.0.0.1:9", spool=settings.spool, attempts=1)
            async with AsyncClient(settings=away) as missing:
                runs = make_profile(workload)
                await missing.runs.upload_or_spool([runs[0], {**runs[1], "duration_seconds": -1}])
            return len((await client.flush()).refused)

    assert asyncio.run(tell()) == 1


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["runs.xlsx", "missing.csv"])
def test_file_that_cannot_be_uploaded_is_told(name: str, client: Client, tmp_path: Path) -> None:
    with pytest.raises(UploadFileError):
        client.runs.upload_file(tmp_path / name)


def test_compressed_file_says_its_encoding(client: Client, tmp_path: Path, workload: str) -> None:
    file = tmp_path / "runs.csv.gz"
    text = f"workload,external_id,duration_seconds\n{workload},r1,5\n"
    file.write_bytes(gzip.compress(text.encode()))

    first, again = client.runs.upload_file(file), client.runs.upload_file(file)

    assert (first["created"], first["duplicates"]) == (1, 0)
    assert (again["created"], again["duplicates"]) == (0, 1)


def test_file_is_stored_again_once_its_runs_were_removed(
    client: Client, tmp_path: Path, workload: str
) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(f"workload,external_id,duration_seconds\n{workload},r1,5\n")
    client.runs.upload_file(file)
    for run in list(client.runs.all(workload)):
        client.runs.remove(run["run_id"])

    again = client.runs.upload_file(file)

    assert again["created"] == len(list(client.runs.all(workload))) == 1


def test_mended_conflict_is_taken_at_the_next_call(
    client: Client, tmp_path: Path, workload: str
) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(f"workload,external_id,duration_seconds\n{workload},r1,5\n")
    client.runs.upload({"workload": workload, "external_id": "r1", "duration_seconds": 9})
    with pytest.raises(RunConflictError):
        client.runs.upload_file(file)
    for run in list(client.runs.all(workload)):
        client.runs.remove(run["run_id"])

    assert client.runs.upload_file(file)["created"] == 1
