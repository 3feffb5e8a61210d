"""Runs a service and its fitter as a background process of another command."""

import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Final

from app.cli.failures import RefusedError
from app.cli.processes.supervisor import environment_of
from app.domain.own_modules import module_command
from app.settings import Settings

_START_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 30.0
_SHOWN_LINES: Final = 15
_LISTENING: Final = re.compile(r" listening url=(\S+)")


class BackgroundService:
    """A running service with its address and its log."""

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        self._process = process
        self._log = log
        self._last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._urls: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True, name="service-log")
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines, self._log as log:
            for line in lines:
                self._last_lines.append(line)
                log.write(line)
                log.flush()
                if found := _LISTENING.search(line):
                    self._urls.put(found[1])

    def wait_for_url(self) -> str:
        """Return the address as soon as the service listens.

        Raises
        ------
        RefusedError
            If it ends before that, or takes too long.
        """
        for _ in range(int(_START_TIMEOUT_S)):
            try:
                return self._urls.get(timeout=1.0)
            except Empty:
                if self._process.poll() is not None:
                    break
        raise self.failure()

    def failure(self) -> RefusedError:
        """Return the error for a service that does not run."""
        self._reader.join(1.0)
        lines = "".join(self._last_lines).rstrip()
        return RefusedError(f"The service is not running:\n{lines}", f"See {self._log.name}.")

    def wait(self) -> None:
        """Wait until the service ends by itself.

        Raises
        ------
        RefusedError
            When it has ended.
        """
        self._process.wait()
        raise self.failure()

    def end(self) -> None:
        """Shut the service and its fitter down cleanly."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reader.join(_END_TIMEOUT_S)


@contextmanager
def background_service(settings: Settings, log: Path) -> Iterator[BackgroundService]:
    """Run service and fitter as a process that ends with the block or with this process.

    Raises
    ------
    RefusedError
        If the log cannot be written.
    """
    try:
        log_file = log.open("w", encoding="utf-8")
    except OSError as error:
        raise RefusedError(
            f"Cannot write {log}: {error.strerror}.",
            "Set TRAINFARE_DATA_DIR to a writable folder: it holds the log of the service.",
        ) from None
    text_log = settings.model_copy(update={"log_format": "text", "log_level": "INFO"})
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
        module_command("app.cli", "serve", "--with-fitter", "--supervised"),
        env=environment_of(text_log),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    service = BackgroundService(process, log_file)
    try:
        yield service
    finally:
        service.end()
