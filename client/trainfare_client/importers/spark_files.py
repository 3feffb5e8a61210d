"""Finds Spark's event logs: single files, rolling folders, folders of either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainfare_client.importers.faults import SourceError
from trainfare_client.importers.opening import STDIN

if TYPE_CHECKING:
    from collections.abc import Iterator

_PART: Final = re.compile(r"events_(\d+)_(?P<rest>.+)")
_IN_PROGRESS: Final = ".inprogress"
_COMPACT: Final = ".compact"


@dataclass(frozen=True)
class SparkLog:
    """The event log of one application, in the order of its files.

    Attributes
    ----------
    name
        The file, or the folder of a rolling log.
    files
        The files to read.
    is_in_progress
        Whether Spark marks it as still being written, so that its end may be cut.
    is_compacted
        Whether Spark has dropped events of finished jobs.
    """

    name: str
    files: Sequence[str]
    is_in_progress: bool = False
    is_compacted: bool = False


def find_logs(path: str, above: frozenset[Path] = frozenset()) -> Iterator[SparkLog]:
    """Yield the logs at a path: of one application, or of all in a folder.

    Links to one of the folders `above` are passed over: they lead round in circles.

    Raises
    ------
    SourceError
        If there is none, a folder cannot be read, or a part of a rolling log is missing.
    """
    folder = Path(path)
    if path == STDIN or not folder.is_dir():
        yield SparkLog(path, [path], is_in_progress=path.endswith(_IN_PROGRESS))
        return
    above |= {folder.resolve()}
    entries = [entry for entry in _entries(folder) if not entry.name.startswith(".")]
    if any(_PART.fullmatch(entry.name) for entry in entries):
        yield _rolling(folder, entries)
        return
    if not entries:
        raise SourceError(path, "The folder is empty.", "Name Spark's spark.eventLog.dir.")
    for entry in entries:
        if not entry.is_dir() or entry.resolve() not in above:
            yield from find_logs(str(entry), above)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise SourceError(
            str(folder), f"It cannot be read: {error.strerror}.", "Check its permissions."
        ) from None


def _rolling(folder: Path, entries: Sequence[Path]) -> SparkLog:
    parts: dict[int, Path] = {}
    compacted = 0
    for entry in entries:
        match = _PART.fullmatch(entry.name)
        if not match:
            continue
        number = int(match[1])
        if entry.name.endswith(_COMPACT):
            compacted = max(compacted, number)
            parts[number] = entry
        else:
            parts.setdefault(number, entry)
    kept = sorted(number for number in parts if number >= compacted)
    _check_whole(folder, kept, compacted or 1)
    return SparkLog(
        str(folder),
        [str(parts[number]) for number in kept],
        is_in_progress=any(folder.glob(f"appstatus_*{_IN_PROGRESS}")),
        is_compacted=bool(compacted),
    )


def _check_whole(folder: Path, numbers: Sequence[int], first: int) -> None:
    present = set(numbers)
    # Only up to the first gap: a number in a name may be of any size.
    missing = next((part for part in range(first, numbers[-1]) if part not in present), None)
    if missing is not None:
        raise SourceError(
            str(folder),
            f"Its part events_{missing}_... is missing.",
            "Copy the whole folder.",
        )
