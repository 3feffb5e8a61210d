"""Runs the command line in this process and captures output and exit code."""

import gc
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from app import cli


@dataclass(frozen=True)
class CommandResult:
    """The output of a command and its exit code."""

    out: str
    err: str
    exit_code: int

    @property
    def document(self) -> Any:
        """The JSON that the command printed."""
        return json.loads(self.out)


def _loggers() -> Iterator[logging.Logger]:
    yield logging.root
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield logger


@contextmanager
def restored_process() -> Iterator[None]:
    """Restore what a command changes of its process, which tests share: logging, the collector."""
    saved = {logger: (logger.level, logger.handlers[:]) for logger in _loggers()}
    try:
        yield
    finally:
        # `serve` lets it rest while it starts; a test that has it refused would leave it so.
        gc.enable()
        for logger in _loggers():
            level, handlers = saved.get(logger, (logging.NOTSET, []))
            logger.setLevel(level)
            logger.handlers[:] = handlers


class Terminal:
    """Runs `trainfare ...` with settings as environment variables."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def set(self, **settings: object) -> None:
        """Set `TRAINFARE_*` variables for the following commands."""
        for name, value in settings.items():
            self._monkeypatch.setenv(f"TRAINFARE_{name.upper()}", str(value))

    def type(self, *arguments: object) -> CommandResult:
        """Run one command to its end."""
        self._monkeypatch.setattr("sys.argv", ["trainfare", *(str(word) for word in arguments)])
        self._capsys.readouterr()
        exit_code = 0
        with restored_process():
            try:
                cli.main()
            except SystemExit as end:
                exit_code = int(end.code or 0)
        captured = self._capsys.readouterr()
        return CommandResult(captured.out, captured.err, exit_code)
