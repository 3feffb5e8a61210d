"""What commands say: refused fields, faults, retries."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from app.cli.failures import UsageError
from app.cli.fields import recommendation_request
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy


def test_recommendation_request_sorts_flat_fields_into_its_parts() -> None:
    fields = {"epochs": "3", "param.precision": "fp16", "param.depth": "0.5", "workers": "1,2",
              "gpu_type": "T4,V100-16GB", "price_per_hour": "1.20"}  # fmt: skip

    assert recommendation_request("w", fields) == {
        "workload": "w",
        "work": {"epochs": 3},
        "parameters": {"precision": "fp16", "depth": "0.5"},
        "search": {"workers": [1, 2], "gpu_types": ["T4", "V100-16GB"]},
        "pricing": {"price_per_hour": "1.20"},
    }
    with pytest.raises(UsageError, match="colour"):
        recommendation_request("w", {"colour": "red"})


def test_recommendation_takes_what_its_answers_advise_to_say() -> None:
    fields = {"confidence": "0.5", "checkpoint_interval_s": "600", "watts_per_worker": "70"}

    assert recommendation_request("w", fields) == {
        "workload": "w",
        "confidence": 0.5,
        "pricing": {"spot": {"checkpoint_interval_s": 600}},
        "energy": {"watts_per_worker": 70},
    }


@pytest.mark.parametrize(
    ("field", "meant"),
    [("wrokers", "workers"), ("deadline_s", "--deadline"), ("budgt", "--budget")],
)
def test_misspelt_field_is_refused_with_the_nearest(field: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        recommendation_request("w", {field: "1"})

    assert caught.value.remedy.startswith(f"Did you mean {meant}? Known: gpu_type, ")


@contextmanager
def _answering(*answers: tuple[int, Any], retry_after_s: int = 0) -> Iterator[str]:
    """Yield the address of a service that gives these answers one after the other."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, document = left.pop(0)
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/problem+json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Retry-After", str(retry_after_s))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - http.server's names

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


_AWAY = {
    "title": "Database unavailable", "status": 503, "code": "database_unavailable",
    "detail": "The database does not answer.", "remedy": "Retry.",
}  # fmt: skip
_NONE: dict[str, Any] = {"workloads": [], "next_page_token": None}


def test_service_that_recovers_is_waited_for(terminal: Terminal) -> None:
    with _answering((503, _AWAY), (503, _AWAY), (200, _NONE)) as url:
        result = terminal.type("workloads", "--url", url)

    assert result.exit_code == 0
    assert result.err.count("trying again") == 1


def test_service_that_stays_away_is_told_by_its_problem(terminal: Terminal) -> None:
    with _answering(*[(503, _AWAY)] * 4) as url:
        result = terminal.type("workloads", "--url", url)

    assert result.exit_code == 1
    assert "database_unavailable" in result.err


_LIMITED = {
    "title": "Rate limit exceeded", "status": 429, "code": "quota_exceeded",
    "detail": "The rate limit is exhausted.", "remedy": "Wait as long as Retry-After says.",
}  # fmt: skip


def test_pause_that_the_service_asks_for_is_told_and_kept(terminal: Terminal) -> None:
    began = time.monotonic()
    with _answering((429, _LIMITED), (200, _NONE), retry_after_s=3) as url:
        result = terminal.type("workloads", "--url", url)

    assert result.exit_code == 0
    assert "No answer yet (status 429); trying again in 3 s." in result.err
    assert time.monotonic() - began >= 3


def test_pause_of_hours_is_told_and_not_waited_for(terminal: Terminal) -> None:
    with _answering((429, _LIMITED), retry_after_s=7200) as url:
        result = terminal.type("workloads", "--url", url)

    assert result.exit_code == 1
    assert "trying again" not in result.err
    assert "Remedy: Try again in 2 h." in result.err


def test_lists_are_read_page_after_page(terminal: Terminal) -> None:
    def workload(name: str) -> dict[str, Any]:
        return {"workload": name, "runs": {"succeeded": 2, "failed": 1}, "published_version": None,
                "dataset_unit": "rows", "description": ""}  # fmt: skip

    first = {"workloads": [workload("a")], "next_page_token": "more"}
    second = {"workloads": [workload("b")], "next_page_token": None}
    with _answering((200, first), (200, second), (200, first), (200, second)) as url:
        table = terminal.type("workloads", "--url", url).out
        document = terminal.type("workloads", "--url", url, "--json").document

    assert "a         3" in table
    assert [entry["workload"] for entry in document["workloads"]] == ["a", "b"]


def test_many_faults_are_counted(terminal: Terminal) -> None:
    fault = {"row": 1, "field": "workers", "value": -1, "message": "too few", "remedy": "More."}
    problem = {**_AWAY, "status": 422, "code": "invalid_rows", "errors": [fault] * 25}
    with _answering((422, problem)) as url:
        result = terminal.type("workloads", "--url", url)

    assert result.err.count("row 1, workers: too few (got -1)") == 20
    assert "and 5 more; `trainfare upload FILE --dry-run --skip-invalid --json`" in result.err


@pytest.mark.parametrize(
    ("status", "remedy"), [(413, "client_max_body_size"), (502, "a service that is down")]
)
def test_proxy_before_the_service_is_thought_of(
    terminal: Terminal, status: int, remedy: str
) -> None:
    with _answering(*[(status, "<html>nginx</html>")] * 4) as url:
        result = terminal.type("workloads", "--url", url)

    assert result.exit_code == 3
    assert remedy in result.err


def test_certificate_that_nobody_known_signed_is_told_with_what_to_do(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def distrust(*_args: object, **_options: object) -> None:
        raise httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")

    monkeypatch.setattr(httpx2.Client, "request", distrust)

    result = terminal.type("workloads", "--url", "https://127.0.0.1:1")

    assert result.exit_code == 3
    assert "SSL_CERT_FILE" in result.err


def test_problem_of_a_stranger_is_not_taken_for_ours(terminal: Terminal) -> None:
    with _answering((404, {"message": "nginx"})) as url:
        result = terminal.type("workloads", "--url", url)

    assert result.exit_code == 3
    assert "not as this service does" in result.err


@pytest.mark.parametrize(
    "line",
    [
        ("workloads",),
        ("forecast", "w", "workers=1,2"),
        ("forecast", "w", "workers=1", "--json"),
        ("recommend", "w"),
        ("fit", "w"),
        ("profile", "--workload", "w", "-t", "workers=2", "--dry-run", "true"),
    ],
)
@pytest.mark.parametrize("document", [{"ok": True}, [1, 2]])
def test_document_of_a_stranger_is_not_taken_for_ours(
    terminal: Terminal, line: tuple[str, ...], document: Any
) -> None:
    with _answering((200, document)) as url:
        result = terminal.type(line[0], "--url", url, *line[1:])

    assert result.exit_code == 3
    assert "not as this service does" in result.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
@pytest.mark.parametrize("line", [("--help",), ("workloads", "--help")])
def test_output_without_room_is_told_in_a_line(line: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", *line],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "Error: The output cannot be written: No space left on device.\n"


def test_list_of_commands_cuts_none_short(terminal: Terminal) -> None:
    result = terminal.type("--help")

    assert "..." not in result.out.partition("Commands:")[2]
