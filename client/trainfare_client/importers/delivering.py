"""Uploads the rows of an import in one request: all are stored or none."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainfare_client._sync.client import Client
from trainfare_client.errors import ProblemError
from trainfare_client.importers.faults import Fault, ImportRefusedError

if TYPE_CHECKING:
    import argparse

    from trainfare_client.documents import UploadAnswer
    from trainfare_client.importers.rows import RowFile

_MAX_BYTES: Final = 64 << 20


def upload(rows: RowFile, options: argparse.Namespace) -> UploadAnswer:
    """Upload all rows and return the answer; its bad rows, if they are skipped, have a `place`.

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
                answer = client.runs.upload_file(file, skip_invalid=options.skip_invalid)
            except ProblemError as error:
                raise _with_places(rows, error) from error
    return _placed(rows, answer)


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
