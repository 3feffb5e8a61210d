"""Simultaneous processes: the service and the floors on one core, the load on another."""

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.ingest.service import running_service
from benchmarks.serving.load import Order, Outcome

_ATTEMPTS, _PAUSE_S = 600, 0.05


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers on a port of the loopback address."""

    port: int
    process_id: int

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the process so far, of all its threads."""
        return process_cpu_seconds(self.process_id)


def process_cpu_seconds(process_id: int) -> float:
    """Return the CPU seconds of a process, to the nanosecond (POSIX `clock_getcpuclockid`)."""
    clock = ctypes.c_int()
    ctypes.CDLL(None, use_errno=True).clock_getcpuclockid(process_id, ctypes.byref(clock))
    return time.clock_gettime(clock.value)


def cores() -> tuple[set[int], set[int]]:
    """Return the cores of the measured process and of the load; the same if there is only one."""
    available = sorted(os.sched_getaffinity(0))
    return {available[0]}, {available[-1]}


def pin(process_id: int, core: set[int]) -> None:
    """Pin all threads of a process to a core."""
    for thread in Path(f"/proc/{process_id}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), core)


@contextlib.contextmanager
def started_service(database_url: str) -> Iterator[Server]:
    """Start the real service on the core of the measured process."""
    with running_service(database_url) as running:
        pin(running.process_id, cores()[0])
        yield Server(int(running.url.rpartition(":")[2]), running.process_id)


@contextlib.contextmanager
def started_floor(name: str, *, pinned: bool = True) -> Iterator[Server]:
    """Start an application of `benchmarks.serving.floors` on uvicorn with its fastest options."""
    port = free_port()
    command = [
        sys.executable, "-m", "uvicorn", f"benchmarks.serving.floors:{name}", "--port", str(port),
        "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning",
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        try:
            await_port(port, process)
            if pinned:
                pin(process.pid, cores()[0])
            yield Server(port, process.pid)
        finally:
            process.terminate()


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens.

    Raises
    ------
    SystemExit
        If it ends before that, or takes too long.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if process.poll() is not None:
            break
        time.sleep(_PAUSE_S)
    raise SystemExit(f"Nothing listens on port {port}.")


class LoadGenerator:
    """The load generator as a process, on its own core."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def carry_out(self, order: Order) -> Outcome:
        """Return the outcome of an order's requests."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def started_load() -> Iterator[LoadGenerator]:
    """Start the load generator."""
    command = [sys.executable, "-m", "benchmarks.serving.load"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        pin(process.pid, cores()[1])
        try:
            yield LoadGenerator(process)
        finally:
            process.terminate()
