"""Runs that wait for the service."""

import asyncio
import json
import multiprocessing
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from trainfare_client import AsyncClient, Client, ClientSettings, UnreachableError
from trainfare_client.categories import numbers_sent_as_text
from trainfare_client.errors import InProgressError, ServiceFailedError, SpoolError
from trainfare_client.spool import FlushReport, Spool

from client.tests.faulty import Answer, faulty_server, problem
from client.tests.runs import make_run

_CLOSED = "http://127.0.0.1:9"
"""The port of the discard service: nothing listens there."""


def _away(file: Path) -> ClientSettings:
    return ClientSettings(url=_CLOSED, spool=file, attempts=2, first_pause_s=0)


def _append(file: Path, worker: int) -> None:
    for number in range(20):
        Spool(file).append([make_run("crowd", external_id=f"{worker}-{number}")])


def test_runs_wait_in_the_spool_and_arrive_once(settings: ClientSettings, workload: str) -> None:
    with Client(settings=_away(settings.spool)) as client:
        answer = client.runs.upload_or_spool([make_run(workload), make_run(workload)])
    with Client(settings=settings) as client:
        waiting = Spool(settings.spool).waiting()
        first, second = client.flush(), client.flush()
        arrived = list(client.runs.all(workload))

    assert answer is None
    assert waiting == 2
    assert (first.created, first.duplicates, second.created) == (2, 0, 0)
    assert len(arrived) == 2
    assert Spool(settings.spool).waiting() == 0


@pytest.mark.parametrize(
    "own",
    [
        {"run_id": "mine", "duration_seconds": 30},
        {"started_at": "2026-11-01T10:00:00Z", "ended_at": "2026-11-01T10:00:30Z"},
    ],
)
def test_runs_wait_in_every_form_that_is_accepted(
    own: dict[str, Any], settings: ClientSettings, workload: str
) -> None:
    run: Any = {"workload": workload, **own}
    with Client(settings=_away(settings.spool)) as client:
        client.runs.upload_or_spool(run)
    with Client(settings=settings) as client:
        report = client.flush()
        (arrived,) = client.runs.all(workload)

    assert (report.created, report.refused, report.unreadable) == (1, [], 0)
    assert arrived["duration_seconds"] == 30
    assert arrived["external_id"] == own.get("run_id", arrived["external_id"])


def test_asynchronous_client_spools_and_flushes_alike(
    settings: ClientSettings, workload: str
) -> None:
    async def spool_and_flush() -> tuple[object, FlushReport]:
        async with AsyncClient(settings=_away(settings.spool)) as away:
            answer = await away.runs.upload_or_spool(make_run(workload))
        async with AsyncClient(settings=settings) as client:
            return answer, await client.flush()

    answer, report = asyncio.run(spool_and_flush())

    assert answer is None
    assert report.created == 1


def test_flush_that_died_is_repeated_without_storing_twice(
    settings: ClientSettings, client: Client, workload: str
) -> None:
    run = make_run(workload, external_id="once")
    Spool(settings.spool).append([run])
    Spool(settings.spool).take(FlushReport())
    client.runs.upload(run)
    Spool(settings.spool).append([make_run(workload, external_id="later")])

    report = client.flush()

    assert (report.created, report.duplicates) == (1, 1)
    assert len(list(client.runs.all(workload))) == 2


def test_line_cut_by_a_crash_loses_no_other_run(
    settings: ClientSettings, client: Client, workload: str
) -> None:
    spool = Spool(settings.spool)
    spool.append([make_run(workload)])
    with settings.spool.open("ab") as stream:
        stream.write(b'{"workload": "cut in the mid')
    spool.append([make_run(workload, external_id="after")])

    report = client.flush()

    beside = settings.spool.with_suffix(".rejected.jsonl").read_text()

    assert (report.created, report.unreadable) == (2, 1)
    assert json.loads(beside)["line"] == '{"workload": "cut in the mid'


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400"])
def test_number_without_an_end_keeps_no_other_run_waiting(
    settings: ClientSettings, client: Client, workload: str, number: str
) -> None:
    Spool(settings.spool).append([make_run(workload)])
    with settings.spool.open("a") as stream:
        stream.write(f'{{"workload": "{workload}", "duration_seconds": {number}}}\n')

    report = client.flush()

    assert (report.created, report.unreadable) == (1, 1)
    assert Spool(settings.spool).waiting() == 0


_README = b"""# Runs

Each line is a run:

{"workload": "cnn", "duration_seconds": 12.5}
{"workload": "cnn", "duration_seconds": 12.5}

Upload them.
They count.
"""


