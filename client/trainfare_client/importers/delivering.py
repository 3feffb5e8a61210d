"""Uploads the rows of an import in one request: all are stored or none."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainfare_client._sync.client import Client
from trainfare_client.errors import ProblemError, RunConflictError
from trainfare_client.importers.faults import MAX_NAMED, Fault, ImportRefusedError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Mapping, Sequence

    from trainfare_client.documents import UploadAnswer
    from trainfare_client.importers.rows import RowFile

_MAX_BYTES: Final = 64 << 20


def upload(rows: RowFile, options: argparse.Namespace, names: Collection[str]) -> UploadAnswer:
    """Upload all rows and return the answer; its bad rows, if they are skipped, have a `place`.

    Rows that differ from a stored run in nothing but the fields `names`, which the source lets one
    change after a run, are already there.

    The rows have stable keys, so that an import can be repeated; the answer says what was already
    there.

    Raises
    ------
    ImportRefusedError
        If there are too many rows for one request, or the service refuses some.
    ProblemError, UnreachableError
        If the service refuses all or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="trainfare-import-") as folder:
        file = Path(folder) / "runs.csv"
        with file.open("w", encoding="utf-8", newline="") as target:
            rows.write_csv(target)
        if file.stat().st_size > _MAX_BYTES:
            raise ImportRefusedError(
                f"The {rows.count:,} runs are more than one request holds (64 MiB).",
                "Import fewer files at a time; what was imported before is not stored twice.",
            )
        with Client(options.url, options.api_key) as client:
            try:
                answer = _upload(client, file, names, skip_invalid=options.skip_invalid)
            except ProblemError as error:
                raise _with_places(rows, error) from error
    return _placed(rows, answer)


def _upload(
    client: Client, file: Path, names: Collection[str], *, skip_invalid: bool
) -> UploadAnswer:
    try:
        answer = client.runs.upload_file(file, skip_invalid=skip_invalid)
    except RunConflictError as error:
        rows = {fault.get("row") for fault in error.errors}
        if len(error.errors) >= MAX_NAMED or rows != _renamed(error.errors, names):
            raise
        answer = client.runs.upload_file(file, skip_invalid=True)
    return _keeping_names(answer, names)


def _keeping_names(answer: UploadAnswer, names: Collection[str]) -> UploadAnswer:
    """Count the rows of renamed runs as duplicates, with a warning."""
    renamed = _renamed(answer["invalid"], names)
    warning = {
        "code": "names_kept",
        "message": "Stored runs keep the names that the source has changed since"
        f" ({', '.join(sorted(names))}).",
        "remedy": "PATCH /v1/runs/{run} changes them.",
        "rows": sorted(renamed),
        "count": len(renamed),
    }
    return {
        **answer,
        "duplicates": answer["duplicates"] + len(renamed),
        "invalid": [fault for fault in answer["invalid"] if fault.get("row") not in renamed],
        "invalid_count": answer["invalid_count"] - len(renamed),
        "warnings": [*answer["warnings"], *([warning] if renamed else [])],
    }


def _renamed(faults: Sequence[Mapping[str, Any]], names: Collection[str]) -> set[int]:
    """Return the rows that have no fault besides those of `names`."""
    others = {fault.get("row") for fault in faults if fault.get("field") not in names}
    return {fault["row"] for fault in faults if fault.get("row") not in others}


def _placed(rows: RowFile, answer: UploadAnswer) -> UploadAnswer:
    places = rows.places(row["row"] for row in answer["invalid"] if row.get("row"))
    invalid = [{**row, "place": places.get(row.get("row") or 0)} for row in answer["invalid"]]
    return {**answer, "invalid": invalid}


def _with_places(rows: RowFile, error: ProblemError) -> Exception:
    numbered = [fault for fault in error.errors if fault.get("row") is not None]
    if not numbered:
        return error
    places = rows.places(fault["row"] for fault in numbered)
    faults = tuple(Fault.from_problem(places.get(fault["row"], ""), fault) for fault in numbered)
    return ImportRefusedError(
        f"{error.title} ({error.status} {error.code}): {error.detail}",
        "Nothing was imported. Correct them, or import the others with --skip-invalid.",
        faults=faults,
    )
