"""A signal that comes while a run is delivered loses no run."""

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from trainfare_client import ClientSettings
from trainfare_client.collectors.delivering import Delivery
from trainfare_client.collectors.outcomes import EndWatch
from trainfare_client.collectors.recording import Recorder
from trainfare_client.errors import UndeliveredError
from trainfare_client.spool import FlushReport, Spool

from client.tests.faulty import Answer, FaultyServer, faulty_server, problem
from client.tests.runs import make_run

_TRAIN = """
    from trainfare_client import record
    with record("w"):
        pass
"""
_FAIL = """
    from trainfare_client.collectors.recording import Recorder
    recorder = Recorder("w", {})
    raise MemoryError
"""
_IMPATIENT = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has none
    from trainfare_client.collectors import recording
    recording._PREEMPTION_S = 0.0
"""
_OWN_HANDLER = """
    import signal, sys
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("saved"))
"""


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool.jsonl")


@pytest.fixture
def handler_kept() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def _settings(server: FaultyServer, folder: Path) -> ClientSettings:
    return ClientSettings(url=server.url, spool=folder / "spool.jsonl", attempts=1)


def _started(script: str, server: FaultyServer, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "TRAINFARE_URL": server.url,
            "TRAINFARE_SPOOL": str(folder / "spool.jsonl"),
            "PATH": "/usr/bin:/bin",
        },
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_run_whose_delivery_a_signal_ends_waits_in_the_spool(
    end: signal.Signals, tmp_path: Path, spool: Spool
) -> None:
    with (
        faulty_server(Answer(silence=True)) as server,
        _started(_IMPATIENT + _TRAIN, server, tmp_path) as process,
    ):
        server.was_called.wait()
        process.send_signal(end)
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == -end
    assert "the run waits in" in stderr
    assert spool.waiting() == 1


def test_users_own_handler_runs_after_the_run_is_safe(tmp_path: Path, spool: Spool) -> None:
    with (
        faulty_server(Answer(silence=True)) as server,
        _started(_IMPATIENT + _OWN_HANDLER + _TRAIN, server, tmp_path) as process,
    ):
        server.was_called.wait()
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == 1
    assert stderr.index("the run waits in") < stderr.index("saved")
    assert spool.waiting() == 1


@pytest.mark.parametrize("script", [_TRAIN, _FAIL], ids=["block", "exit"])
def test_signal_leaves_an_upload_the_time_that_it_takes(
    script: str, tmp_path: Path, spool: Spool
) -> None:
    with (
        faulty_server(Answer(silence=True)) as server,
        _started(script, server, tmp_path) as process,
    ):
        server.was_called.wait()
        process.send_signal(signal.SIGTERM)
        server.stopped.set()
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == -signal.SIGTERM
    assert "Trainfare: w took" in stderr
    assert spool.waiting() == 0


def test_run_that_arrives_after_all_leaves_the_spool(tmp_path: Path, spool: Spool) -> None:
    with faulty_server(Answer(silence=True)) as server:
        delivery = Delivery(make_run("w"), _settings(server, tmp_path))
        thread = threading.Thread(target=delivery.upload)
        thread.start()
        server.was_called.wait()

        sentence, spooled = delivery.hurry(0.0), spool.waiting()
        server.stopped.set()
        thread.join()
        delivery.settle()

    assert sentence is not None
    assert "has not answered; the run waits" in sentence
    assert (spooled, spool.waiting()) == (1, 0)


def test_run_that_was_told_of_is_not_hurried(tmp_path: Path, spool: Spool) -> None:
    with faulty_server(Answer()) as server:
        delivery = Delivery(make_run("w"), _settings(server, tmp_path))
        delivery.upload()
        delivery.settle()

        assert delivery.hurry(0.0) is None

    assert spool.waiting() == 0


def test_refused_run_that_was_hurried_stays_and_the_refusal_is_told(
    tmp_path: Path, spool: Spool
) -> None:
    refused = problem(401, "unauthenticated")
    with faulty_server(Answer(401, refused.body, refused.headers, silence=True)) as server:
        delivery = Delivery(make_run("w"), _settings(server, tmp_path))
        thread = threading.Thread(target=delivery.upload)
        thread.start()
        server.was_called.wait()
        delivery.hurry(0.0)
        server.stopped.set()
        thread.join()

        with pytest.raises(UndeliveredError):
            delivery.settle()

    assert spool.waiting() == 1


@pytest.mark.usefixtures("handler_kept")
def test_signal_before_the_run_is_made_records_it_once(tmp_path: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: None)
    readings = iter([0.0, 1.0])

    def clock() -> float:
        now = next(readings, None)
        if now == 1.0:
            signal.raise_signal(signal.SIGTERM)
        return now or 2.0

    settings = ClientSettings(spool=tmp_path / "spool.jsonl", offline=True)
    Recorder("w", {"settings": settings, "quiet": True}, clock=clock).finish("failed")
    (run,) = Spool(settings.spool).take(FlushReport()) or []

    assert run["status"] == "preempted"


@pytest.mark.usefixtures("handler_kept")
def test_signal_at_the_interpreters_end_waits_until_the_run_is_told() -> None:
    statuses: list[str] = []

    def tell(status: str) -> None:
        signal.raise_signal(signal.SIGTERM)
        statuses.append(status)

    signal.signal(signal.SIGTERM, lambda *_: statuses.append("user's"))
    watch = EndWatch(statuses.append, tell)
    watch.start()
    watch._at_exit()
    watch.stop()

    assert statuses == ["cancelled", "preempted", "user's"]


def test_spool_tells_a_run_that_stands_twice_once_and_gives_back_the_last(spool: Spool) -> None:
    run = make_run("w", external_id="a")
    spool.withdraw(run)
    spool.append([run])
    spool.append([run])
    waiting = spool.waiting()

    spool.withdraw(make_run("w", external_id="other"))
    spool.withdraw(run)
    spool.withdraw(run)
    spool.withdraw(run)

    assert (waiting, spool.waiting()) == (1, 0)
