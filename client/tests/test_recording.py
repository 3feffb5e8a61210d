"""What a plain block records, and how it ends."""

import dataclasses
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from trainfare_client import Client, ClientSettings, record
from trainfare_client.collectors.delivering import sentence
from trainfare_client.collectors.outcomes import RankNotes
from trainfare_client.collectors.plain import RecordedRun
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place
from trainfare_client.collectors.timing import Timing
from trainfare_client.spool import Spool

if TYPE_CHECKING:
    from trainfare_client.documents import UploadedRun

from client.tests.runs import make_run


def _only_run(client: Client, workload: str) -> dict[str, Any]:
    (run,) = client.runs.all(workload)
    return dict(run)


def test_block_is_recorded_with_what_is_said_and_what_is_known(
    client: Client,
    settings: ClientSettings,
    workload: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_SHA", "1f2e3d")
    monkeypatch.setenv("CI_JOB_URL", "https://ci.example/8841")

    with record(
        workload,
        dataset_size=64,
        batch_size=16,
        epochs=2,
        parameters={"width": 8},
        settings=settings,
    ) as run:
        for _ in range(8):
            run.step()
        run.phase("communication", 0.0)
    stored = _only_run(client, workload)

    assert stored["status"] == "succeeded"
    assert stored["work"] == {"dataset_size": 64, "batch_size": 16, "epochs": 2}
    assert stored["parameters"] == {"width": 8}
    assert stored["labels"] == {"git_sha": "1f2e3d", "ci_url": "https://ci.example/8841"}
    assert stored["configuration"]["workers"] == 1
    assert stored["external_id"].startswith("run-")
    assert "nothing was forecast" in capsys.readouterr().err


def test_run_of_a_profiling_session_is_left_to_the_session(
    settings: ClientSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINFARE_WORKLOAD", "profiled")
    monkeypatch.setenv("TRAINFARE_EXTERNAL_ID", "profile-1f2e3d-1")
    spooling = dataclasses.replace(settings, offline=True)

    with record("profiled", settings=spooling):
        pass
    assert "trainfare profile" in capsys.readouterr().err
    assert Spool(spooling.spool).waiting() == 0

    with record("another", settings=spooling):
        pass
    assert Spool(spooling.spool).waiting() == 1


def test_second_run_is_judged_against_the_forecast(
    client: Client, settings: ClientSettings, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @record(workload, dataset_size=10, workers=1, settings=settings)
    def train() -> str:
        return "trained"

    train()
    client.fits.wait(client.fits.request(workload, time_budget_s=5)["fit_id"])
    capsys.readouterr()

    answer = train()

    assert answer == "trained"
    assert "forecast was" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("shapes differ"), "failed"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "out_of_memory"),
        (MemoryError(), "out_of_memory"),
        (KeyboardInterrupt(), "cancelled"),
        (SystemExit(3), "failed"),
    ],
)
def test_exception_is_the_users_and_its_kind_is_recorded(
    error: BaseException, status: str, client: Client, settings: ClientSettings, workload: str
) -> None:
    def train(run: RecordedRun) -> None:
        run.step(samples=25)
        raise error

    with (
        pytest.raises(type(error)),
        record(workload, dataset_size=50, epochs=2, settings=settings, quiet=True) as run,
    ):
        train(run)
    stored = _only_run(client, workload)

    assert stored["status"] == status
    assert stored["progress"] == 0.25


def test_setup_and_warmup_are_kept_apart_from_the_duration() -> None:
    timing = Timing(started=100.0, warmup_steps=3)
    timing.steps_from = 110.0
    for waited, computed in ((2.0, 8.0), *[(0.5, 1.0)] * 9):
        timing.waiting.add(waited)
        timing.computing.add(computed)
    timing.add_phase("communication", 4.0)

    ended = 110.0 + timing.waiting.total_s + timing.computing.total_s

    assert timing.setup_s() == 10.0 + 1.5 + 7.0
    assert timing.duration_s(ended) == pytest.approx(10 * 1.5)
    assert timing.phase_seconds() == {
        "setup_seconds": 18.5,
        "data_loading_seconds": 5.0,
        "compute_seconds": 6.0,
        "communication_seconds": 4.0,
    }


def test_nothing_is_warmup_where_no_later_step_tells() -> None:
    timing = Timing(started=0.0, warmup_steps=3)
    timing.computing.add(9.0)

    assert timing.setup_s() == 0


def test_only_rank_0_uploads(client: Client, settings: ClientSettings, workload: str) -> None:
    for rank in (1, 0):
        place = Place(rank, workers=2, nodes=1)
        Recorder(workload, {"settings": settings, "quiet": True}, place=place).finish()
    stored = _only_run(client, workload)

    assert stored["configuration"]["workers"] == 2
    assert stored["configuration"]["nodes"] == 1


