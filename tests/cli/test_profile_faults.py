"""What goes wrong around a profiling session: its command, its service, the person at the keys."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import patient_http
from tests.support.server import RunningProcess, running_service

pytestmark = pytest.mark.lengthy

FIELDS = ("-t", "workers=8", "-t", "dataset_size=8000", "-s", "workers=1", "--max-workers", "8")
SIZES = ("-s", "dataset_size=1000,2000,4000")
TELL = "echo $$ > begun; read line < go"
"""A command that says that it runs, and ends when it is told to."""


@pytest.fixture
def database_url(sqlite_template: Path, tmp_path: Path) -> str:
    copy = tmp_path / "trainfare.db"
    shutil.copy(sqlite_template, copy)
    return f"sqlite:///{copy}"


@pytest.fixture
def service(database_url: str) -> Iterator[RunningProcess]:
    with running_service(database_url, "--with-fitter") as running:
        yield running


@pytest.fixture
def pipes(tmp_path: Path) -> Path:
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def start(folder: Path, url: str, shell: str, *options: str) -> subprocess.Popen[str]:
    """Start a session of its own process, as from a shell."""
    line = ("profile", "--workload", "w", *FIELDS, *SIZES, *options, "--url", url)
    return subprocess.Popen(
        [sys.executable, "-m", "app.cli", *line, "--", "sh", "-c", shell],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def stderr_of(session: subprocess.Popen[str]) -> str:
    """Return what a session told until its end."""
    return session.communicate()[1]


def stored(url: str) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = patient_http.get(f"{url}/v1/workloads/w/runs").json()["runs"]
    return runs


def events(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "profile-w.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_remedy_of_a_wrong_command_leads_on(service: RunningProcess, tmp_path: Path) -> None:
    wrong = start(tmp_path, service.url, "exit 3", "--max-failures", "3")
    told = stderr_of(wrong)

    right = start(tmp_path, service.url, "true", "--max-failures", "3", "--again", "--runs", "1")

    stderr_of(right)
    assert (wrong.returncode, right.returncode) == (1, 0)
    assert "with --again to start over" in " ".join(told.split())
    statuses = [run["status"] for run in stored(service.url)]
    assert statuses == ["succeeded", "failed", "failed", "failed"]


def test_command_that_is_killed_is_noted_and_the_session_goes_on(
    service: RunningProcess, tmp_path: Path
) -> None:
    kill_the_first = "mkdir first 2>/dev/null && kill -9 $$; exit 0"

    session = start(tmp_path, service.url, kill_the_first, "--runs", "2")
    result = stderr_of(session)

    assert session.returncode == 0, result
    assert "exit code -9" in result
    assert sorted(run["status"] for run in stored(service.url)) == ["failed", "succeeded"]
    sizes = [run["work"]["dataset_size"] for run in stored(service.url)]
    assert len(set(sizes)) == 2


def test_interrupt_at_the_keys_ends_the_run_and_is_no_measurement(
    service: RunningProcess, pipes: Path
) -> None:
    session = start(pipes, service.url, TELL, "--runs", "1")
    command = int((pipes / "begun").read_text())

    session.send_signal(signal.SIGINT)
    result = stderr_of(session)

    assert session.returncode == 130, result
    assert "type the same line again" in result
    assert not Path(f"/proc/{command}/cwd").exists()
    assert stored(service.url) == []
    assert [event["status"] for event in events(pipes) if event["event"] == "finished"] == [
        "cancelled"
    ]


def test_session_that_is_running_is_left_alone(service: RunningProcess, pipes: Path) -> None:
    first = start(pipes, service.url, TELL, "--runs", "1")
    command = int((pipes / "begun").read_text())

    second = start(pipes, service.url, TELL, "--runs", "1")
    result = stderr_of(second)

    assert second.returncode == 2, result
    assert "A session with the log profile-w.jsonl is running" in result
    assert Path(f"/proc/{command}/cwd").exists()
    (pipes / "go").write_text("\n")
    result = stderr_of(first)
    assert first.returncode == 0, result
    assert [run["status"] for run in stored(service.url)] == ["succeeded"]


def test_log_that_cannot_be_written_is_named(service: RunningProcess, tmp_path: Path) -> None:
    for place in ("nowhere/log.jsonl", "."):
        session = start(tmp_path, service.url, "exit 0", "--log", place)
        result = stderr_of(session)

        assert session.returncode == 2
        assert f"The log {place} cannot be written: " in result


def test_log_may_have_any_name(service: RunningProcess, tmp_path: Path) -> None:
    session = start(tmp_path, service.url, "exit 0", "--runs", "1", "--log", "log")
    result = stderr_of(session)

    assert session.returncode == 0, result
    assert (tmp_path / "log-output" / "1.txt").exists()


def test_run_that_ends_while_the_service_is_away_is_uploaded_later(
    database_url: str, pipes: Path
) -> None:
    with running_service(database_url, "--with-fitter") as before:
        session = start(pipes, before.url, TELL, "--runs", "1")
        (pipes / "begun").read_text()
    (pipes / "go").write_text("\n")
    result = stderr_of(session)

    assert session.returncode == 3, result
    assert "1 run not uploaded yet" in result
    assert "does not answer" in result
    with running_service(database_url, "--with-fitter") as after:
        restarted = start(pipes, after.url, TELL, "--runs", "1")
        result = stderr_of(restarted)
        runs = stored(after.url)

    assert restarted.returncode == 0, result
    assert "Resuming after 1 run of" in result
    assert [run["status"] for run in runs] == ["succeeded"]
    names = [event["event"] for event in events(pipes)]
    assert names.count("started") == names.count("uploaded") == 1


def test_service_that_is_away_from_the_start_is_told(tmp_path: Path) -> None:
    session = start(tmp_path, "http://127.0.0.1:9", "exit 0")
    result = stderr_of(session)

    assert session.returncode == 3
    assert "does not answer" in result
    assert list(tmp_path.glob("*.jsonl")) == []


def test_more_runs_of_a_session_can_be_asked_for(service: RunningProcess, tmp_path: Path) -> None:
    first = start(tmp_path, service.url, "exit 0", "--runs", "1")
    stderr_of(first)

    second = start(tmp_path, service.url, "exit 0", "--runs", "2")
    result = stderr_of(second)

    assert second.returncode == 0, result
    assert "Resuming after 1 run of" in result
    assert len(stored(service.url)) == 2
    names = [event["event"] for event in events(tmp_path)]
    assert names.count("session") == 1
    assert names[-1] == "stopped"


def test_runs_of_a_workload_that_was_removed_are_uploaded_again(
    service: RunningProcess, tmp_path: Path
) -> None:
    stderr_of(start(tmp_path, service.url, "exit 0", "--runs", "1"))
    [before] = stored(service.url)
    patient_http.delete(f"{service.url}/v1/workloads/w").raise_for_status()

    session = start(tmp_path, service.url, "exit 0", "--runs", "2")
    result = stderr_of(session)

    assert session.returncode == 0, result
    assert "the runs of the session are uploaded again" in result
    assert before["external_id"] in {run["external_id"] for run in stored(service.url)}
    assert len(stored(service.url)) == 2


def test_runs_of_a_workload_that_is_removed_while_one_is_made_are_uploaded_again(
    service: RunningProcess, pipes: Path
) -> None:
    session = start(pipes, service.url, TELL, "--runs", "2")
    (pipes / "begun").read_text()
    (pipes / "go").write_text("on\n")
    (pipes / "begun").read_text()
    patient_http.delete(f"{service.url}/v1/workloads/w").raise_for_status()
    (pipes / "go").write_text("on\n")

    result = stderr_of(session)

    assert session.returncode == 0, result
    assert "the runs of the session are uploaded again" in result
    assert len(stored(service.url)) == 2
