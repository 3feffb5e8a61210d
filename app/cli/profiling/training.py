"""Runs a user's training command once: placeholders, environment, time limit, signals, memory."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Final

from app.cli.client import KEY_VARIABLES
from app.cli.failures import UsageError
from app.cli.processes.ending import handling_termination
from app.domain.flat_fields import PARAMETER, WORK

_CONFIGURATION: Final = ("workers", "nodes", "gpu_type", "instance_type")
_PLACEHOLDERS: Final = (*_CONFIGURATION, *WORK, r"param\.[^{}\s]+")
_POLL_INTERVAL_S: Final = 0.1
_TAIL_BYTES: Final = 1 << 16
_OUT_OF_MEMORY: Final = re.compile(
    rb"out of memory|OutOfMemoryError|MemoryError|allocate memory|bad_alloc|bad allocation"
    rb"|ALLOC_FAILED|RESOURCE_EXHAUSTED|ResourceExhaustedError",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run; `status` is that of an uploaded run."""

    status: str
    duration_seconds: float
    exit_code: int


def fields_of(planned: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that a planned run sets, by placeholder name."""
    values = {
        **{name: planned["configuration"].get(name) for name in _CONFIGURATION},
        **{name: planned["work"].get(name) for name in WORK},
        **{PARAMETER + name: value for name, value in planned["parameters"].items()},
    }
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: object) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if isinstance(value, float) and is_whole else str(value)


def fill_in(command: Sequence[str], fields: Mapping[str, str]) -> list[str]:
    """Return the command with its placeholders replaced; other braces are left unchanged.

    Raises
    ------
    UsageError
        If the plan does not set a placeholder's value.

    Examples
    --------
    >>> fill_in(["train", "--n={workers}", '{"a": 1}'], {"workers": "4"})
    ['train', '--n=4', '{"a": 1}']
    """

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in fields:
            raise UsageError(
                f"The plan sets no {name}, which the command uses as {match.group(0)}.",
                f"It sets: {', '.join(fields)}. Give --target {name}=VALUE, or leave it out.",
            )
        return fields[name]

    # A name may have spaces or braces; braces around other such text belong to the command.
    names = "|".join((*map(re.escape, fields), *_PLACEHOLDERS))
    placeholder = re.compile(r"\{(" + names + r")\}")
    return [placeholder.sub(replace, word) for word in command]


def environment_of(fields: Mapping[str, str], **extra: str) -> dict[str, str]:
    """Return the command's environment: this process's without the key, plus the run's values."""
    values = {
        re.sub(r"\W", "_", name).upper(): value for name, value in {**fields, **extra}.items()
    }
    kept = {name: value for name, value in os.environ.items() if name not in KEY_VARIABLES}
    return {**kept, **{f"TRAINFARE_{name}": value for name, value in values.items()}}


@dataclass
class Interruption:
    """The signal received since just before the command started, if any, and its forwarding."""

    signal_number: int | None = None
    pid: int | None = None

    def started(self, pid: int) -> None:
        """Set the process group to forward signals to, and forward an earlier one."""
        self.pid = pid
        if self.signal_number is not None:
            end_group(pid, self.signal_number)

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Record and forward a signal; the handler of all of them."""
        self.signal_number = number
        if self.pid is not None:
            end_group(self.pid, number)


class CommandRunner:
    """Runs commands, each in its own process group.

    Parameters
    ----------
    timeout_s
        Seconds after which a run is ended; None for no limit.
    grace_s
        Seconds that a command and what it started have to end after SIGTERM, before they are
        killed.
    """

    def __init__(self, timeout_s: float | None, grace_s: float = 10.0) -> None:
        self._timeout_s, self._grace_s = timeout_s, grace_s

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        *,
        on_start: Callable[[int], None],
        on_tick: Callable[[float], None],
    ) -> RunOutcome:
        """Run a command to its end and return the outcome; its output goes to a file.

        Termination signals are forwarded to the command's group, and the run counts as cancelled.
        An exception in `on_start` or `on_tick` ends the command too.

        Raises
        ------
        UsageError
            If the command cannot be started.
        """
        killed_before, interruption = _killed_for_memory(), Interruption()
        # Signals are caught before the command starts, since one in between would orphan it.
        with output.open("wb") as file, handling_termination(interruption.note):
            started_at = time.perf_counter()
            process = _start(command, environment, file)
            interruption.started(process.pid)
            try:
                on_start(process.pid)
                is_late = self._wait(process, started_at, interruption, on_tick)
            except BaseException:
                # For example, the log cannot be written: the command's end could not be recorded.
                self._end(process)
                raise
            seconds = time.perf_counter() - started_at
        if interruption.signal_number is not None:
            status = "cancelled"
        elif is_late:
            status = "timed_out"
        elif process.returncode == 0:
            status = "succeeded"
        else:
            is_killed = _killed_for_memory() > killed_before
            status = "out_of_memory" if is_killed or _mentions_memory(output) else "failed"
        return RunOutcome(status, seconds, process.returncode)

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        started_at: float,
        interruption: Interruption,
        on_tick: Callable[[float], None],
    ) -> bool:
        """Wait for the end; return whether the time limit caused it."""
        while True:
            try:
                process.wait(_POLL_INTERVAL_S)
            except subprocess.TimeoutExpired:
                elapsed = time.perf_counter() - started_at
                on_tick(elapsed)
                if interruption.signal_number is not None:
                    self._end(process)
                    return False
                if self._timeout_s is not None and elapsed >= self._timeout_s:
                    self._end(process)
                    return True
            else:
                if interruption.signal_number is not None:
                    self._end(process)
                return False

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM to the group, then SIGKILL to what of it does not end.

        A shell ends at once, while the training that it started may still be saving its state.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            end_group(process.pid, number)
            if self._has_ended(process):
                break
        process.wait()

    def _has_ended(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the group to end, and return whether it did so in time."""
        deadline = time.monotonic() + self._grace_s
        # Until it is waited for, a process that has ended counts as one of its group.
        while process.poll() is None or end_group(process.pid, 0):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_INTERVAL_S)
        return True


def end_group(pid: int, number: int) -> bool:
    """Send a signal to a process group, and return whether one of it could receive it."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # macOS permits no signal to a group of which only zombies are left.
        return False
    return True


def _start(
    command: Sequence[str], environment: Mapping[str, str], output: BinaryIO
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(
            f"{command[0]} cannot be started: {error.strerror}.", "Correct the command."
        ) from None


def _killed_for_memory() -> int:
    """Return how many processes the kernel has killed for lack of memory, 0 if unknown."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    counts = (line.split() for line in lines)
    return next((int(count) for name, count in counts if name == "oom_kill"), 0)


def _mentions_memory(output: Path) -> bool:
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
        return _OUT_OF_MEMORY.search(file.read()) is not None


def start_ticks_of(pid: int) -> str | None:
    """Return a process's start time in kernel clock ticks, None if it is gone or unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]
