"""What a profiling session is made of: its log, its machine, its command."""

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.cli.connection import Connection
from app.cli.failures import UsageError
from app.cli.machine import Machine, gpu_names, this_machine
from app.cli.profiling.log import SessionLog
from app.cli.profiling.requests import PlanOptions
from app.cli.profiling.training import (
    environment_of,
    fields_of,
    fill_in,
)

T4 = ("Tesla T4",)
PLANNED = {
    "configuration": {"workers": 4, "gpu_type": None, "nodes": None},
    "work": {"dataset_size": 1000.0, "batch_size": 0.5, "epochs": None},
    "parameters": {"learning-rate": 0.1, "precision": "fp16"},
}


def finished(number: int, status: str = "succeeded") -> dict[str, object]:
    return {"external_id": f"profile-x-{number}", "status": status, "configuration": {"workers": 1}}


def test_log_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "log.jsonl")
    session = log.begin("w", {"target": {}})
    log.append(session, "finished", **finished(1))
    log.append(session, "uploaded", external_id="profile-x-1")
    log.append(session, "finished", **finished(2, "failed"))
    log.append(session, "skipped", configuration={"workers": 64}, reason="too large")

    again = log.read()

    assert again is not None
    assert again.session_id == session.session_id
    assert [event["external_id"] for event in again.pending()] == ["profile-x-2"]
    assert [each["configuration"] for each in again.attempted()] == [
        {"workers": 1},
        {"workers": 1},
        {"workers": 64},
    ]
    assert not again.is_fitted


def test_line_that_a_crash_cut_off_did_not_happen(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "log.jsonl")
    session = log.begin("w", {})
    log.append(session, "started", **finished(1))
    with log.path.open("ab") as file:
        file.write(b'{"event":"finis')

    again = log.read()

    assert again is not None
    assert again.interrupted is not None
    assert again.finished == []
    log.append(again, "finished", **finished(1))
    read = log.read()
    assert read is not None
    assert len(read.finished) == 1


def test_log_whose_first_line_was_cut_off_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"event":"sess')

    assert SessionLog(path).read() is None


def test_cancelled_run_does_not_count_as_made(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "log.jsonl")
    session = log.begin("w", {})

    log.append(session, "finished", **finished(1, "cancelled"))

    assert session.finished == []


def test_cancelled_run_is_paid_for_also_after_a_resume(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "log.jsonl")
    session = log.begin("w", {})
    for number, status in enumerate(("succeeded", "cancelled", "failed", "cancelled")):
        log.append(session, "finished", **finished(number, status), duration_seconds=1800.0)

    again = log.read()

    assert again is not None
    assert again.paid() == session.paid()
    assert [run["duration_seconds"] for run in again.paid()] == [1800.0] * 4
    assert {run["configuration"]["workers"] for run in again.paid()} == {1}


def test_run_is_paid_for_at_its_start(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "log.jsonl")
    session = log.begin("w", {})
    started_at = datetime(2026, 11, 1, 10, tzinfo=UTC)
    log.append(
        session, "finished", **finished(1, "succeeded"), duration_seconds=1.0, started_at=started_at
    )

    again = log.read()

    assert again is not None
    starts = [each.paid()[0]["started_at"] for each in (session, again)]
    assert list(map(datetime.fromisoformat, starts)) == [started_at] * 2


@pytest.mark.parametrize("content", ["hello\n", '{"a": 1}\n', "[]\n", "one\ntwo", '{"a": 1}'])
def test_another_file_is_no_log_and_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(content)

    with pytest.raises(UsageError, match="not the log of a profiling session"):
        SessionLog(path).read()
    with pytest.raises(UsageError, match="not the log of a profiling session"):
        SessionLog(path).begin("w", {})

    assert path.read_text() == content


def test_unknown_event_makes_a_file_no_log(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "log.jsonl")
    log.begin("w", {})
    with log.path.open("ab") as file:
        file.write(b'{"event":"danced"}\n')

    with pytest.raises(UsageError):
        log.read()


