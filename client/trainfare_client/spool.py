"""A file that keeps runs while the service is away: append-only JSON lines, safe in a crash."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.documents import UploadAnswer
from trainfare_client.errors import SpoolError
from trainfare_client.requests import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import filelock

    from trainfare_client.documents import MeasuredRun

_PATIENCE_S: Final = 10.0
_NEWLINE: Final = b"\n"
_REQUIRED_FIELDS: Final = (
    frozenset({"workload", "duration_seconds"}),
    frozenset({"workload", "started_at", "ended_at"}),
)
"""Every run has those of one set, and hardly anything else has."""


@dataclass
class FlushReport:
    """The outcome for the runs in the spool.

    Attributes
    ----------
    created, duplicates
        Runs stored now, and runs that had been stored before.
    refused
        Why the service refused runs for their content; they are kept beside the spool.
    unreadable
        Lines cut off by a crash or a full disk; they are kept beside the spool too.
    answers
        The service's answers, with the assessments.
    """

    created: int = 0
    duplicates: int = 0
    refused: list[str] = field(default_factory=list)
    unreadable: int = 0
    answers: list[UploadAnswer] = field(default_factory=list)

    def add(self, answer: UploadAnswer) -> None:
        """Count the runs of one request."""
        self.created += answer["created"]
        self.duplicates += answer["duplicates"]
        self.answers.append(answer)


class Spool:
    """Runs that wait for the service, in a file that several processes may append to.

    A flush moves the file aside, uploads it and removes it; appending continues meanwhile. If a
    flush dies, the next one takes over the moved file.

    Parameters
    ----------
    file
        The file with the runs.
    patience_s
        How long to wait for another process that uses it.

    Attributes
    ----------
    rejected
        The file beside it with what the service refused and what could not be read.
    """

    def __init__(self, file: Path, *, patience_s: float = _PATIENCE_S) -> None:
        self._file, self._patience_s = file, patience_s
        self._taken = file.with_suffix(".taken" + file.suffix)
        self.rejected = file.with_suffix(".rejected" + file.suffix)
        self._broken_lines: list[str] = []

    def append(self, runs: Sequence[MeasuredRun]) -> None:
        """Add runs; they are on the disk when this returns.

        Raises
        ------
        SpoolError
            If they cannot be written. The earlier content of the spool is unchanged.
        """
        with self._translated_errors(), self._lock("append"):
            _append_lines(self._file, [encoded(run) for run in runs])

    def withdraw(self, run: MeasuredRun) -> None:
        """Take back the run appended last; if others came after it, it stays.

        Raises
        ------
        SpoolError
            If the spool cannot be changed.
        """
        line = encoded(run) + _NEWLINE
        with self._translated_errors(), self._lock("append"):
            if not self._file.exists():
                return
            with self._file.open("r+b") as stream:
                start = max(stream.seek(0, os.SEEK_END) - len(line), 0)
                stream.seek(start)
                if stream.read() == line:
                    stream.truncate(start)

    def waiting(self) -> int:
        """Return how many runs wait, including those of a flush that died."""
        with self._translated_errors():
            return sum(len(_read_lines(file)[0]) for file in (self._taken, self._file))

    @contextlib.contextmanager
    def flushing(self) -> Iterator[None]:
        """Keep other flushes out.

        Raises
        ------
        SpoolError
            If another one takes too long.
        """
        with self._translated_errors():
            lock = self._lock("flush")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def take(self, report: FlushReport) -> list[MeasuredRun] | None:
        """Move the file aside and return its runs; None if there is none.

        Raises
        ------
        SpoolError
            If it is not a spool: a file of something else is left as it is.
        """
        with self._translated_errors():
            if not self._taken.exists():
                with self._lock("append"):
                    if not self._file.exists():
                        return None
                    self._check_form()
                    self._file.replace(self._taken)
            runs, broken = _read_lines(self._taken)
        report.unreadable += len(broken)
        self._broken_lines = broken
        return runs

    def take_all(self, report: FlushReport) -> list[MeasuredRun]:
        """Move everything aside, adding to what a flush that died left, and return its runs.

        Raises
        ------
        SpoolError
            If it is not a spool, or cannot be moved: nothing is lost then.
        """
        with self._translated_errors(), self._lock("append"):
            if self._taken.exists() and self._file.exists():
                self._check_form()
                # A crash between these two leaves runs in both files: by their ids they count once.
                _append_lines(self._taken, self._file.read_bytes().splitlines())
                self._file.unlink()
        return self.take(report) or []

    def drop_taken(self) -> None:
        """Remove the file moved aside: its runs are stored, its broken lines kept."""
        with self._translated_errors():
            entries = [
                {"reason": "the line is not a run", "line": line} for line in self._broken_lines
            ]
            if entries:
                _append_lines(self.rejected, [encoded(entry) for entry in entries])
            self._taken.unlink(missing_ok=True)

    def reject(self, run: MeasuredRun, reason: str) -> None:
        """Keep a run that the service refused, with the reason, for a person to examine."""
        with self._translated_errors():
            _append_lines(self.rejected, [encoded({"reason": reason, "run": run})])

    def _check_form(self) -> None:
        lines = [line for line in self._file.read_bytes().splitlines() if line.strip()]
        runs = sum(_parsed_run(line) is not None for line in lines)
        truncated = sum(_is_truncated(line) for line in lines)
        # A README may show a run, and every line of a configuration may look like part of one:
        # most of what is moved aside must be runs.
        if lines and not (runs and 2 * runs >= len(lines) - truncated):
            raise SpoolError(
                f"{self._file} is not a spool: {runs} of its {len(lines)} lines are runs.",
                "Set TRAINFARE_SPOOL to the spool file; `trainfare upload` takes other files.",
            )

    def _lock(self, purpose: str) -> filelock.BaseFileLock:
        import filelock  # noqa: PLC0415 - not needed until something is spooled

        self._file.parent.mkdir(parents=True, exist_ok=True)
        name = f"{self._file}.{purpose}.lock"
        return filelock.FileLock(name, timeout=self._patience_s)

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._spool_error(error) from error

    def _spool_error(self, error: OSError) -> SpoolError:
        # filelock's timeout is an OSError too, but without an errno.
        if isinstance(error, TimeoutError) and error.errno is None:
            return SpoolError(
                f"The spool {self._file} is in use: another process flushes it or writes to it.",
                "Try again when that has ended.",
            )
        return SpoolError(
            f"The spool {self._file} cannot be used: {error}.",
            "Free disk space, or set TRAINFARE_SPOOL to another file.",
        )


def _append_lines(file: Path, lines: Sequence[bytes]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # If the disk fills up, bytes past the old end are removed, so that no line is ever partial.
    with file.open("ab", buffering=0) as stream:
        end = stream.seek(0, os.SEEK_END)
        separator = b"" if _ends_a_line(file, end) else _NEWLINE
        try:
            _write_all(stream, separator + b"".join(line + _NEWLINE for line in lines))
            os.fsync(stream.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                stream.truncate(end)
            raise


def _write_all(stream: Any, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[stream.write(remaining) :]


def _ends_a_line(file: Path, size: int) -> bool:
    if size == 0:
        return True
    with file.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == _NEWLINE


def _read_lines(file: Path) -> tuple[list[MeasuredRun], list[str]]:
    """Return a file's runs and its broken lines."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return [], []
    # A run whose append was interrupted by a signal may be there twice.
    lines = dict.fromkeys(line for line in content.split(_NEWLINE) if line.strip())
    parsed = [(line, _parsed_run(line)) for line in lines]
    runs = [run for _, run in parsed if run is not None]
    return runs, [line.decode(errors="backslashreplace") for line, run in parsed if run is None]


def _parsed_run(line: bytes) -> MeasuredRun | None:
    try:
        run = json.loads(line)
        # Python reads NaN and 1e400, which no request may contain.
        encoded(run)
    except ValueError:
        return None
    is_run = isinstance(run, dict) and any(run.keys() >= names for names in _REQUIRED_FIELDS)
    return run if is_run else None


def _is_truncated(line: bytes) -> bool:
    """Return whether a line may be the start of a run cut off by a crash."""
    return line.startswith(b'{"') and not line.endswith(b"}") and _parsed_run(line) is None