def test_other_rank_tells_the_cause_that_rank_0_cannot_see(tmp_path: Path) -> None:
    job = {"MASTER_ADDR": "here", "MASTER_PORT": "29500"}
    notes, others = RankNotes(tmp_path, "w", job), RankNotes(tmp_path, "w", job)
    alone = RankNotes(tmp_path, "w", {})

    others.leave("failed")
    others.leave("out_of_memory")
    alone.leave("failed")

    assert notes.cause("succeeded") == "succeeded"
    assert notes.cause("preempted") == "out_of_memory"
    assert notes.cause("preempted") == "preempted"
    assert alone.cause("failed") == "failed"


def test_run_that_did_not_succeed_says_so() -> None:
    run = make_run("w", duration_seconds=1.5, status="preempted")

    assert sentence(run, None) == "Trainfare: w took 1.5 s and ended as preempted."


def test_uploads_without_details_are_told_shortly() -> None:
    run = make_run("w", duration_seconds=1.5)

    assert sentence(run, None) == "Trainfare: w took 1.5 s."


def test_verdict_is_told_with_its_interval() -> None:
    uploaded: UploadedRun = {
        "row": 1,
        "run_id": "run_1",
        "workload": "w",
        "external_id": None,
        "duplicate": False,
        "assessment": {
            "verdict": "slower",
            "expected_seconds": {"median": 1.0, "lower": 0.9, "upper": 1.1, "confidence": 0.95},
            "ratio": 1.5,
            "p_value": 0.01,
            "reason": None,
        },
    }

    text = sentence(make_run("w", duration_seconds=1.5), uploaded)

    assert text.endswith("(run_1); the forecast was 1 s (0.9 to 1.1): slower.")


def test_training_of_hours_is_told_without_an_exponent() -> None:
    run = make_run("w", duration_seconds=45_678.9, status="preempted")

    assert sentence(run, None) == "Trainfare: w took 45,679 s and ended as preempted."


def _start(script: str, settings: ClientSettings, workload: str) -> subprocess.Popen[str]:
    head = f"workload = {workload!r}\n"
    return subprocess.Popen(
        [sys.executable, "-u", "-c", head + textwrap.dedent(script)],
        env={
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "TRAINFARE_URL": settings.url,
            "TRAINFARE_SPOOL": str(settings.spool),
            "PATH": "/usr/bin:/bin",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_terminated_training_is_recorded_as_preempted_and_ends_by_the_signal(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    script = """
        import signal
        from trainfare_client import record
        with record(workload):
            print("training")
            signal.pause()
    """
    with _start(script, settings, workload) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert process.returncode == -signal.SIGTERM
    assert _only_run(client, workload)["status"] == "preempted"


def test_users_own_handler_of_the_signal_still_runs(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    script = """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("saved"))
        from trainfare_client import record
        with record(workload):
            os.kill(os.getpid(), signal.SIGTERM)
    """
    with _start(script, settings, workload) as process:
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "saved" in stderr
    assert _only_run(client, workload)["status"] == "preempted"


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [("raise MemoryError", "out_of_memory", 1), ("pass", "cancelled", 0)],
)
def test_run_that_nobody_finished_is_recorded_when_the_interpreter_ends(
    end: str, status: str, code: int, client: Client, settings: ClientSettings, workload: str
) -> None:
    script = """
        from trainfare_client.collectors.recording import Recorder
        recorder = Recorder(workload, {})
    """
    with _start(textwrap.dedent(script) + end, settings, workload) as process:
        process.communicate(timeout=60)

    assert process.returncode == code
    assert _only_run(client, workload)["status"] == status


def test_run_that_nobody_finished_ended_with_its_last_step(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    script = """
        from trainfare_client.collectors.recording import Recorder
        now = 0.0
        recorder = Recorder(workload, {"dataset_size": 4, "batch_size": 2}, clock=lambda: now)
        now = 1.5
        recorder.step_ended()
        now = 3600.0
    """
    with _start(script, settings, workload) as process:
        process.communicate(timeout=60)
    stored = _only_run(client, workload)

    assert stored["duration_seconds"] == 1.5
    assert (stored["work"]["epochs"], stored["progress"]) == (0.5, 1)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGTERM)", "sys.exit()"])
def test_child_made_by_a_fork_does_not_end_the_run(
    end: str, client: Client, settings: ClientSettings, workload: str
) -> None:
    script = f"""
        import os, signal, sys
        from trainfare_client import record
        with record(workload):
            child = os.fork()
            if child == 0:
                {end}
            os.waitpid(child, 0)
    """
    with _start(script, settings, workload) as process:
        process.communicate(timeout=60)

    assert process.returncode == 0
    assert _only_run(client, workload)["status"] == "succeeded"


def test_run_that_started_in_a_thread_watches_no_signal(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    options = {"settings": settings, "quiet": True}

    def train() -> None:
        with record(workload, **options):  # type: ignore[arg-type] # as written in a script
            assert signal.getsignal(signal.SIGTERM) == before

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()

    assert _only_run(client, workload)["status"] == "succeeded"


def test_measurement_costs_a_step_next_to_nothing() -> None:
    """Counted in calls: one clock a step and no list that grows without bound."""
    timing = Timing(started=time.perf_counter(), warmup_steps=3)

    for _ in range(10_000):
        timing.computing.add(1.0)

    assert len(timing.computing._later) == 4096
    assert Spool(Path("unused.jsonl")).waiting() == 0