@pytest.mark.parametrize(
    "content",
    [
        b"workload,duration_seconds\nw,1\n",
        b"\xff\xfe{\x00",
        b"[]",
        b'{\n  "url": "https://here.example",\n  "workload": {"a": 1}\n}\n',
        b'{"url": "https://here.example", "workload": "cnn"}\n',
        b'[\n{"a": 1},\n{"a": 2},\n{"a": 3}\n]\n',
        b'{"reason": "bad", "run": {"workload": "w", "duration_seconds": -1}}\n',
        _README,
    ],
)
def test_file_of_something_else_is_no_spool_and_stays(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    file.write_bytes(content)

    with Client(settings=_away(file)) as client, pytest.raises(SpoolError, match="is not a spool"):
        client.flush()

    assert file.read_bytes() == content


def test_spool_with_more_cut_lines_than_runs_is_one(
    settings: ClientSettings, client: Client, workload: str
) -> None:
    spool = Spool(settings.spool)
    settings.spool.write_bytes(b'{"workload": "cut"\n{"workload": "c\n{"work\n')
    spool.append([make_run(workload)])

    report = client.flush()

    assert (report.created, report.unreadable) == (1, 3)


def test_folder_is_no_spool_and_stays(tmp_path: Path) -> None:
    with Client(settings=_away(tmp_path)) as client, pytest.raises(SpoolError):
        client.flush()

    assert tmp_path.is_dir()


def test_refused_run_holds_up_no_other(
    settings: ClientSettings, client: Client, workload: str
) -> None:
    bad = make_run(workload, external_id="bad") | {"duration_seconds": -1.0}
    Spool(settings.spool).append([bad, make_run(workload, external_id="good")])

    report = client.flush()
    beside = settings.spool.with_suffix(".rejected.jsonl").read_text()

    assert report.created == 1
    assert "duration_seconds" in report.refused[0]
    assert json.loads(beside)["run"]["external_id"] == "bad"


def test_flushed_numbers_of_categories_are_sent_as_text(
    settings: ClientSettings, client: Client, workload: str
) -> None:
    client.runs.upload(make_run(workload, parameters={"size": "auto", "depth": "18"}))
    nested = make_run(workload, external_id="a", parameters={"size": 64, "depth": 50, "rate": 1})
    flat = {**make_run(workload, external_id="b"), "param.size": 1.0, "param.rate": 2}
    bad = make_run(workload, external_id="c", parameters={"size": 64, "rate": "low"})
    Spool(settings.spool).append([nested, flat, bad])  # type: ignore[list-item] # flat is as good

    report = client.flush()
    stored = {run["external_id"]: run["parameters"] for run in client.runs.all(workload)}

    assert (report.created, len(report.refused)) == (2, 1)
    assert stored["a"] == {"size": "64", "depth": "50", "rate": 1}
    assert stored["b"] == {"size": "1.0", "rate": 2}
    told = [text for answer in report.answers for text in numbers_sent_as_text(answer)]
    assert "Numbers of categories were sent as text: param.size." in told
    (rejected,) = settings.spool.with_suffix(".rejected.jsonl").read_text().splitlines()
    assert json.loads(rejected)["run"] == bad


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(500, "internal"), ServiceFailedError),
        (Answer(200, b"?"), UnreachableError),
        (problem(409, "in_progress"), InProgressError),
    ],
)
def test_runs_stay_while_the_service_fails(
    answer: Answer, error: type[Exception], tmp_path: Path
) -> None:
    file = tmp_path / "spool.jsonl"
    Spool(file).append([make_run("w")])

    with faulty_server(answer) as server:
        settings = ClientSettings(url=server.url, spool=file, first_pause_s=0)
        with Client(settings=settings) as client, pytest.raises(error):
            client.flush()

    assert Spool(file).waiting() == 1


def test_runs_whose_upload_is_still_worked_on_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "spool.jsonl"

    async def keep(url: str) -> object:
        settings = ClientSettings(url=url, spool=file, attempts=2, first_pause_s=0)
        async with AsyncClient(settings=settings) as client:
            return await client.runs.upload_or_spool(make_run("w"))

    with faulty_server(problem(409, "in_progress")) as server:
        settings = ClientSettings(url=server.url, spool=file, attempts=2, first_pause_s=0)
        with Client(settings=settings) as client:
            answer = client.runs.upload_or_spool(make_run("w"))
        kept_too = asyncio.run(keep(server.url))

    assert (answer, kept_too) == (None, None)
    assert Spool(file).waiting() == 2


def test_spool_that_another_process_flushes_is_told_to_be_in_use(tmp_path: Path) -> None:
    file = tmp_path / "spool.jsonl"

    with (
        Spool(file).flushing(),
        pytest.raises(SpoolError, match=r"is in use.*Try again"),
        Spool(file, patience_s=0).flushing(),
    ):
        pytest.fail("two processes flush at once")


def test_many_processes_append_without_harm(tmp_path: Path) -> None:
    file = tmp_path / "spool.jsonl"
    context = multiprocessing.get_context("spawn")
    crowd = [context.Process(target=_append, args=(file, worker)) for worker in range(3)]

    for process in crowd:
        process.start()
    for process in crowd:
        process.join()

    assert Spool(file).waiting() == 60


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_full_disk_is_told(tmp_path: Path) -> None:
    file = tmp_path / "spool.jsonl"
    file.symlink_to("/dev/full")

    with pytest.raises(SpoolError, match="Free disk space"):
        Spool(file).append([make_run("w")])


# From Python 3.12 on, a thread that another test left behind is reason to warn.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    file = tmp_path / "spool.jsonl"
    Spool(file).append([make_run("w")])
    before = file.read_bytes()

    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, len(before) + 20))
        try:
            Spool(file).append([make_run("w")])
        except SpoolError:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    assert file.read_bytes() == before
