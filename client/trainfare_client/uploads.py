"""Converts runs and files of runs to requests, in pieces if they are many."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trainfare_client.errors import UploadFileError, problem_error
from trainfare_client.requests import Request, encoded, idempotency_header, path_of

if TYPE_CHECKING:
    from trainfare_client.documents import MeasuredRun, UploadAnswer
    from trainfare_client.errors import ProblemError

T = TypeVar("T")

_CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
}
_EXPECTED_FIELD: Final = "created"
_ENCODINGS: Final[Mapping[str, str]] = {".gz": "gzip", ".zst": "zstd"}


def runs_upload(
    runs: MeasuredRun | Iterable[MeasuredRun],
    *,
    params: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
    offset: int = 0,
) -> Request[UploadAnswer]:
    """Return the request that uploads runs as JSON lines, after `offset` runs of earlier ones.

    Raises
    ------
    BadNumberError
        If a number is infinite or NaN, as pandas writes missing values.
    """
    rows = enumerate(_as_list(runs), start=offset + 1)
    lines = b"".join(encoded(run, f"Row {row}: ") + b"\n" for row, run in rows)
    headers = {"Content-Type": "application/x-ndjson", **idempotency_header(idempotency_key)}
    return Request(
        "POST",
        path_of("runs"),
        list((params or {}).items()),
        headers,
        lines,
        expected_field=_EXPECTED_FIELD,
    )


def file_upload(
    file: Path | str,
    *,
    params: Mapping[str, str],
    idempotency_key: str | None,
) -> Request[UploadAnswer]:
    """Return the request that uploads a file unchanged.

    Raises
    ------
    UploadFileError
        If the name shows no type that the service reads, or the file cannot be read.
    """
    path = Path(file)
    headers = _file_headers(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UploadFileError(
            f"{path} cannot be read: {error.strerror}.", "Check the path."
        ) from error
    headers |= idempotency_header(idempotency_key)
    query = list(params.items())
    return Request("POST", path_of("runs"), query, headers, content, expected_field=_EXPECTED_FIELD)


def with_external_ids(runs: MeasuredRun | Iterable[MeasuredRun]) -> list[MeasuredRun]:
    """Return the runs with an `external_id` each, so that none is ever stored twice."""
    return [
        run if has_external_id(run) else {**run, "external_id": f"client-{uuid.uuid4()}"}
        for run in _as_list(runs)
    ]


def has_external_id(run: Mapping[str, Any]) -> bool:
    """Return whether a run has an `external_id`, under either of its names."""
    return any(run.get(name) for name in ("external_id", "run_id"))


def chunked(items: Iterable[T], size: int) -> Iterator[tuple[int, list[T]]]:
    """Yield lists of at most `size` items, each with the number of items before it.

    Raises
    ------
    ValueError
        If `size` is less than 1.

    Examples
    --------
    >>> list(chunked("abc", 2))
    [(0, ['a', 'b']), (2, ['c'])]
    """
    if size < 1:
        raise ValueError(f"A request holds at least one run, not {size}.")
    source = iter(items)
    for index in itertools.count():
        chunk = list(itertools.islice(source, size))
        if not chunk:
            return
        yield index * size, chunk


def merged(answers: Sequence[tuple[int, UploadAnswer]]) -> UploadAnswer:
    """Return one answer for several requests; rows are numbered from the first request on."""
    runs = [
        {**run, "row": run["row"] + offset}
        for offset, answer in answers
        for run in answer["runs"] or ()
    ]
    invalid = [row for offset, answer in answers for row in _numbered(answer["invalid"], offset)]
    document: dict[str, Any] = {
        "created": sum(answer["created"] for _, answer in answers),
        "duplicates": sum(answer["duplicates"] for _, answer in answers),
        "dry_run": False,
        "runs": None if any(answer["runs"] is None for _, answer in answers) else runs,
        "invalid": invalid,
        "invalid_count": sum(answer["invalid_count"] for _, answer in answers),
        "warnings": [warning for _, answer in answers for warning in answer["warnings"]],
    }
    return document  # type: ignore[return-value] # built from answers, field by field


def refusal_after(offset: int, error: ProblemError) -> ProblemError:
    """Return the refusal of one of several requests; rows are numbered from the first request on.

    Parameters
    ----------
    offset
        The number of runs in the requests before it.
    """
    document = {**error.document, "errors": _numbered(error.errors, offset)}
    return problem_error(error.status, document, retry_after_s=error.retry_after_s)


def _numbered(faults: Iterable[Mapping[str, Any]], offset: int) -> list[Mapping[str, Any]]:
    return [
        {**fault, "row": fault["row"] + offset} if fault.get("row") is not None else fault
        for fault in faults
    ]


def _as_list(runs: MeasuredRun | Iterable[MeasuredRun]) -> list[MeasuredRun]:
    if isinstance(runs, Mapping):
        return [runs]  # type: ignore[list-item] # a mapping here is one run
    return list(runs)


def _file_headers(path: Path) -> dict[str, str]:
    encoding = _ENCODINGS.get(path.suffix.casefold())
    plain = path.with_suffix("") if encoding else path
    content_type = _CONTENT_TYPES.get(plain.suffix.casefold())
    if content_type is None:
        raise UploadFileError(
            f"{path}: the name shows no file type.",
            f"Name it {', '.join(_CONTENT_TYPES)}, each also with .gz or .zst.",
        )
    return {"Content-Type": content_type, **({"Content-Encoding": encoding} if encoding else {})}
