"""Answers of what stands before the service, or in its place."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from trainfare_client import AsyncClient, Client, ClientSettings, UnreachableError
from trainfare_client.errors import BadNameError, PayloadTooLargeError
from trainfare_client.spool import Spool

from client.tests.faulty import GOOD, Answer, faulty_server
from client.tests.runs import make_run

_JSON = {"Content-Type": "application/json"}
_MOVED = Answer(308, b"", {"Location": "https://elsewhere.example/v1/runs"})


def _settings(url: str, folder: Path) -> ClientSettings:
    return ClientSettings(url=url, spool=folder / "spool.jsonl", first_pause_s=0)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (_MOVED, "points to https://elsewhere.example/v1/runs"),
        (Answer(401, b"<html>"), "login page"),
        (Answer(503, b"<html>"), "try again later"),
        (Answer(200, b'{"status":"fine"}', _JSON), "not as Trainfare"),
        (Answer(200, b"no gzip", {"Content-Encoding": "gzip"}), "does not answer"),
    ],
)
def test_stranger_is_told_and_the_run_is_kept(answer: Answer, said: str, tmp_path: Path) -> None:
    with faulty_server(answer) as server:
        settings = _settings(server.url, tmp_path)
        with Client(settings=settings) as client:
            with pytest.raises(UnreachableError, match=said):
                client.runs.upload(make_run("w"))
            with pytest.raises(UnreachableError, match=said):
                list(client.workloads.all())
            answer_or_none = client.runs.upload_or_spool(make_run("w"))

    assert answer_or_none is None
    assert Spool(settings.spool).waiting() == 1


@pytest.mark.parametrize("answer", [_MOVED, Answer(200, b"<html>", {"Content-Type": "text/html"})])
def test_stranger_has_no_events(answer: Answer, tmp_path: Path) -> None:
    async def follow(settings: ClientSettings) -> list[Any]:
        async with AsyncClient(settings=settings) as client:
            return [fit async for fit in client.fits.events("fit_1")]

    with faulty_server(answer) as server, pytest.raises(UnreachableError, match="not as Trainfare"):
        asyncio.run(follow(_settings(server.url, tmp_path)))


def test_proxy_that_takes_no_large_bodies_is_named(tmp_path: Path) -> None:
    with (
        faulty_server(Answer(413, b"<html>")) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(PayloadTooLargeError, match="let the proxy take larger bodies"),
    ):
        client.runs.upload(make_run("w"))


def test_flush_halves_what_a_proxy_finds_too_large(tmp_path: Path) -> None:
    with faulty_server(Answer(413, b"<html>"), Answer(200, GOOD)) as server:
        settings = _settings(server.url, tmp_path)
        Spool(settings.spool).append([make_run("w", external_id=str(name)) for name in range(4)])
        with Client(settings=settings) as client:
            report = client.flush()
    sent = [
        [json.loads(line)["external_id"] for line in body.splitlines()]
        for _, _, _, body in server.requests
    ]

    assert sent == [["0", "1", "2", "3"], ["0", "1"], ["2", "3"]]
    assert (report.created, report.refused) == (2, [])


@pytest.mark.parametrize("name", ["", ".", "..", "w/runs", "/w"])
def test_name_that_leads_elsewhere_is_refused_before(name: str, tmp_path: Path) -> None:
    with (
        Client(settings=_settings("http://127.0.0.1:9", tmp_path)) as client,
        pytest.raises(BadNameError, match=re.escape(repr(name))),
    ):
        client.workloads.remove(name)
