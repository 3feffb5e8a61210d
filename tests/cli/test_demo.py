"""The demo shows the whole way, leaves a service running, and says why when it cannot."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.cli.processes.background import BackgroundService
from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug
from app.storage.database import Database
from tests.support import patient_http
from tests.support.server import start_process
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy

_CURL = re.compile(r"curl -H 'Accept: text/plain' '(?P<url>[^']+)'$")
_HEADER = "workload,external_id,duration_seconds,gpu_type,workers,dataset_size,epochs\n"


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """A folder with one small profile of a GPU workload."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    grid = [(workers, size) for workers in (1, 2, 4) for size in (1000, 2000, 4000, 8000)]
    rows = [
        f"tiny,r{index},{5 + size / (50 * workers)},T4,{workers},{size},1\n"
        for index, (workers, size) in enumerate(grid)
    ]
    (folder / "tiny.csv").write_text(_HEADER + "".join(rows))
    return folder


def _demo(profiles: Path, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end."""
    given = {f"TRAINFARE_{name.upper()}": str(value) for name, value in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "app.cli", "demo", "--exit", "--profiles", profiles],
        env=os.environ
        | {"TRAINFARE_FIT_TIME_BUDGET_S": "5", "PYTHONWARNINGS": "default::ResourceWarning"}
        | given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_demo_goes_the_whole_way_and_ends(profiles: Path, tmp_path: Path) -> None:
    ended = _demo(profiles, data_dir=tmp_path / "data")

    assert ended.returncode == 0, ended.stderr
    assert "ResourceWarning" not in ended.stderr, ended.stderr
    for said in ("tiny.csv: 12 new", "Fitting a regressor", "What would tiny take?", "USD",
                 "Which configuration for tiny?", "Done"):  # fmt: skip
        assert said in ended.stdout
    assert "fitter stopped" in (tmp_path / "data" / "demo.log").read_text()


def test_demo_is_about_the_workloads_of_its_profiles_alone(
    profiles: Path, tmp_path: Path, sqlite_url: str
) -> None:
    with closing(Database(sqlite_url)) as database, database.transaction() as stores:
        stores.workloads.claim(DEFAULT_PROJECT, [Slug("brand-new")], datetime.now(UTC))
    # The answer to an upload lists up to 1,000 runs.
    many = [f"Larger,,{1 + n % 7},T4,{1 + n % 2},1000,1\n" for n in range(1001)]
    header = _HEADER.replace("workload,", " workload ,")
    (profiles / "tiny.csv").write_text(header + "".join(many))

    ended = _demo(profiles, database_url=sqlite_url, data_dir=tmp_path / "new")

    assert ended.returncode == 0, ended.stderr
    assert "What would larger take?" in ended.stdout
    assert "brand-new" not in ended.stdout


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_demo_leaves_the_service_running_until_a_signal(
    profiles: Path, tmp_path: Path, sqlite_url: str, end: signal.Signals
) -> None:
    process = start_process(
        "demo", "--profiles", str(profiles), database_url=sqlite_url,
        data_dir=tmp_path, fit_time_budget_s=5,
    )  # fmt: skip
    process.wait_for_line("Ctrl-C ends")
    process.drain()
    process.process.send_signal(end)

    exit_code = process.wait()

    assert exit_code == 0
    log = (tmp_path / "demo.log").read_text()
    assert "fitter stopped" in log
    assert "stopped url=" in log


def test_demo_ends_with_a_question_that_is_answered_in_sentences(
    profiles: Path, tmp_path: Path
) -> None:
    given = {"TRAINFARE_DATA_DIR": str(tmp_path / "data"), "TRAINFARE_FIT_TIME_BUDGET_S": "5"}
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", "demo", "--profiles", profiles],
        env={**os.environ, **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        asked = next(filter(None, (_CURL.search(line) for line in demo.stdout)))
        answer = patient_http.get(asked["url"], headers={"Accept": "text/plain"})
        demo.send_signal(signal.SIGINT)

    assert answer.text.startswith("tiny on 16 x T4 with dataset_size 32,000")
    assert "It costs about" in answer.text


def test_demo_may_be_interrupted_on_its_way(
    profiles: Path, tmp_path: Path, sqlite_url: str
) -> None:
    process = start_process(
        "demo", "--profiles", str(profiles), database_url=sqlite_url, data_dir=tmp_path
    )
    process.wait_for_line("Service and fitter are up")
    process.drain()
    process.process.send_signal(signal.SIGINT)

    assert process.wait() == 130
    assert "fitter stopped" in (tmp_path / "demo.log").read_text()


def test_step_that_fails_ends_the_demo_with_its_reason(
    profiles: Path, tmp_path: Path, sqlite_url: str
) -> None:
    (profiles / "tiny.csv").write_text(_HEADER + "tiny,r1,-5,T4,1,1000,1\n")
    process = start_process(
        "demo", "--exit", "--profiles", str(profiles), database_url=sqlite_url, data_dir=tmp_path
    )
    process.wait_for_line("row 1, duration_seconds")
    process.wait_for_line("invalid_rows")

    assert process.wait() == 1


def test_folder_without_profiles_is_wrong_usage(
    terminal: Terminal, tmp_path: Path, sqlite_url: str
) -> None:
    terminal.set(database_url=sqlite_url)

    result = terminal.type("demo", "--profiles", tmp_path)

    assert result.exit_code == 2
    assert "no profile" in result.err


def test_settings_that_demand_keys_are_refused_before_anything_is_stored(
    terminal: Terminal, profiles: Path, tmp_path: Path
) -> None:
    terminal.set(data_dir=tmp_path / "new", require_keys=True)

    result = terminal.type("demo", "--profiles", profiles)

    assert result.exit_code == 2
    assert "demand keys" in result.err
    assert not (tmp_path / "new").exists()


def test_address_of_the_service_is_read_where_its_log_tells_it(tmp_path: Path) -> None:
    lines = (
        "2026-11-29T14:05:43.125Z WARNING listening without keys: whoever reaches the address",
        "2026-11-29T14:05:43.130Z INFO    listening url=http://127.0.0.1:8431 web_workers=1",
    )
    log = "\n".join(lines)
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.stderr.write({log!r})"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    service = BackgroundService(process, (tmp_path / "demo.log").open("w"))

    url = service.wait_for_url()

    service.end()
    assert url == "http://127.0.0.1:8431"
    assert (tmp_path / "demo.log").read_text() == log


def test_log_that_cannot_be_written_ends_the_demo_before_its_service_starts(
    terminal: Terminal, profiles: Path, tmp_path: Path, sqlite_url: str
) -> None:
    (tmp_path / "data" / "demo.log").mkdir(parents=True)
    terminal.set(database_url=sqlite_url, data_dir=tmp_path / "data")

    result = terminal.type("demo", "--exit", "--profiles", profiles)

    assert result.exit_code == 1
    assert "demo.log: Is a directory" in result.err
    assert "Remedy: Set TRAINFARE_DATA_DIR" in result.err


def test_service_that_cannot_start_ends_the_demo_with_its_log(
    profiles: Path, tmp_path: Path, sqlite_url: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start_process(
            "demo", "--port", str(taken.getsockname()[1]), "--profiles", str(profiles),
            database_url=sqlite_url, data_dir=tmp_path,
        )  # fmt: skip
        process.wait_for_line("The service is not running")
        process.wait_for_line("Cannot listen on")

        assert process.wait() == 1


def test_service_that_dies_ends_the_demo_with_its_log(
    profiles: Path, tmp_path: Path, sqlite_url: str
) -> None:
    process = start_process(
        "demo", "--profiles", str(profiles), database_url=sqlite_url,
        data_dir=tmp_path, fit_time_budget_s=5,
    )  # fmt: skip
    process.wait_for_line("Ctrl-C ends")
    match = re.search(r"started child=service pid=(\d+)", (tmp_path / "demo.log").read_text())
    assert match
    os.kill(int(match[1]), signal.SIGKILL)

    process.wait_for_line("The service is not running")

    assert process.wait() == 1
