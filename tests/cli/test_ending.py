"""A process ends by one signal: in order, or in the middle of what it waits for."""

import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import httpx2
import pytest

from app.cli.processes.ending import end_on_hangup, termination_event
from tests.support import patient_http
from tests.support.server import running_service, start_process
from tests.support.signals import handled

pytestmark = pytest.mark.lengthy

_WAITS_FOR_EVER = """
import threading
from app.cli.processes.ending import end_within, termination_event
with termination_event() as told:
    has_ended = end_within({seconds}, told)
    print("ready", flush=True)
    told.wait()
    print("told", flush=True)
    {then}
"""


def _end(seconds: float, then: str) -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _WAITS_FOR_EVER.format(seconds=seconds, then=then)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    told, _ = process.communicate(timeout=60)
    return process.returncode, told


def test_process_that_waits_for_ever_is_ended_in_the_middle() -> None:
    assert _end(0.1, "threading.Event().wait()") == (1, "told\n")


def test_process_that_ends_in_order_is_not_waited_for() -> None:
    assert _end(3600, "") == (0, "told\n")


def test_end_that_was_in_order_is_not_followed_by_another() -> None:
    then = "has_ended.set(); threading.Event().wait(0.5); print('alive')"

    assert _end(0.1, then) == (0, "told\nalive\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_as_before_afterwards(number: signal.Signals) -> None:
    with handled(number, signal.SIG_DFL):
        with termination_event() as told:
            signal.raise_signal(number)

        assert told.is_set()
        assert signal.getsignal(number) is signal.SIG_DFL


def test_terminal_that_is_closed_ends_nothing_that_ignores_it() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN), termination_event() as told:
        signal.raise_signal(signal.SIGHUP)

    assert not told.is_set()


@pytest.mark.parametrize(("handler", "ends"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_terminal_that_is_closed_ends_a_server_that_does_not_ignore_it(
    handler: signal.Handlers, *, ends: bool
) -> None:
    with handled(signal.SIGHUP, handler), termination_event() as told:
        # Of what is handled, a server handles this alone.
        signal.signal(signal.SIGHUP, handler)
        end_on_hangup()
        signal.raise_signal(signal.SIGHUP)

    assert told.is_set() is ends


@pytest.mark.parametrize("arguments", [[], ["--workers", "2"]])
def test_who_waits_for_a_fit_is_told_how_it_stands_when_the_service_ends(
    sqlite_url: str, arguments: list[str]
) -> None:
    runs = [{"workload": "resnet", "workers": n, "duration_seconds": 100 / n} for n in (1, 2, 4)]
    with (
        running_service(sqlite_url, *arguments) as service,
        ThreadPoolExecutor(1) as pool,
    ):
        fits = f"{service.url}/v1/workloads/resnet/fits"
        patient_http.post(f"{service.url}/v1/runs", json=runs).raise_for_status()
        # Nobody computes it: the caller would wait for a minute.
        waiting = pool.submit(httpx2.post, fits, headers={"Prefer": "wait=60"}, timeout=90)
        while not patient_http.get(fits).json()["fits"]:
            time.sleep(0.05)
        exit_code = service.end()
        answer = waiting.result()

    assert (answer.status_code, answer.json()["state"]) == (202, "queued")
    assert exit_code == 0
    assert "Traceback" not in "".join(service.lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_upload_under_way_is_stored_however_often_the_service_is_told_to_end(
    sqlite_url: str, number: signal.Signals
) -> None:
    body = b'[{"workload": "resnet", "duration_seconds": 1}]'
    head = b"POST /v1/runs HTTP/1.1\r\nHost: fare\r\nContent-Type: application/json\r\n"
    with handled(signal.SIGHUP, signal.SIG_DFL), running_service(sqlite_url) as service:
        url = urlsplit(service.url)
        address = str(url.hostname), int(url.port or 0)
        with socket.create_connection(address, timeout=30) as upload:
            upload.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:1])
            # An answer to another says that the first was read.
            patient_http.get(f"{service.url}/healthz")
            service.process.send_signal(number)
            _wait_until_closed(address)
            service.process.send_signal(number)
            upload.sendall(body[1:])
            answer = upload.makefile("rb").readline()
        exit_code = service.wait()

    assert answer == b"HTTP/1.1 201 Created\r\n"
    assert exit_code == 0
    assert "Traceback" not in "".join(service.lines)


def _wait_until_closed(address: tuple[str, int]) -> None:
    with suppress(ConnectionRefusedError, ConnectionResetError):
        while True:
            socket.create_connection(address, timeout=30).close()
            time.sleep(0.05)


def test_fitter_ends_by_one_signal(sqlite_url: str) -> None:
    fitter = start_process("fitter", database_url=sqlite_url)
    fitter.wait_for_line("fitter started")
    fitter.drain()

    assert fitter.end() == 0
    assert "fitter stopped" in "".join(fitter.lines)
