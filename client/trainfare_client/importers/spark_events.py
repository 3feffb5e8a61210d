"""Reads the events of a Spark log, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.faults import SourceError
from trainfare_client.importers.lines import byte_lines, parsed
from trainfare_client.importers.opening import TruncatedError, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainfare_client.importers.spark_files import SparkLog

Event = dict[str, Any]
_BEGINNING: Final = b'{"Event"'


def read_events(log: SparkLog) -> Iterator[tuple[str, Event]]:
    """Yield the events of a log with their places.

    What a killed driver leaves is read as far as possible: the last line may be cut, and the last
    compressed block if Spark marks the log as in progress.

    Raises
    ------
    SourceError
        If a line is not an event, or a file cannot be read.
    """
    last = log.files[-1]
    for path in log.files:
        yield from _read_file(path, may_be_cut=path == last, log=log)


def _read_file(path: str, *, may_be_cut: bool, log: SparkLog) -> Iterator[tuple[str, Event]]:
    failure: SourceError | None = None
    has_ended = False
    with opened(path) as file:
        try:
            for place, line in byte_lines(file, path):
                if failure is not None:
                    raise failure
                if not line.strip():
                    continue
                event, failure = _event(place, line)
                if event is not None:
                    has_ended = has_ended or event["Event"] == "SparkListenerApplicationEnd"
                    yield place, event
        except TruncatedError:
            if not (may_be_cut and log.is_in_progress):
                raise
    # Only a last line that starts as an event can be one that was being written.
    if failure is not None and (not may_be_cut or has_ended or not _begins_event(line)):
        raise failure


def _begins_event(line: bytes) -> bool:
    """Whether a line starts as an event does, however short it was cut."""
    return _BEGINNING.startswith(line[: len(_BEGINNING)])


def _event(place: str, line: bytes) -> tuple[Event | None, SourceError | None]:
    try:
        event = parsed(place, line)
    except SourceError as error:
        return None, error
    if not isinstance(event, dict) or not isinstance(event.get("Event"), str):
        raise SourceError(
            place,
            "The line is not an event of a Spark log.",
            "Name event logs (spark.eventLog.dir), not driver or executor logs.",
        )
    return event, None


def mapping_in(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under a name, an empty one if there is none."""
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(event: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list under a name, none if there is no list."""
    values = event.get(name)
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def whole(event: Mapping[str, Any], name: str) -> int:
    """Return the whole number under a name, 0 if there is none.

    Raises
    ------
    ValueError
        If it is something else.
    """
    value = event.get(name, 0)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1 << 62:
        raise ValueError(f"{name} is {str(value)[:40]!r} and not a whole number")
    return value


def text(event: Mapping[str, Any], name: str) -> str:
    """Return the text under a name, an empty one if there is none."""
    value = event.get(name)
    return value if isinstance(value, str) else ""
