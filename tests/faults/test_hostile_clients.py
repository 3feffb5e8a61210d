"""Clients that mean harm: small requests that unfold, and connections that never end."""

import re
import socket
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from app.services.wiring import Services
from tests.support import patient_http
from tests.support.regressors import publish_regressor
from tests.support.server import RunningProcess, running_service

pytestmark = pytest.mark.slow
_MEBIBYTE = 1 << 20
_EXPANDED_BYTES = 60 * _MEBIBYTE
_MAX_GROWTH_BYTES = 256 * _MEBIBYTE
_SLOW_CONNECTIONS = 200
_ROW = b'{"workload":"a","duration_seconds":3,"parameters":[' + b"{}," * 330_000 + b"{}]}"


class _Body(NamedTuple):
    """A body of many equal pieces, made in parts: whole ones would take gigabytes."""

    path: str
    start: bytes
    piece: bytes
    end: bytes
    n_bytes: int = _EXPANDED_BYTES

    def compressed(self) -> bytes:
        packer = zlib.compressobj(6, wbits=zlib.MAX_WBITS | 16)
        n_pieces, n_together = self.n_bytes // len(self.piece), -(-_MEBIBYTE // len(self.piece))
        block = self.piece * n_together
        parts = [packer.compress(self.start)]
        parts += [packer.compress(block) for _ in range(n_pieces // n_together)]
        parts += [packer.compress(self.piece * (n_pieces % n_together) + self.end), packer.flush()]
        return b"".join(parts)


_HOSTILE = {
    "objects of a batch": _Body("/v1/forecasts:batch", b'{"requests":[', b"{},", b"{}]}"),
    "lists of a ranking": _Body("/v1/schedules:rank", b'{"jobs":[', b"[],", b"[]]}"),
    "runs of a report": _Body("/v1/ci/reports", b'{"runs":[', b"{},", b"{}]}"),
    "numbers of a forecast": _Body("/v1/forecasts", b'{"parameters":[', b"1,", b"1]}"),
    "runs": _Body("/v1/runs", b"[", b"{},", b"{}]"),
    "runs full of objects": _Body("/v1/runs", b"[", _ROW + b",", _ROW + b"]"),
    "depth": _Body("/v1/forecasts", b"", b"[", b""),
    "cells of one line": _Body("/v1/runs", b"workload,duration_seconds\n", b",", b"\n"),
    "cells of many lines": _Body(
        "/v1/runs", b"workload,duration_seconds\n", b"," * 1_000_000 + b"\n", b""
    ),
    "beyond the limit": _Body("/v1/runs", b"", b"0", b"", 1 << 30),
}


@pytest.fixture
def service(services: Services, database_url: str) -> Iterator[RunningProcess]:
    publish_regressor(services, "known")
    with running_service(database_url) as running:
        yield running


def _peak_memory_bytes(running: RunningProcess) -> int:
    """Return the most bytes of memory that the process ever held."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_small_bodies_that_unfold_are_problems_in_little_memory(
    service: RunningProcess, subtests: pytest.Subtests
) -> None:
    patient_http.get(f"{service.url}/readyz")
    before_bytes = _peak_memory_bytes(service)

    for name, body in _HOSTILE.items():
        is_table = name.startswith("cells")
        headers = {
            "Content-Type": "text/csv" if is_table else "application/json",
            "Content-Encoding": "gzip",
        }
        answer = httpx2.post(
            service.url + body.path, content=body.compressed(), headers=headers, timeout=300
        )
        with subtests.test(name):
            assert answer.status_code in {413, 422, 503}, answer.text[:300]
            assert answer.headers["content-type"] == "application/problem+json"
            assert _peak_memory_bytes(service) - before_bytes < _MAX_GROWTH_BYTES

    assert patient_http.get(f"{service.url}/healthz").is_success


def test_slow_connections_leave_the_service_to_others(service: RunningProcess) -> None:
    url = httpx2.URL(service.url)
    question = {"workload": "known", "configuration": {"workers": 2}, "work": {"dataset_size": 9}}
    with ExitStack() as stack:
        for index in range(_SLOW_CONNECTIONS):
            connection = stack.enter_context(socket.create_connection((url.host, url.port or 80)))
            connection.sendall(b"POST /v1/forecasts HTTP/1.1\r\nHost: slow\r\n")
            if index % 2:
                connection.sendall(b"Content-Length: 9999\r\n\r\n{")

        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(
                    lambda _: patient_http.post(f"{service.url}/v1/forecasts", json=question),
                    range(20),
                )
            )

        assert {answer.status_code for answer in answers} == {200}
