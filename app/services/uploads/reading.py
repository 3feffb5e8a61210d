"""Reads an upload from its first byte to its last and judges every row."""

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
from app.services.uploads.terms import UploadFormat

_COMPRESSED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""Formats by their first bytes, none of which begins a text in UTF-8."""


@dataclass(slots=True)
class CheckedUpload:
    """The good rows of an upload and what is wrong with the others."""

    chunks: list[Chunk]
    uses: ParameterUses
    faults: FaultCollector
    oddities: OddityCollector
    total_rows: int

    def drop_bad_rows(self) -> None:
        """Leave out the rows that were found bad since."""
        self.chunks = [
            chunk.keep(self.faults.is_good(chunk.rows)) for chunk in self.chunks if len(chunk)
        ]


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
    _refuse_compressed(body)
    body.seek(0)
    if upload_format is UploadFormat.CSV:
        return read_csv(body, faults)
    return read_json(body, faults, lines=upload_format is UploadFormat.NDJSON)


def _refuse_compressed(body: IO[bytes]) -> None:
    body.seek(0)
    head = body.read(max(map(len, _COMPRESSED)))
    for magic, name in _COMPRESSED.items():
        if head.startswith(magic):
            raise InvalidRequestError(
                f"The body is compressed: send it with the header Content-Encoding: {name}."
            )
