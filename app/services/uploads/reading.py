"""Reads an upload from first to last byte and checks every row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

from app.domain.errors import InvalidRequestError
from app.services.uploads.checking import ChunkChecker, GpuNaming
from app.services.uploads.chunks import Chunk, RawChunk
from app.services.uploads.csv_rows import read_csv
from app.services.uploads.faults import FaultCollector
from app.services.uploads.json_rows import read_json
from app.services.uploads.parameters import ParameterUses
from app.services.uploads.rules import OddityCollector
from app.services.uploads.separators import refuse_other_formats
from app.services.uploads.terms import UploadFormat

_HEAD_BYTES: Final = 4


@dataclass(slots=True)
class CheckedUpload:
    """The good rows of an upload and the faults of the others."""

    chunks: list[Chunk]
    uses: ParameterUses
    faults: FaultCollector
    oddities: OddityCollector
    total_rows: int

    def drop_bad_rows(self) -> None:
        """Leave out the rows that were found bad since they were read."""
        kept = (chunk.keep(self.faults.is_good(chunk.rows)) for chunk in self.chunks)
        self.chunks = [chunk for chunk in kept if len(chunk)]


def read_upload(
    body: IO[bytes], upload_format: UploadFormat, canonical_gpu_name: GpuNaming
) -> CheckedUpload:
    """Return the checked rows of an upload.

    Raises
    ------
    InvalidRequestError
        If the body as a whole cannot be read or has no rows.
    UnknownFieldError
        If a CSV file has a column that no field has.
    TooManyRowsError
        If there are more than a million rows.
    """
    faults = FaultCollector()
    upload = CheckedUpload([], ParameterUses(), faults, OddityCollector(), 0)
    checker = ChunkChecker(faults, canonical_gpu_name)
    for raw in _raw_chunks(body, upload_format, faults):
        upload.total_rows += raw.sent
        chunk = checker.check(raw)
        if len(chunk):
            upload.uses.look_at(chunk)
            upload.oddities.look_at(chunk)
            upload.chunks.append(chunk)
    if not upload.total_rows:
        raise InvalidRequestError("The upload has no runs.")
    return upload


def _raw_chunks(
    body: IO[bytes], upload_format: UploadFormat, faults: FaultCollector
) -> Iterator[RawChunk]:
    _refuse_other_formats(body, upload_format)
    body.seek(0)
    if upload_format is UploadFormat.CSV:
        return read_csv(body, faults)
    return read_json(body, faults, lines=upload_format is UploadFormat.NDJSON)


def _refuse_other_formats(body: IO[bytes], upload_format: UploadFormat) -> None:
    body.seek(0)
    head = body.read(_HEAD_BYTES)
    refuse_other_formats(head)
    if upload_format is UploadFormat.CSV and head.startswith((b"[", b"{")):
        raise InvalidRequestError(
            "The body is JSON: send it with the header Content-Type: application/json, or"
            " application/x-ndjson where each line is a run."
        )
