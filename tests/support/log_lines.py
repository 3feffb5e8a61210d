"""Log lines as the service writes them."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

from app.cli.logs import JsonFormatter


class LogLines(logging.Handler):
    """Formats each record at once, in the thread or task that logs it, as the service does."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    @property
    def events(self) -> list[dict[str, Any]]:
        """The service's own log lines as parsed objects."""
        events = [json.loads(line) for line in self.lines]
        return [event for event in events if event["logger"].startswith("app.")]


@contextmanager
def log_lines(level: int = logging.INFO) -> Iterator[LogLines]:
    """Yield the lines that are logged within the block."""
    lines, root = LogLines(), logging.getLogger()
    previous_level = root.level
    root.addHandler(lines)
    root.setLevel(level)
    try:
        yield lines
    finally:
        root.setLevel(previous_level)
        root.removeHandler(lines)
