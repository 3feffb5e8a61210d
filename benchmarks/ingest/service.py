"""The real service as a separate process: started, measured, stopped."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LISTENING = re.compile(r"listening.*?url=(?P<url>\S+)")


@dataclass(frozen=True, slots=True)
class RunningService:
    """A started service."""

    url: str
    process_id: int

    def peak_memory_mib(self) -> float | None:
        """Return the peak memory of the process, None if /proc does not tell it."""
        status = Path(f"/proc/{self.process_id}/status")
        if not status.exists():
            return None
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        return None if match is None else int(match.group(1)) / 1024


@contextlib.contextmanager
def running_service(database_url: str) -> Iterator[RunningService]:
    """Start the service on a free port of the loopback address, and stop it at the end."""
    environment = {
        **os.environ,
        "TRAINFARE_DATABASE_URL": database_url,
        "TRAINFARE_PORT": "0",
        "TRAINFARE_LOG_FORMAT": "text",
    }
    command = [sys.executable, "-m", "app.cli", "serve"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield RunningService(_wait_for_url(process), process.pid)
        finally:
            process.terminate()


def _wait_for_url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if match := _LISTENING.search(line):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return match.group("url")
    raise SystemExit("The service did not start:\n" + "".join(lines))
