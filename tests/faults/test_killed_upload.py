"""The service dies in the middle of an upload: nothing is lost, nothing is half-done."""

import contextlib
import http.client
import os
import signal
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support import patient_http
from tests.support.server import RunningProcess, running_service

pytestmark = pytest.mark.lengthy

_ROWS = 400
_CSV = "workload,duration_seconds,workers\n" + "".join(
    f"killed,{100 + row},{1 + row % 8}\n" for row in range(_ROWS)
)
_HEADERS = {"Content-Type": "text/csv", "Idempotency-Key": "upload-1"}


def _stored_runs(url: str) -> int:
    runs, token = 0, ""
    while True:
        query = {"page_size": "1000", **({"page_token": token} if token else {})}
        answer = patient_http.get(f"{url}/v1/workloads/killed/runs", params=query)
        if answer.status_code == httpx2.codes.NOT_FOUND:
            return 0
        page = answer.json()
        runs += len(page["runs"])
        token = page["next_page_token"]
        if not token:
            return runs


def _send(running: RunningProcess, *, share: float) -> http.client.HTTPConnection:
    """Send the first part of the upload without waiting for any answer."""
    body = _CSV.encode()
    address = urlsplit(running.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port)
    connection.putrequest("POST", "/v1/runs")
    for name, value in {**_HEADERS, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(body[: int(len(body) * share)])
    return connection


def _kill(running: RunningProcess) -> None:
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()


def test_half_an_upload_stores_nothing_and_its_retry_stores_all(database_url: str) -> None:
    with running_service(database_url) as running:
        connection = _send(running, share=0.5)
        _kill(running)
        connection.close()

    with running_service(database_url) as running:
        before = _stored_runs(running.url)
        answer = patient_http.post(f"{running.url}/v1/runs", content=_CSV, headers=_HEADERS)
        after = _stored_runs(running.url)

    assert before == 0
    assert answer.status_code == httpx2.codes.CREATED, answer.text
    assert answer.json()["created"] == _ROWS
    assert after == _ROWS


@pytest.mark.parametrize("patience_s", [0.0, 0.02, 0.05, 0.2])
def test_retry_after_a_kill_at_any_moment_stores_each_row_once(
    database_url: str, patience_s: float
) -> None:
    """Where the kill strikes differs from run to run; the outcome must not."""
    with running_service(database_url, idempotency_lock_s=0.5) as running:
        connection = _send(running, share=1.0)
        assert connection.sock is not None
        connection.sock.settimeout(patience_s or 1e-3)
        with contextlib.suppress(TimeoutError):
            connection.sock.recv(1)
        _kill(running)
        connection.close()

    with running_service(database_url) as running:
        assert _stored_runs(running.url) in {0, _ROWS}
        answer = patient_http.post(f"{running.url}/v1/runs", content=_CSV, headers=_HEADERS)

        assert answer.status_code == httpx2.codes.CREATED, answer.text
        assert answer.json()["created"] == _ROWS
        assert _stored_runs(running.url) == _ROWS
