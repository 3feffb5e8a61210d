"""What commands say: logs, tables, warnings, faults, retries."""

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

from app.cli.asking import (
    say_configuration,
    show_forecasts,
    show_recommendation,
    show_upload,
)
from app.cli.failures import UsageError
from app.cli.fields import recommendation_request
from app.cli.output import print_table
from app.cli.wording import money
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy


def _forecast(workers: int, **changes: Any) -> dict[str, Any]:
    return {
        "configuration": {"gpu_type": "T4", "instance_type": "g4dn.xlarge", "workers": workers},
        "work": {"dataset_size": 1000.0},
        "parameters": {"precision": "fp16"},
        "duration_seconds": {"median": 60.0, "lower": 50.0, "upper": 70.0, "confidence": 0.9},
        "cost": None,
        "basis": "measured",
        "warnings": [{"code": "price_unknown", "message": "No price.", "remedy": "Give one."}],
    } | changes


def test_what_forecasts_share_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    show_forecasts([_forecast(1), _forecast(2)])

    captured = capsys.readouterr()
    assert captured.err.count("T4") == 1
    assert "T4" not in captured.out
    assert captured.err.count("No price. Give one.") == 1
    assert "1 more of the 2" in captured.err


def test_warnings_are_said_to_hold_only_where_they_are_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    forecasts = [
        _forecast(workers, warnings=[{"code": "beyond_range", "message": f"workers {workers}."}])
        for workers in (4, 8, 8)
    ]

    show_forecasts(forecasts)

    assert capsys.readouterr().err.splitlines()[-2:] == [
        "Warning: workers 4.",
        "Warning: workers 8. The same applies to 1 more of the 3.",
    ]


def test_what_was_asked_besides_has_columns_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = _forecast(
        1,
        probability={"deadline": 0.991, "budget": None},
        explanation=[{"term": "compute", "share": 0.996}, {"term": "setup", "share": 0.004}],
        taught_by=[],
    )
    show_forecasts([first, _forecast(2, probability={"deadline": 0.5, "budget": 0.25})])
    asked = capsys.readouterr().out
    show_forecasts([_forecast(1), _forecast(2)])
    plain = capsys.readouterr().out

    head, *rows = asked.splitlines()
    assert "basis     keeps the deadline  keeps the budget  where the time goes" in head
    assert rows[0].split()[-4:] == ["99.1%", "-", "compute", "100%"]
    assert rows[1].split()[-3:] == ["50%", "25%", "-"]
    assert plain.splitlines()[0].split()[-1] == "basis"


def test_confidence_is_told_with_its_digits(capsys: pytest.CaptureFixture[str]) -> None:
    band = {"median": 60.0, "lower": 50.0, "upper": 70.0, "confidence": 0.9995}
    nearly_sure = _forecast(1, duration_seconds=band)
    ranked = [{"forecast": nearly_sure}]

    show_recommendation({"recommended": ranked[0], "ranked": ranked, "objective": "cost"})

    assert capsys.readouterr().out.count("99.95% interval") == 2


def test_ways_to_buy_capacity_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    places = [
        {"gpu_type": "T4", "workers": 2, "provider": "aws", "region": "us-west-2", "purchase": way}
        for way in ("on_demand", "spot")
    ]
    energy = {"kilowatt_hours": 1.5, "kg_co2e": None}
    ranked = [{"forecast": _forecast(2, configuration=each, energy=energy)} for each in places]

    show_recommendation({"recommended": ranked[1], "ranked": ranked, "objective": "energy"})

    sentence, head, *rows = capsys.readouterr().out.splitlines()
    assert sentence.startswith("Recommended: 2 x T4 (aws us-west-2, spot): 1 min")
    assert [line.split()[0] for line in (head, *rows)] == ["purchase", "on_demand", "spot"]
    assert all("1.5 kWh" in row for row in rows)


def test_nearest_candidate_says_what_would_have_to_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change = {"constraint": "deadline_s", "message": "The deadline is too short."}
    nearest = {"forecast": _forecast(4), "changes": [change]}
    answer: dict[str, Any] = {"recommended": None, "considered": 3, "nearest": nearest}
    answer["rejected_by_reason"] = {"deadline": 2, "out_of_memory": 1}

    show_recommendation(answer)
    show_recommendation({**answer, "nearest": None})

    captured = capsys.readouterr()
    assert "Nearest: 4 x T4 (g4dn.xlarge): 1 min (90% interval 50 s to 1 min 10 s)" in captured.out
    assert "The deadline is too short." in captured.err
    assert captured.err.count("Not qualified: deadline 2, out of memory 1.") == 2


def test_best_candidate_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    ranked = [{"forecast": _forecast(4)}, {"forecast": _forecast(2)}]

    show_recommendation({"recommended": ranked[0], "ranked": ranked, "objective": "cost"})

    assert "Recommended: 4 x T4 (g4dn.xlarge): 1 min" in capsys.readouterr().out


def test_places_are_told_in_few_words() -> None:
    assert say_configuration({"workers": 1}) == "1 worker"
    assert say_configuration({"workers": 4, "instance_type": "m5.large"}) == "4 x m5.large"


def test_unknown_cost_is_a_dash() -> None:
    assert money(None) == "-"


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


def test_upload_tells_skipped_rows_and_oddities(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"row": 7, "field": "workers", "message": "must be positive"}
    show_upload(
        "x.csv",
        {
            "created": 1, "duplicates": 0, "invalid": [row] * 23, "invalid_count": 23,
            "warnings": [{"message": "an odd unit"}], "replayed": False,
        },
    )  # fmt: skip

    stderr = capsys.readouterr().err
    assert stderr.count("row 7, workers: must be positive") == 20
    assert "... and 3 more; --json prints them." in stderr
    assert "an odd unit" in stderr


def test_table_shows_lists_and_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"scopes": ["a", "b"], "last": None}])

    assert "a, b" in capsys.readouterr().out


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
