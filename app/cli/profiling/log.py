"""The resumable log of a profiling session: one JSON document per line, synced to disk."""

import fcntl
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from app.cli.failures import UsageError

Event = dict[str, Any]
_BEGINNING: Final = b'{"event":"session",'
_SCENARIO: Final = ("configuration", "work", "parameters")
_REPEATED: Final = frozenset({"cancelled"})
"""Statuses of runs that do not count as made and are repeated."""


def scenario_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a planned run that identify it, without absent values."""
    return {
        part: {
            name: value for name, value in (document.get(part) or {}).items() if value is not None
        }
        for part in _SCENARIO
    }


def instant_of(value: datetime | str | None) -> str | None:
    """Return an instant as it is sent, whether it was just noted or read from the log."""
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass
class Session:
    """The state of a session from its log: the request, the ended runs, and what is still open.

    Runs in `repeated` do not count as made, but are billed.
    """

    session_id: str
    workload: str
    request: dict[str, Any]
    finished: list[Event] = field(default_factory=list)
    repeated: list[Event] = field(default_factory=list)
    uploaded: set[str] = field(default_factory=set)
    skipped: list[Event] = field(default_factory=list)
    interrupted: Event | None = None
    is_fitted: bool = True
    stopped: Event | None = None

    @property
    def is_untouched(self) -> bool:
        """Whether nothing has happened yet, for example because the first plan was refused."""
        events = (self.finished, self.repeated, self.skipped, self.interrupted, self.stopped)
        return not any(events)

    def attempted(self) -> list[dict[str, Any]]:
        """Return the configurations whose runs ended in any way, or that cannot run here."""
        return [scenario_of(event) for event in (*self.finished, *self.skipped)]

    def paid(self) -> list[dict[str, Any]]:
        """Return what ran and for how long, including interrupted runs: all of it is billed."""
        return [
            {
                **scenario_of(event),
                "duration_seconds": event["duration_seconds"],
                "started_at": instant_of(event.get("started_at")),
            }
            for event in (*self.finished, *self.repeated)
        ]

    def pending(self) -> list[Event]:
        """Return the runs that ended but are not uploaded yet."""
        return [event for event in self.finished if event["external_id"] not in self.uploaded]

    def note(self, event: Event) -> None:
        """Apply one event of the log."""
        match event["event"]:
            case "started":
                self.interrupted, self.stopped = event, None
            case "finished":
                self.interrupted = None
                is_made = event["status"] not in _REPEATED
                (self.finished if is_made else self.repeated).append(event)
            case "uploaded":
                self.uploaded.add(event["external_id"])
                self.is_fitted = False
            case "removed":
                # The service lost the workload, and with it what was uploaded.
                self.uploaded.clear()
            case "fitted":
                self.is_fitted = True
            case "skipped":
                self.skipped.append(event)
            case "stopped":
                self.stopped = event
            case _:
                raise KeyError(event["event"])


def _session_of(lines: Sequence[bytes]) -> Session:
    first, *others = [orjson.loads(line) for line in lines]
    session = Session(first["session_id"], first["workload"], first["request"])
    for event in others:
        session.note(event)
    return session


class SessionLog:
    """Appends events to a file and reads them back.

    A last line that a crash truncated is discarded: its event did not happen.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def outputs(self) -> Path:
        """The folder for what the runs print, beside the log."""
        path = self.path
        return path.with_suffix("") if path.suffix else path.with_name(f"{path.name}-output")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other sessions out of the log during the block.

        Raises
        ------
        UsageError
            If one is using it, or it cannot be written.
        """
        try:
            file = self.path.open("ab")
        except OSError as error:
            raise UsageError(
                f"The log {self.path} cannot be written: {error.strerror}.",
                "Name another file with --log.",
            ) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"A session with the log {self.path} is running.",
                    "Wait for its end, or name another file with --log.",
                ) from None
            except OSError:
                # Some network file systems have no locks.
                pass
            yield

    def read(self) -> Session | None:
        """Return the session in the file, None if there is none.

        Raises
        ------
        UsageError
            If the file is not the log of a profiling session.
        """
        content = self._content()
        complete, _, partial = content.rpartition(b"\n")
        try:
            session = _session_of(complete.splitlines()) if complete else None
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise self._not_a_log() from None
        if partial:
            os.truncate(self.path, len(complete) + bool(complete))
        return session

    def _content(self) -> bytes:
        """Return the file's content, which is empty or begins as a log does: nothing else is lost.

        Raises
        ------
        UsageError
            If it holds something else.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        if not content.startswith(_BEGINNING[: len(content)]):
            raise self._not_a_log()
        return content

    def _not_a_log(self) -> UsageError:
        return UsageError(
            f"{self.path} is not the log of a profiling session.", "Name another file with --log."
        )

    def begin(self, workload: str, request: Mapping[str, Any]) -> Session:
        """Start a new session, replacing the file's content.

        Raises
        ------
        UsageError
            If the file is not the log of a profiling session.
        """
        self._content()
        # A new file would not be the claimed one.
        self.path.write_bytes(b"")
        session = Session(uuid.uuid4().hex[:12], workload, dict(request))
        self._write(
            {
                "event": "session",
                "session_id": session.session_id,
                "workload": workload,
                "request": request,
            }
        )
        return session

    def append(self, session: Session, event: str, **members: Any) -> None:
        """Write an event and apply it to the session."""
        document = {"event": event, **members}
        self._write(document)
        session.note(document)

    def _write(self, document: Mapping[str, Any]) -> None:
        stamped = {**document, "at": datetime.now(UTC)}
        line = orjson.dumps(stamped, option=orjson.OPT_UTC_Z) + b"\n"
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
