"""Runs the real service in separate processes, for tests that need them."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import httpx2

LISTENING = re.compile(r"listening.*?url=(?P<url>\S+)")
_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 30.0
_LOG_TIMEOUT_S = 60.0


@dataclass
class RunningProcess:
    """A process of the service, and the lines that it wrote to standard error."""

    process: subprocess.Popen[str]
    url: str = ""
    lines: list[str] = field(default_factory=list)
    _reader: threading.Thread | None = None
    _has_grown: threading.Condition = field(default_factory=threading.Condition)

    def wait_for_line(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """Read until a line matches; fail with all lines if the process ends before."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            match = re.search(pattern, line)
            if match:
                return match
        raise AssertionError("the process ended before: " + "".join(self.lines))

    def drain(self) -> None:
        """Read in the background, so that the process never blocks on a full pipe."""

        def read() -> None:
            assert self.process.stderr is not None
            for line in self.process.stderr:
                with self._has_grown:
                    self.lines.append(line)
                    self._has_grown.notify_all()

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def wait_until_logged(self, text: str, *, times: int = 1) -> None:
        """Wait until `times` of the drained lines contain `text`."""

        def is_logged() -> bool:
            return sum(text in line for line in self.lines) >= times

        with self._has_grown:
            if not self._has_grown.wait_for(is_logged, _LOG_TIMEOUT_S):
                raise AssertionError(f"{text!r} was not logged: " + "".join(self.lines))

    def end(self) -> int:
        """Send SIGTERM and return the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Return the exit code once the process has ended."""
        exit_code = self.process.wait(_END_TIMEOUT_S)
        if self._reader is not None:
            self._reader.join(_END_TIMEOUT_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return exit_code


def start_process(
    *arguments: str,
    database_url: str,
    environment: Mapping[str, str] | None = None,
    **settings: object,
) -> RunningProcess:
    """Start `trainfare ARGUMENTS`; `settings` become `TRAINFARE_*` variables.

    `environment` holds further environment variables.
    """
    inherited = {name: value for name, value in os.environ.items() if "TRAINFARE_" not in name}
    variables = {f"TRAINFARE_{name.upper()}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", *arguments],
        env={
            **inherited,
            "OMP_NUM_THREADS": "1",
            "TRAINFARE_DATABASE_URL": database_url,
            **variables,
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return RunningProcess(process)


@contextlib.contextmanager
def running_service(
    database_url: str, *arguments: str, **settings: object
) -> Iterator[RunningProcess]:
    """Yield `trainfare serve` on a free port of 127.0.0.1 once it answers `/healthz`.

    `arguments` are further options of `serve` (`"--with-fitter"`); `settings` such as
    `lease_s=2` become environment variables.
    """
    running = start_process(
        "serve", "--port", "0", *arguments, database_url=database_url, environment=None, **settings
    )
    try:
        running.url = running.wait_for_line(LISTENING)["url"]
        running.drain()
        # The socket already listens: the answer comes once the application is up.
        try:
            httpx2.get(f"{running.url}/healthz", timeout=_START_TIMEOUT_S)
        except httpx2.TransportError as error:
            running.end()
            raise AssertionError(
                "the service did not come up: " + "".join(running.lines)
            ) from error
        yield running
    finally:
        running.end()


@contextlib.contextmanager
def running_fitter(database_url: str, **settings: object) -> Iterator[RunningProcess]:
    """Yield `trainfare fitter` on a database."""
    running = start_process("fitter", database_url=database_url, environment=None, **settings)
    running.drain()
    try:
        yield running
    finally:
        running.end()
