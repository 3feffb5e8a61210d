"""The executor of profiling plans against a real service, with real commands."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import patient_http
from tests.support.terminal import CommandResult, Terminal

pytestmark = pytest.mark.lengthy

TARGET = ("-t", "workers=8", "-t", "dataset_size=8000")
SMALL = ("-s", "workers=1,2", "-s", "dataset_size=1000,2000")
NOTES_ITSELF = 'echo "$TRAINFARE_WORKERS $TRAINFARE_DATASET_SIZE" >> ran.txt'


@pytest.fixture(autouse=True)
def at_work(
    terminal: Terminal, service_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.set(url=service_url)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def workload(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name.replace("[", "-").replace("]", "").casefold()[:90]


def profile(
    terminal: Terminal, workload: str, *options: object, shell: str = NOTES_ITSELF
) -> CommandResult:
    line = ("--workload", workload, *TARGET, *SMALL, *options, "--", "sh", "-c", shell)
    return terminal.type("profile", "--max-workers", 8, *line)


def stored(service_url: str, workload: str) -> list[dict[str, Any]]:
    answer = patient_http.get(f"{service_url}/v1/workloads/{workload}/runs")
    runs: list[dict[str, Any]] = answer.json()["runs"]
    return runs


def ran(folder: Path) -> list[str]:
    return (folder / "ran.txt").read_text().splitlines()


def events(folder: Path, workload: str) -> list[dict[str, Any]]:
    lines = (folder / f"profile-{workload}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_session_measures_uploads_fits_and_stops(
    terminal: Terminal, workload: str, service_url: str, tmp_path: Path
) -> None:
    result = profile(terminal, workload, "--runs", 2, "--price-per-hour", 1, "--budget", 5)

    runs = stored(service_url, workload)
    assert result.exit_code == 0, result.err
    assert len(ran(tmp_path)) == len(set(ran(tmp_path))) == len(runs) == 2
    assert {run["status"] for run in runs} == {"succeeded"}
    assert {run["labels"]["profiling_session"] for run in runs} == {
        events(tmp_path, workload)[0]["session_id"]
    }
    assert "2 runs were made" in result.err
    assert "workers 8, dataset_size 8000:" in result.out
    published = patient_http.get(f"{service_url}/v1/workloads/{workload}").json()
    assert published["regressor"]["version"] == 2


def test_plan_in_a_file_is_measured_until_nothing_is_left(
    terminal: Terminal, workload: str, service_url: str, tmp_path: Path
) -> None:
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json={})
    candidates = [{"configuration": {"workers": 1}, "work": {"dataset_size": n}} for n in (1, 2)]
    plan = patient_http.post(
        f"{service_url}/v1/workloads/{workload}/profiling-plans",
        json={
            "target": {"configuration": {"workers": 1}, "work": {"dataset_size": 9}},
            "candidates": [*candidates, {"configuration": {"workers": 1, "nodes": 2}}],
            "stop": {"min_narrowing": 0},
        },
    )
    path = tmp_path / "plan.json"
    path.write_bytes(plan.content)

    result = terminal.type("profile", "--plan", path, "--json", "--", "sh", "-c", NOTES_ITSELF)

    assert result.exit_code == 0, result.err
    assert sorted(ran(tmp_path)) == ["1 1", "1 2"]
    assert result.document["stop"]["reason"] == "candidates_exhausted"
    assert len(result.document["runs"]) == 2
    assert "needs 2 machines" in result.document["skipped"][0]["reason"]
    assert result.document["targets"][0]["now"]["median"] > 0


def test_budget_ends_a_session_by_what_is_billed(
    terminal: Terminal, workload: str, service_url: str, tmp_path: Path
) -> None:
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json={})
    plan = patient_http.post(
        f"{service_url}/v1/workloads/{workload}/profiling-plans",
        json={
            "target": {"configuration": {"workers": 1}, "work": {"dataset_size": 9}},
            "candidates": [
                {"configuration": {"workers": 1}, "work": {"dataset_size": n}} for n in (1, 2, 4, 8)
            ],
            "pricing": {"price_per_hour": "1.00", "minimum_billed_s": 3600},
            "budget": "2.20",
            "stop": {"min_narrowing": 0},
        },
    )
    path = tmp_path / "plan.json"
    path.write_bytes(plan.content)

    result = terminal.type("profile", "--plan", path, "--json", "--", "sh", "-c", NOTES_ITSELF)

    assert result.exit_code == 0, result.err
    assert len(ran(tmp_path)) == len(result.document["runs"]) == 2
    assert result.document["stop"]["reason"] == "budget_spent"


def test_placeholders_are_filled_in(terminal: Terminal, workload: str, tmp_path: Path) -> None:
    words = ("echo {workers} {dataset_size} {param.width} >> ran.txt",)
    line = ("--workload", workload, *TARGET, "-t", "param.width=24", *SMALL, "--runs", 1)

    terminal.type("profile", *line, "--max-workers", 8, "--", "sh", "-c", *words)

    assert ran(tmp_path)[0].endswith(" 24")


def test_dry_run_shows_commands_and_runs_nothing(
    terminal: Terminal, workload: str, tmp_path: Path, service_url: str
) -> None:
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json={})

    result = profile(terminal, workload, "--dry-run", shell="train --n {dataset_size}")
    few = profile(terminal, workload, "--dry-run", "--json", "--runs", 2).document

    assert "train --n 1000" in result.out
    assert (few["workload"], len(few["runs"])) == (workload, 2)
    assert list(tmp_path.glob("*.jsonl")) == []


def test_dry_run_of_an_unknown_workload_declares_nothing(
    terminal: Terminal, workload: str, service_url: str
) -> None:
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json={})

    result = profile(terminal, f"{workload}x", "--dry-run")
    document = patient_http.get(f"{service_url}/v1/workloads/{workload}x").json()

    assert result.exit_code == 1
    assert f"The nearest name is '{workload}'" in result.err
    assert f"curl -X PUT -H 'Content-Type: application/json' -d '{{}}' {service_url}/" in result.err
    assert document["code"] == "unknown_workload"


def test_session_that_declares_a_workload_names_the_nearest(
    terminal: Terminal, workload: str, service_url: str
) -> None:
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json={})

    result = profile(terminal, f"{workload}x", "--runs", 1, shell="true")

    assert f"Declared the workload {workload}x. The nearest name is '{workload}'." in result.err


def test_hardware_that_is_not_here_is_skipped_and_said(
    terminal: Terminal, workload: str, service_url: str
) -> None:
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json={})

    result = profile(terminal, workload, "-t", "gpu_type=V100-16GB", "--dry-run")
    whole = profile(terminal, workload, "-t", "gpu_type=V100-16GB")

    assert "needs a V100-16GB" in result.out
    assert whole.exit_code == 0
    assert "This machine cannot host any of the planned runs" in whole.err


def test_placeholder_that_the_plan_does_not_set_is_named(terminal: Terminal, workload: str) -> None:
    result = profile(terminal, workload, shell="train {batch_size}")

    assert result.exit_code == 2
    assert "{batch_size}" in result.err
    assert "--target batch_size=VALUE" in result.err


def test_failed_runs_are_uploaded_with_their_status_and_end_the_session(
    terminal: Terminal, workload: str, service_url: str
) -> None:
    result = profile(terminal, workload, "--max-failures", 2, shell="exit 3")

    assert result.exit_code == 1
    assert "last 2 runs did not succeed" in result.err
    assert [run["status"] for run in stored(service_url, workload)] == ["failed", "failed"]
    assert "exit code 3" in result.err


def test_categories_of_digits_are_measured_as_they_were_typed(
    terminal: Terminal, workload: str, service_url: str, tmp_path: Path
) -> None:
    torch = {"parameters": {"torch": {"type": "category"}}}
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json=torch)
    arguments = ("-t", "param.torch=1.10", "-s", "param.torch=1.10", "--runs", 1)

    profile(
        terminal, workload, *arguments, shell="echo {param.torch} $TRAINFARE_PARAM_TORCH > ran.txt"
    )

    assert ran(tmp_path) == ["1.10 1.10"]
    (run,) = stored(service_url, workload)
    assert run["parameters"] == {"torch": "1.10"}


def test_run_that_the_command_records_itself_arrives_once(
    terminal: Terminal, workload: str, service_url: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"from trainfare_client import record\nwith record({workload!r}): pass\n")

    result = profile(terminal, workload, "--runs", 1, shell=f"{sys.executable} {script}")

    assert result.exit_code == 0, result.err
    (run,) = stored(service_url, workload)
    assert run["external_id"].startswith("profile-")
    assert "trainfare profile" in (tmp_path / f"profile-{workload}" / "1.txt").read_text()


def test_want_of_memory_and_time_are_told_apart(
    terminal: Terminal, workload: str, service_url: str, tmp_path: Path
) -> None:
    script = "if mkdir first; then echo 'CUDA out of memory' >&2; exit 1; fi; exec sleep 600"

    result = profile(terminal, workload, "--timeout", 0.3, "--max-failures", 2, shell=script)

    assert result.exit_code == 1
    runs = stored(service_url, workload)
    assert [run["status"] for run in runs] == ["timed_out", "out_of_memory"]
    assert (tmp_path / f"profile-{workload}" / "1.txt").read_text() == "CUDA out of memory\n"


def test_command_that_does_not_exist_is_a_usage_error(terminal: Terminal, workload: str) -> None:
    result = terminal.type(
        "profile", "--workload", workload, *TARGET, *SMALL, "--", "no-such-thing"
    )

    assert result.exit_code == 2
    assert "no-such-thing cannot be started" in result.err


def test_finished_session_is_shown_again_and_begun_anew_on_request(
    terminal: Terminal, workload: str, tmp_path: Path
) -> None:
    profile(terminal, workload, "--runs", 1)

    shown = profile(terminal, workload, "--runs", 1)
    anew = profile(terminal, workload, "--runs", 1, "--again")

    assert "has ended" in shown.err
    assert anew.exit_code == 0
    assert len(ran(tmp_path)) == 2


def test_log_of_another_plan_is_refused(terminal: Terminal, workload: str) -> None:
    profile(terminal, workload, "--runs", 1)

    result = profile(terminal, workload, "--runs", 1, "--budget", 7)

    assert result.exit_code == 2
    assert "--log" in result.err


def test_log_of_a_plan_that_was_refused_is_no_hindrance(terminal: Terminal, workload: str) -> None:
    refused = profile(terminal, workload, "--runs", 1, "--budget", "much")

    result = profile(terminal, workload, "--runs", 1)

    assert refused.exit_code == 1
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--workload", "w"), "no plan to measure"),
        (("--workload", "w", "-t", "gpus=2"), "Unknown field 'gpus'"),
        (("--workload", "w", "-t", "wrokers=8"), "Did you mean workers?"),
        (("--workload", "w", "-t", "price=1"), "Did you mean --price-per-hour?"),
        (("--workload", "w", "-t", "workers=2", "-s", "gpus=2"), "Unknown field 'gpus'"),
        (("--plan", "broken.json"), "not a profiling plan"),
    ],
)
def test_wrong_usage_is_told_with_a_remedy(
    terminal: Terminal, tmp_path: Path, options: tuple[str, ...], fault: str
) -> None:
    (tmp_path / "broken.json").write_text('{"workload": 1}')

    result = terminal.type("profile", *options, "--", "true")

    assert result.exit_code == 2
    assert fault in result.err


def test_parameters_can_be_searched(terminal: Terminal, workload: str, service_url: str) -> None:
    patient_http.put(f"{service_url}/v1/workloads/{workload}", json={})

    result = profile(
        terminal, workload, "-s", "param.kind=a,b", "-t", "param.kind=a", "--dry-run", "--json"
    )

    assert result.document["considered"] == 8


class Blocking:
    """`trainfare profile` as a process, whose second run waits until it is let go."""

    def __init__(self, folder: Path, service_url: str, workload: str) -> None:
        self.folder = folder
        self._line = [
            *(sys.executable, "-m", "app.cli", "profile", "--workload", workload),
            *(*TARGET, *SMALL, "--max-workers", "8", "--runs", "2", "--url", service_url, "--"),
            *("sh", "-c", self._script()),
        ]
        os.mkfifo(folder / "begun")
        os.mkfifo(folder / "go")

    def _script(self) -> str:
        note = "trap 'echo ended >> ran.txt; exit 1' TERM INT; " + NOTES_ITSELF
        is_second = '[ "$(wc -l < ran.txt)" = 2 ]'
        # The log knows of this run a moment after it began.
        is_noted = '[ "$(grep -c \'"started"\' profile-*.jsonl)" = 2 ]'
        block = f"until {is_noted}; do :; done; echo $$ > begun; read line < go"
        return f"{note}; if {is_second}; then {block}; fi"

    def start(self) -> subprocess.Popen[str]:
        """Start the session."""
        return subprocess.Popen(
            self._line, cwd=self.folder, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )

    def wait_for_second_run(self) -> int:
        """Wait until the second run has begun and return its process."""
        return int((self.folder / "begun").read_text())


@pytest.fixture
def blocking(service_url: str, tmp_path: Path, workload: str) -> Blocking:
    return Blocking(tmp_path, service_url, workload)


def test_killed_session_goes_on_without_repeating_finished_runs(
    blocking: Blocking, service_url: str, workload: str, tmp_path: Path
) -> None:
    with blocking.start() as killed:
        orphan = blocking.wait_for_second_run()
        killed.kill()

    with blocking.start() as again:
        assert again.stderr is not None
        stderr = again.stderr.read()

    done = ran(tmp_path)
    assert again.returncode == 0, stderr
    assert "Resuming after 1 run of" in stderr
    assert "still running" in stderr
    assert not Path(f"/proc/{orphan}/cwd").exists()
    assert done.count(done[0]) == 1
    assert done[1] == done[2]
    [lost] = [event for event in events(tmp_path, workload) if event.get("status") == "cancelled"]
    assert lost["duration_seconds"] > 0
    runs = stored(service_url, workload)
    assert len(runs) == 2
    assert len({run["external_id"] for run in runs}) == 2


def test_signal_is_forwarded_and_the_run_is_repeated_later(
    blocking: Blocking, service_url: str, workload: str, tmp_path: Path
) -> None:
    with blocking.start() as stopped:
        blocking.wait_for_second_run()
        stopped.send_signal(signal.SIGTERM)
        assert stopped.stderr is not None
        stderr = stopped.stderr.read()

    assert stopped.returncode == 130, stderr
    assert "type the same line again" in stderr
    assert ran(tmp_path)[-1] == "ended"
    assert len(stored(service_url, workload)) == 1
    with blocking.start() as again:
        again.communicate()
    assert again.returncode == 0
    assert len(stored(service_url, workload)) == 2
