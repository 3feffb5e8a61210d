"""Reads MLflow's folder of files, with a file for each parameter, metric and tag."""

from __future__ import annotations

import codecs
import json
import math
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.faults import SourceError
from trainfare_client.importers.lines import text_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_META: Final = "meta.yaml"
_MAX_BYTES: Final = 1 << 20
_ENTRY: Final = re.compile(r"([A-Za-z_]\w*):(?: (.*))?")
_STATUSES: Final = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}
_REMEDY: Final = (
    "Name MLflow's folder mlruns, or one of its experiments or runs. Newer versions keep them in"
    " the database mlflow.db, and only artifacts in mlruns: name the database then."
)


@dataclass
class MlflowRun:
    """A run as MLflow stores it; instants are milliseconds since 1970.

    Attributes
    ----------
    metrics, largest
        The last and the largest value of each metric; equal if only the last is known. Infinite and
        NaN values are left out.
    """

    place: str
    run_id: str
    experiment: str
    status: str
    start_ms: int | None
    end_ms: int | None
    is_deleted: bool = False
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


def read_folder(folder: Path, experiment: str | None = None) -> Iterator[MlflowRun]:
    """Yield the runs in a folder: a store, an experiment, or a run.

    Raises
    ------
    SourceError
        If it is none of them.
    """
    meta = _meta(folder)
    if meta.get("run_id") or meta.get("run_uuid"):
        yield _run(folder, meta, experiment or _name_of_experiment(folder.parent))
        return
    subfolders = [path for path in sorted(folder.iterdir()) if (path / _META).is_file()]
    if not subfolders and not meta:
        raise SourceError(str(folder), "There are no runs of MLflow in it.", _REMEDY)
    for path in subfolders:
        yield from read_folder(path, meta.get("name") or experiment)


def _name_of_experiment(folder: Path) -> str:
    return _meta(folder).get("name") or folder.name


def _meta(folder: Path) -> dict[str, str]:
    file = folder / _META
    if not file.is_file():
        return {}
    entries: dict[str, str] = {}
    name = ""
    for line in _text(file).splitlines():
        match = _ENTRY.fullmatch(line)
        if match:
            name = match[1]
            entries[name] = match[2] or ""
        elif name and line.startswith(" "):
            # Long words continue on the next line.
            entries[name] += f" {line.strip()}"
    return {name: _scalar(text.strip()) for name, text in entries.items()}


def _scalar(text: str) -> str:
    if text in {"null", "~"}:
        return ""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    return text


def _run(folder: Path, meta: dict[str, str], experiment: str) -> MlflowRun:
    run = MlflowRun(
        place=str(folder),
        run_id=meta.get("run_id") or meta["run_uuid"],
        experiment=experiment,
        status=_STATUSES.get(meta.get("status", ""), meta.get("status", "")),
        start_ms=whole_of(meta.get("start_time")),
        end_ms=whole_of(meta.get("end_time")),
        is_deleted=meta.get("lifecycle_stage") == "deleted",
        params=dict(_values(folder / "params")),
        tags=dict(_values(folder / "tags")),
    )
    for name, file in _files(folder / "metrics"):
        values = [_metric(file, line) for _, line in text_lines(str(file)) if line.strip()]
        finite = [value for value in values if is_value(value)]
        if finite:
            run.largest[name] = max(finite)
            if is_value(values[-1]):
                run.metrics[name] = values[-1]
    return run


def _values(folder: Path) -> Iterator[tuple[str, str]]:
    for name, file in _files(folder):
        yield name, _text(file)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def _metric(file: Path, line: str) -> float:
    parts = line.split()
    try:
        return float(parts[1])
    except (IndexError, ValueError):
        raise SourceError(
            str(file), f"{line[:60]!r} is not a value of a metric.", "Correct or remove the file."
        ) from None


def _text(file: Path) -> str:
    """Return the text of a file, or the beginning of a longer one, up to a whole character."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES)
            return codecs.utf_8_decode(content, "strict", not stream.read(1))[0]
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(str(file), f"It cannot be read: {error}.", _REMEDY) from None


def is_value(number: float) -> bool:
    """Return whether a metric's value is real: MLflow stores infinity as the largest number."""
    return math.isfinite(number) and abs(number) < sys.float_info.max


def whole_of(value: Any) -> int | None:
    """Return the whole number in a value, possibly as text; None if it is not one."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value, re.ASCII):
        return int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if is_whole and 0 < value < 1 << 60 else None