@pytest.mark.parametrize(
    ("machine", "configuration", "refusal"),
    [
        (Machine(4), {"workers": 4}, None),
        (Machine(4), {"workers": 8}, "needs 8 workers; 4 fit here"),
        (Machine(4), {"workers": 1, "nodes": 2}, "needs 2 machines, and this is one"),
        (Machine(4), {"gpu_type": "T4"}, "needs a T4; the GPUs here: none"),
        (Machine(4, T4), {"gpu_type": "T4", "workers": 1}, None),
        (Machine(4, T4), {"gpu_type": "T4", "workers": 2}, "needs 2 workers; 1 fit here"),
        (Machine(4, T4), {"gpu_type": "K80"}, "needs a K80; the GPUs here: Tesla T4"),
        (Machine(4, max_workers=64), {"workers": 64}, None),
        (Machine(4, is_any=True), {"gpu_type": "K80", "workers": 4}, None),
        (Machine(4, T4, is_any=True), {"gpu_type": "K80"}, None),
    ],
)  # fmt: skip
def test_machine_says_what_it_cannot_host(
    machine: Machine, configuration: dict[str, object], refusal: str | None
) -> None:
    assert machine.refusal(configuration) == refusal


def test_this_machine_has_processors() -> None:
    assert this_machine(None, is_any=False).processors >= 1


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("sh", "-c", "printf 'Tesla T4\\nTesla T4\\n'"), ["Tesla T4", "Tesla T4"]),
        (("sh", "-c", "exit 9"), []),
        (("no-such-tool",), []),
    ],
)
def test_gpus_are_those_that_the_driver_lists(command: tuple[str, ...], names: list[str]) -> None:
    assert gpu_names(command) == names


def test_request_of_a_plan_has_all_options_and_the_workers_of_this_machine() -> None:
    machine = Machine(processors=6, gpus=T4)
    connection = Mock(spec=Connection)
    connection.get.return_value = {"parameters": {"torch": {"type": "category"}}}
    options = PlanOptions(["workers=16", "param.torch=1.10", "epochs=2"], None, "5", "0.1", 0.2)

    found = options.request("w", machine, connection)

    assert found.workload == "w"
    assert found.body == {
        "target": {
            "configuration": {"workers": 16},
            "work": {"epochs": 2},
            "parameters": {"torch": "1.10"},
        },
        "search": {"workers": [1, 2, 4], "nodes": [1]},
        "budget": "5",
        "stop": {"width": 0.2},
        "pricing": {"price_per_hour": "0.1"},
    }


def test_request_of_a_plan_keeps_the_search_that_is_given() -> None:
    search = ["workers=3,5", "nodes=1,2", "batch_size=8,16", "gpu_type=T4", "param.depth=1,2"]
    options = PlanOptions(["gpu_type=T4"], search, None, None, None)
    connection = Mock(spec=Connection)
    connection.get.return_value = {"parameters": {"depth": {"type": "number"}}}

    found = options.request("w", Machine(processors=6, gpus=T4), connection)

    assert found.body == {
        "target": {"configuration": {"gpu_type": "T4"}, "work": {}, "parameters": {}},
        "search": {
            "workers": [3, 5],
            "nodes": [1, 2],
            "batch_sizes": [8, 16],
            "gpu_types": ["T4"],
            "parameters": {"depth": [1, 2]},
        },
    }


def test_fields_are_plain_and_leave_out_what_is_unknown() -> None:
    assert fields_of(PLANNED) == {
        "workers": "4",
        "dataset_size": "1000",
        "batch_size": "0.5",
        "param.learning-rate": "0.1",
        "param.precision": "fp16",
    }


def test_environment_names_what_is_set_and_hides_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_KEY", "secret")
    monkeypatch.setenv("TRAINFARE_API_KEY", "secret")

    environment = environment_of(fields_of(PLANNED), workload="w")

    assert environment["TRAINFARE_DATASET_SIZE"] == "1000"
    assert environment["TRAINFARE_PARAM_LEARNING_RATE"] == "0.1"
    assert environment["TRAINFARE_WORKLOAD"] == "w"
    assert "secret" not in environment.values()


def test_braces_that_are_no_placeholders_stay() -> None:
    assert fill_in(["{workers}", "${HOME}", "{x}"], {"workers": "2"}) == ["2", "${HOME}", "{x}"]


def test_parameters_of_any_name_have_a_placeholder() -> None:
    fields = {"param.learning rate": "0.1", "param.{k}": "3"}

    words = fill_in(["--lr={param.learning rate}", "{param.{k}}", "{param.grad * 2}"], fields)

    assert words == ["--lr=0.1", "3", "{param.grad * 2}"]
