"""What the commands that `trainfare profile` runs end as, whatever happens meanwhile."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.profiling.training import (
    CommandRunner,
    Interruption,
    end_group,
    environment_of,
    start_ticks_of,
)


def test_signal_that_comes_while_a_command_runs_cancels_the_run(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    outcome = CommandRunner(None).run(
        ["sleep", "600"],
        environment_of({}),
        tmp_path / "out.txt",
        on_start=lambda _pid: os.kill(os.getpid(), signal.SIGTERM),
        on_tick=lambda _elapsed: None,
    )

    assert outcome.status == "cancelled"
    assert signal.getsignal(signal.SIGTERM) is before


def test_terminal_that_is_closed_cancels_no_run_under_nohup(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        outcome = CommandRunner(None).run(
            ["true"],
            environment_of({}),
            tmp_path / "out.txt",
            on_start=lambda _pid: os.kill(os.getpid(), signal.SIGHUP),
            on_tick=lambda _elapsed: None,
        )
    finally:
        signal.signal(signal.SIGHUP, before)

    assert outcome.status == "succeeded"


def test_command_whose_start_cannot_be_noted_is_ended(tmp_path: Path) -> None:
    pids: list[int] = []

    def note(pid: int) -> None:
        pids.append(pid)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        CommandRunner(None).run(
            ["sleep", "600"],
            environment_of({}),
            tmp_path / "out.txt",
            on_start=note,
            on_tick=lambda _elapsed: None,
        )

    assert start_ticks_of(pids[0]) is None


@pytest.mark.parametrize(
    "said",
    [
        "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
    ],
)
def test_want_of_memory_has_many_words(said: str, tmp_path: Path) -> None:
    outcome = CommandRunner(None).run(
        ["sh", "-c", 'echo "$0"; exit 1', said],
        environment_of({}),
        tmp_path / "out.txt",
        on_start=lambda _pid: None,
        on_tick=lambda _elapsed: None,
    )

    assert outcome.status == "out_of_memory"


def test_want_of_memory_long_before_the_end_is_not_its_cause(tmp_path: Path) -> None:
    outcome = CommandRunner(None).run(
        ["sh", "-c", "echo 'retrying: out of memory'; head -c 70000 /dev/zero; exit 1"],
        environment_of({}),
        tmp_path / "out.txt",
        on_start=lambda _pid: None,
        on_tick=lambda _elapsed: None,
    )

    assert outcome.status == "failed"


def test_signal_that_comes_before_the_command_ends_it_once_it_has_started() -> None:
    interruption = Interruption()
    interruption.note(signal.SIGTERM, None)

    with subprocess.Popen(["sleep", "9"], start_new_session=True) as process:
        interruption.started(process.pid)

    assert process.returncode == -signal.SIGTERM


def test_command_that_ignores_the_end_of_its_time_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; while :; do read line < pipe; done"
    os.mkfifo(tmp_path / "pipe")

    outcome = CommandRunner(0.2, grace_s=0.2).run(
        ["sh", "-c", f"cd {tmp_path}; {script}"],
        environment_of({}),
        tmp_path / "out.txt",
        on_start=lambda _pid: None,
        on_tick=lambda _elapsed: None,
    )

    assert outcome.status == "timed_out"
    assert outcome.duration_seconds >= 0.2


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"X", "Z"}


@pytest.mark.lengthy
@pytest.mark.parametrize(("is_interrupted", "status"), [(False, "timed_out"), (True, "cancelled")])
def test_what_a_shell_started_is_ended_with_it(
    tmp_path: Path, status: str, *, is_interrupted: bool
) -> None:
    training = "import os, signal; signal.signal(15, signal.SIG_IGN)"
    training += "; signal.signal(2, signal.SIG_IGN); print(os.getpid(), flush=True); signal.pause()"
    output = tmp_path / "out.txt"

    def interrupt(_elapsed: float) -> None:
        if is_interrupted and output.stat().st_size:
            signal.raise_signal(signal.SIGINT)

    outcome = CommandRunner(20.0 if is_interrupted else 1.0, grace_s=0.3).run(
        ["sh", "-c", f"{sys.executable} -c '{training}'; true"],
        environment_of({}),
        output,
        on_start=lambda _pid: None,
        on_tick=interrupt,
    )

    assert outcome.status == status
    assert not _runs(int(output.read_text()))


def test_process_that_is_gone_has_no_birth_and_takes_no_signal() -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()

    assert not end_group(process.pid, signal.SIGTERM)
    assert start_ticks_of(process.pid) is None
    assert start_ticks_of(os.getpid()) is not None
