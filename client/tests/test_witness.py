"""A training that is killed leaves a run with its outcome."""

import gc
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import trainfare_client
from trainfare_client import Client, ClientSettings
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place
from trainfare_client.collectors.witness import Witness, kernel_kills, report_run, watch

pytestmark = pytest.mark.lengthy

_KILLED = """
import os, signal, sys
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place

for rank in map(int, sys.argv[2:]):
    Recorder(sys.argv[1], {"dataset_size": 100.0}, place=Place(rank, 2, 1, "job-1"))
os.kill(os.getpid(), signal.SIGKILL)
"""


def environment_of(settings: ClientSettings) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(Path(trainfare_client.__file__).parents[1]),
        "TRAINFARE_URL": settings.url,
        "TRAINFARE_SPOOL": str(settings.spool),
    }


@pytest.mark.parametrize("ranks", [["0"], ["1"], ["0", "1"]])
def test_killed_worker_leaves_one_failed_run_of_the_job(
    client: Client, settings: ClientSettings, workload: str, ranks: list[str]
) -> None:
    # The witnesses hold the standard error: it ends with them.
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED, workload, *ranks],
        env=environment_of(settings),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    (run,) = client.runs.all(workload)
    assert ended.returncode == -9
    assert run["status"] == "failed"
    assert run["duration_seconds"] > 0
    assert run["configuration"]["workers"] == 2
    assert run["work"]["dataset_size"] == 100
    assert f"Trainfare: {workload} took" in ended.stderr


def test_killed_worker_without_a_service_leaves_its_run_in_the_spool(
    tmp_path: Path, workload: str
) -> None:
    settings = ClientSettings(url="http://127.0.0.1:9", spool=tmp_path / "spool.jsonl")

    subprocess.run(
        [sys.executable, "-c", _KILLED, workload, "0"],
        env=environment_of(settings),
        stderr=subprocess.PIPE,
        check=False,
    )

    (line,) = settings.spool.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["workload"] == workload


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_worker_that_tells_its_end_itself_needs_no_witness(
    client: Client, settings: ClientSettings, workload: str, status: str
) -> None:
    recorder = Recorder(
        workload, {"settings": settings, "quiet": True}, place=Place(0, 2, 1, f"job-{status}")
    )

    recorder.finish(status)

    (run,) = client.runs.all(workload)
    assert run["status"] == status
    assert not recorder.guard.has_complained


def test_witness_that_has_not_begun_to_listen_is_not_left_behind(settings: ClientSettings) -> None:
    witness = Witness({"workload": "resnet", "duration_seconds": 1.0}, settings, quiet=True)

    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        witness.dismiss(patience_s=0)
        del witness
        gc.collect()

    assert not complaints


def test_end_of_the_pipe_is_the_end_of_the_watch() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a line\ndone\n")
    os.close(writing)

    with os.fdopen(reading, "rb") as pipe:
        message, ran_out_of_memory = watch(pipe, kills=lambda: 3)

    assert message == b"a line\ndone\n"
    assert not ran_out_of_memory


def test_kill_by_the_kernel_in_the_last_moments_is_for_lack_of_memory(
    settings: ClientSettings, client: Client, workload: str
) -> None:
    counts = iter([3, 3, 4])
    reading, writing = os.pipe()
    run = {"workload": workload, "external_id": "job-9", "status": "failed"}
    settings_document = {**vars(settings), "spool": str(settings.spool)}
    os.write(
        writing,
        json.dumps({"run": run, "settings": settings_document, "quiet": True}).encode() + b"\n",
    )
    os.close(writing)

    with os.fdopen(reading, "rb") as pipe:
        message, ran_out_of_memory = watch(pipe, kills=lambda: next(counts))
    sentence = report_run(message, ran_out_of_memory=ran_out_of_memory, duration_s=12.5)

    (stored,) = client.runs.all(workload)
    assert sentence is None
    assert stored["status"] == "out_of_memory"
    assert stored["duration_seconds"] == 12.5


def test_nothing_said_is_nothing_to_tell() -> None:
    assert report_run(b"", ran_out_of_memory=True, duration_s=1.0) is None


def test_kernel_that_counts_no_kills_is_silent(tmp_path: Path) -> None:
    counters = tmp_path / "vmstat"
    counters.write_text("pgfault 12\noom_kill 7\n", encoding="ascii")

    assert kernel_kills(counters) == 7
    assert kernel_kills(tmp_path / "missing") == 0
    counters.write_text("pgfault 12\n", encoding="ascii")
    assert kernel_kills(counters) == 0


def test_kernels_count_is_read_again_while_the_training_runs() -> None:
    reading, writing = os.pipe()
    looks: list[int] = []

    def kills() -> int:
        looks.append(len(looks))
        if len(looks) == 3:
            os.close(writing)
        return 0

    with os.fdopen(reading, "rb") as pipe:
        message, ran_out_of_memory = watch(pipe, kills=kills)

    assert (message, ran_out_of_memory) == (b"", False)
    assert len(looks) == 4
