"""The time from the start of a process to its first answer, and its memory then."""

import contextlib
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.serving.processes import free_port
from benchmarks.serving.slices import Figure, Goal, Slices, alternate
from benchmarks.serving.stage import Stage

_START: Final = Goal("start to the first answer", "empty FastAPI + SQLAlchemy", 2.0)
_MEMORY: Final = Goal("memory of a web process before the first tree, MB", "90 MB", 90.0)
_ATTEMPTS, _PAUSE_S = 6_000, 0.005


@dataclass(slots=True)
class _Application:
    """An application that can be started repeatedly and records its memory."""

    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    path: str
    megabytes: list[float]

    def seconds(self) -> float:
        """Return the seconds from the start of the process to its first answer."""
        started = time.perf_counter()
        environment = {**os.environ, **self.environment}
        with subprocess.Popen(
            self.command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        ) as process:
            try:
                self._await_answer(process)
                seconds = time.perf_counter() - started
                self.megabytes.append(_resident_megabytes(process.pid))
            finally:
                process.terminate()
        return seconds

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        for _ in range(_ATTEMPTS):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            with contextlib.suppress(ConnectionError), contextlib.closing(connection):
                connection.request("GET", self.path)
                if connection.getresponse().status == http.client.OK:
                    return
            if process.poll() is not None:
                break
            time.sleep(_PAUSE_S)
        raise SystemExit(f"{' '.join(self.command)} gave no answer.")


def measure_start(stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the time to the first answer and the memory."""
    with tempfile.TemporaryDirectory(prefix="bytecode-") as folder:
        ours, floor = _service(stage, folder), _empty(folder)
        # The first starts compile, because an installed service has its bytecode.
        for application in (ours, floor):
            application.seconds()
            application.megabytes.clear()
        timings: Slices = alternate(ours.seconds, floor.seconds, slices)
    yield Figure.of(_START, timings, note="on the clock; both answers ask the database")
    memory = statistics.median(ours.megabytes)
    spread = (min(ours.megabytes), max(ours.megabytes))
    note = f"resident after the first answer; the empty application: {min(floor.megabytes):.0f} MB"
    yield Figure(_MEMORY, memory, None, spread, note=note)


def _service(stage: Stage, bytecode: str) -> _Application:
    port = free_port()
    environment = {
        "TRAINFARE_DATABASE_URL": stage.database_url,
        "TRAINFARE_PORT": str(port),
        **_compiled(bytecode),
    }
    command = [sys.executable, "-m", "app.cli", "serve"]
    return _Application(command, environment, port, "/v1/workloads", [])


def _empty(bytecode: str) -> _Application:
    port = free_port()
    command = [
        sys.executable, "-m", "uvicorn", "--factory", "benchmarks.serving.floors:empty",
        "--port", str(port), "--log-level", "warning",
    ]  # fmt: skip
    return _Application(command, _compiled(bytecode), port, "/one", [])


def _compiled(folder: str) -> dict[str, str]:
    """Return the environment with which a process keeps its bytecode in a folder."""
    return {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}


def _resident_megabytes(process_id: int) -> float:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
