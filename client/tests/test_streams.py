"""Commands whose standard output takes nothing: it is full, closed, or nobody reads it."""

import subprocess
import sys
from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings

from client.tests.ci_steps import Step, write_runs

pytestmark = pytest.mark.lengthy

_CLIENT = f"{sys.executable} -m trainfare_client"
_SERVICE = f"{sys.executable} -m app.cli"
_FULL = pytest.param(
    "> /dev/full",
    "Warning: The output cannot be written: No space left on device.\n",
    marks=pytest.mark.skipif(
        not Path("/dev/full").exists(), reason="only Linux has a disk that is full"
    ),
)


def _type(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize(
    "line", [f"{_CLIENT} waiting --spool spool.jsonl", f"{_SERVICE} workloads --url URL"]
)
def test_closed_streams_are_no_mistake(
    client: Client, workload: str, settings: ClientSettings, line: str, streams: str
) -> None:
    client.runs.upload([{"workload": workload, "duration_seconds": 9.0}])

    done = _type(f"{line.replace('URL', settings.url)} {streams}")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("streams", "told"), [_FULL, ("| true", ""), (">&-", "")])
def test_verdict_without_room_is_the_same_verdict(
    step: Step, settings: ClientSettings, workload: str, streams: str, told: str
) -> None:
    step.set_environment(PYTHONPATH=":".join(sys.path))
    report = f"{_CLIENT} ci report --url {settings.url} {write_runs(workload)} --commit 1f"

    done = _type(f"{{ {report}; echo $? > code.txt; }} {streams}")

    assert Path("code.txt").read_text() == "0\n"
    assert done.stderr == told


def test_refusal_without_room_keeps_its_exit_code(step: Step, settings: ClientSettings) -> None:
    step.set_environment(PYTHONPATH=":".join(sys.path))

    done = _type(f"{_CLIENT} ci report --url {settings.url} nowhere.csv >&-")

    assert (done.returncode, done.stderr) == (2, "")
