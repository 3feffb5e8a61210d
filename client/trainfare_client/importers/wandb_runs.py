"""Finds the runs that Weights & Biases keeps in its local folders."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.expressions import as_float
from trainfare_client.importers.faults import SourceError
from trainfare_client.importers.wandb_log import Message, fields_of, read_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SUMMARY, _CONFIG, _STATS, _RUN, _EXIT, _PREEMPTING, _ENVIRONMENT = 3, 5, 7, 17, 18, 23, 26
"""Fields of a record, as the constants of other messages below: wandb_internal.proto."""

_READ: Final = frozenset({_SUMMARY, _CONFIG, _STATS, _RUN, _EXIT, _PREEMPTING, _ENVIRONMENT})
_UPDATE, _REMOVE, _KEY, _NESTED_KEY, _JSON = 1, 2, 1, 2, 16
_STATS_ITEM: Final = 3
_RUN_ID, _PROJECT, _RUN_CONFIG, _RUN_SUMMARY, _GROUP, _JOB_TYPE, _NAME, _HOST = (
    1, 3, 4, 5, 6, 7, 8, 13,
)  # fmt: skip
_START_TIME, _RUN_GIT, _COMMIT = 17, 21, 2
_EXIT_CODE, _EXIT_RUNTIME = 1, 2
_ENVIRONMENT_GIT, _GPU_TYPE, _GPU_COUNT = 9, 18, 19
_PROCESS_GPU: Final = "gpu.process."
_MAX_METADATA_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 20
_FOLDERS: Final = ("run-*", "offline-run-*")
_REMEDY: Final = "Name the folder wandb, one of its runs, or a file run-ID.wandb."


@dataclass
class WandbRun:
    """A session of a run, as its log tells it.

    Attributes
    ----------
    exit_code
        None if it did not end by itself, or has not ended.
    runtime_s
        Its duration: whole seconds at its end, or more precisely at its last metrics.
    config, summary
        Flat, with the names of inner members behind dots.
    gpus_used
        The GPUs on which the processes of the run were seen.
    """

    place: str
    run_id: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    host: str = ""
    commit: str = ""
    started_s: float | None = None
    exit_code: int | None = None
    runtime_s: float = 0.0
    is_preempted: bool = False
    gpu_type: str = ""
    gpu_count: int = 0
    gpus_used: set[str] = field(default_factory=set)
    config: dict[str, str] = field(default_factory=dict)
    summary: dict[str, float] = field(default_factory=dict)


def in_order_of_sessions(logs: Iterable[Path]) -> list[Path]:
    """Return each log once, in the order of the sessions that wrote them."""
    # `latest-run` points to one of the others.
    distinct = {log.resolve(): log for log in logs}
    return [distinct[file] for file in sorted(distinct, key=_session_of)]


def _session_of(log: Path) -> tuple[str, str]:
    return log.parent.name.removeprefix("offline-"), log.name


def find_logs(path: str) -> list[Path]:
    """Return the logs at a path.

    Raises
    ------
    SourceError
        If there is no such path, or there are none.
    """
    place = Path(path)
    try:
        place.stat()
    except OSError as error:
        raise SourceError(
            path, f"It cannot be read: {error.strerror}.", "Check the path."
        ) from None
    if place.is_file():
        return [place]
    logs = _logs_in(place) or _logs_in(place / "wandb")
    if not logs:
        raise SourceError(path, "There are no runs of Weights & Biases in it.", _REMEDY)
    return logs


def _logs_in(folder: Path) -> list[Path]:
    sessions = [session for name in _FOLDERS for session in folder.glob(name)]
    return [log for session in (folder, *sessions) for log in session.glob("run-*.wandb")]


def read_run(log: Path) -> WandbRun:
    """Return the run of a log.

    Raises
    ------
    SourceError
        If it cannot be read.
    """
    run = WandbRun(str(log))
    try:
        with log.open("rb") as file:
            for message in read_log(str(log), file):
                for number, parts in fields_of(message).items():
                    if number in _READ:
                        _take(run, number, fields_of(_bytes(parts)))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise SourceError(str(log), f"It cannot be read: {error}.", _REMEDY) from None
    _complete(run, log.parent / "files" / "wandb-metadata.json")
    return run


def _take(run: WandbRun, number: int, record: Message) -> None:
    if number == _RUN:
        _take_run(run, record)
    elif number == _CONFIG:
        _configure(run, record)
    elif number == _SUMMARY:
        _summarize(run, record)
    elif number == _STATS:
        keys = (_text(fields_of(_bytes([item])), _KEY) for item in record.get(_STATS_ITEM, []))
        seen = (key.split(".")[2] for key in keys if key.startswith(_PROCESS_GPU))
        run.gpus_used.update(seen)
    elif number == _ENVIRONMENT:
        run.gpu_type = _text(record, _GPU_TYPE) or run.gpu_type
        run.gpu_count = _number(record, _GPU_COUNT) or run.gpu_count
        run.commit = run.commit or _text(_inner(record, _ENVIRONMENT_GIT), _COMMIT)
    elif number == _PREEMPTING:
        run.is_preempted = True
    else:
        run.exit_code = _number(record, _EXIT_CODE)
        run.runtime_s = max(run.runtime_s, float(_number(record, _EXIT_RUNTIME)))


def _take_run(run: WandbRun, record: Message) -> None:
    run.run_id = _text(record, _RUN_ID) or run.run_id
    run.project = _text(record, _PROJECT) or run.project
    run.group = _text(record, _GROUP) or run.group
    run.job_type = _text(record, _JOB_TYPE) or run.job_type
    run.name = _text(record, _NAME) or run.name
    run.host = _text(record, _HOST) or run.host
    run.commit = _text(_inner(record, _RUN_GIT), _COMMIT) or run.commit
    if run.started_s is None and _START_TIME in record:
        instant = _inner(record, _START_TIME)
        run.started_s = _number(instant, 1) + _number(instant, 2) * 1e-9
    _configure(run, _inner(record, _RUN_CONFIG))
    _summarize(run, _inner(record, _RUN_SUMMARY))


def _configure(run: WandbRun, record: Message) -> None:
    for name, value in _entries(record):
        if not name.startswith("_"):  # its own members
            _forget(run, name)
            run.config.update(_flat(name, value))
    for item in record.get(_REMOVE, []):
        _forget(run, _name(fields_of(_bytes([item]))))


def _forget(run: WandbRun, member: str) -> None:
    for name in [name for name in run.config if f"{name}.".startswith(f"{member}.")]:
        del run.config[name]


def _summarize(run: WandbRun, record: Message) -> None:
    for name, value in _entries(record):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = as_float(value)
            if not math.isfinite(number):
                run.summary.pop(name, None)
            elif name == "_runtime":
                run.runtime_s = max(run.runtime_s, number)
            elif not name.startswith("_"):
                run.summary[name] = number


def _entries(record: Message) -> Iterator[tuple[str, Any]]:
    for item in record.get(_UPDATE, []):
        entry = fields_of(_bytes([item]))
        name, text = _name(entry), _text(entry, _JSON)
        if name and text:
            yield name, json.loads(text)


def _name(entry: Message) -> str:
    nested = [_decoded(part) for part in entry.get(_NESTED_KEY, [])]
    return ".".join(nested) or _text(entry, _KEY)


def _flat(name: str, value: Any, depth: int = 0) -> dict[str, str]:
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        inner = (_flat(f"{name}.{key}", member, depth + 1) for key, member in value.items())
        return {key: text for members in inner for key, text in members.items()}
    if value is None:
        return {}
    return {name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))}


def _complete(run: WandbRun, metadata: Path) -> None:
    """Take from the metadata's file what older versions do not write to the log."""
    if run.gpu_type or not metadata.is_file():
        return
    try:
        with metadata.open("rb") as file:
            document = json.loads(file.read(_MAX_METADATA_BYTES))
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    gpu, count, git = document.get("gpu"), document.get("gpu_count"), document.get("git")
    run.gpu_type = gpu if isinstance(gpu, str) else ""
    run.gpu_count = count if type(count) is int else 0
    commit = git.get("commit") if isinstance(git, dict) else None
    run.commit = run.commit or (commit if isinstance(commit, str) else "")


def _bytes(values: Iterable[int | bytes]) -> bytes:
    """Return the parts of a message as one: later parts take precedence."""
    parts = list(values)
    if not all(isinstance(part, bytes) for part in parts):
        raise TypeError("a number where a message belongs")
    return b"".join(part for part in parts if isinstance(part, bytes))


def _inner(record: Message, number: int) -> Message:
    return fields_of(_bytes(record.get(number, [])))


def _text(record: Message, number: int) -> str:
    values = record.get(number, [])
    return _decoded(values[-1]) if values else ""


def _decoded(value: int | bytes) -> str:
    return _bytes([value]).decode()


def _number(record: Message, number: int) -> int:
    value = record.get(number, [0])[-1]
    if not isinstance(value, int):
        raise TypeError("bytes where a number belongs")
    return value
