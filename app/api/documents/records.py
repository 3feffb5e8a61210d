"""Reads and writes dated records as JSON and CSV: prices, exchange rates, grid factors."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from app.api.negotiation import CSV, JSON
from app.api.requests.bodies import parse_json, schema_refusal
from app.api.schemas.base import reference_to
from app.api.schemas.quantities import money_text
from app.domain.errors import (
    Fault,
    InvalidRequestError,
    InvalidRowsError,
    UnknownFieldError,
    UnsupportedMediaTypeError,
)
from app.domain.instants import instant_text
from app.domain.spelling import nearest_field
from app.domain.wording import say_count
from app.services.uploads.formulas import guard_formula, unguard_formula
from app.services.uploads.separators import (
    read_names,
    refuse_lost_line_breaks,
    refuse_other_formats,
    without_empty_end,
)

MAX_RECORDS: Final = 10_000
_MAX_LINES: Final = 2_000_000
"""Includes the empty lines that spreadsheets write."""
_MAX_COLUMNS: Final = 100
Record = TypeVar("Record", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RecordFile(Generic[Record]):
    """The file formats of one kind of record.

    Attributes
    ----------
    schema
        The model of one record.
    plural
        The plural name of the records.
    read_only
        Columns of an export, before the others, that an upload ignores.
    example, csv_example
        An example record, and a CSV file of records.
    withdrawn_at
        The read-only column that says since when a record has been withdrawn, if they can be. An
        upload refuses such a row: it would bring the record into force again.
    """

    schema: type[Record]
    plural: str
    read_only: tuple[str, ...]
    example: Mapping[str, Any]
    csv_example: str
    withdrawn_at: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of an upload."""
        return tuple(self.schema.model_fields)

    @property
    def exported(self) -> tuple[str, ...]:
        """Return the columns of an export."""
        return (*self.read_only, *self.columns)

    def read(self, content_type: str | None, body: bytes) -> list[Record]:
        """Return the records of an upload.

        Raises
        ------
        UnsupportedMediaTypeError
            If the body is neither JSON nor CSV.
        InvalidRequestError
            If the body cannot be parsed, or has no records.
        UnknownFieldError, InvalidRowsError
            If records are invalid; each bad row is named.
        """
        media_type = (content_type or JSON).partition(";")[0].strip().casefold()
        if media_type not in {JSON, CSV}:
            raise UnsupportedMediaTypeError(f"Content-Type {content_type!r}"[:100], (JSON, CSV))
        rows = self._csv_rows(body) if media_type == CSV else _json_rows(body)
        if not rows:
            raise InvalidRequestError(f"The upload has no {self.plural}.")
        if len(rows) > MAX_RECORDS:
            raise InvalidRequestError(
                f"There are {len(rows)} {self.plural}; at most {MAX_RECORDS} at once."
            )
        return self._check(rows)

    def _check(self, rows: Sequence[object]) -> list[Record]:
        records: list[Record] = []
        faults: list[Fault] = []
        unknown: list[Fault] = []
        n_bad = 0
        for number, row in enumerate(rows, start=1):
            try:
                records.append(self.schema.model_validate(row))
            except ValidationError as error:
                refusal = schema_refusal(error, location="row")
                n_bad += 1
                destination = unknown if isinstance(refusal, UnknownFieldError) else faults
                destination += [replace(fault, row=number) for fault in refusal.faults]
        if unknown:
            raise UnknownFieldError(unknown)
        if n_bad:
            raise InvalidRowsError(faults, bad_rows=n_bad, total_rows=len(rows))
        return records

    def _csv_rows(self, body: bytes) -> list[object]:
        refuse_other_formats(body[:4])
        lines = _nonempty_lines(body)
        names, width = read_names(lines)
        self._check_header(names)
        rows = list(islice(lines, MAX_RECORDS + 1))
        if len(rows) > MAX_RECORDS:
            raise InvalidRequestError(
                f"There are more than {MAX_RECORDS} {self.plural}; at most {MAX_RECORDS} at once."
            )
        if width > len(names):
            rows = [without_empty_end(row, len(names)) for row in rows]
        uneven = [
            _width_fault(row, number, names)
            for number, row in enumerate(rows, start=1)
            if len(row) != len(names)
        ]
        faults = uneven or self._withdrawn(rows, names)
        if faults:
            raise InvalidRowsError(faults, bad_rows=len(faults), total_rows=len(rows))
        return [self._filled(zip(names, row, strict=True)) for row in rows]

    def _withdrawn(self, rows: Sequence[Sequence[str]], names: Sequence[str]) -> list[Fault]:
        if self.withdrawn_at not in names:
            return []
        column = names.index(self.withdrawn_at)
        return [
            Fault(
                "This row was withdrawn.",
                "Leave it out, or empty the cell to bring it into force again.",
                row=number,
                field=self.withdrawn_at,
                value=row[column].strip(),
            )
            for number, row in enumerate(rows, start=1)
            if row[column].strip()
        ]

    def _check_header(self, names: Sequence[str]) -> None:
        if len(names) > _MAX_COLUMNS:
            raise InvalidRequestError(f"The file has {len(names)} columns; at most {_MAX_COLUMNS}.")
        unknown = [name for name in names if name not in self.exported]
        if unknown:
            raise UnknownFieldError([self._unknown(name) for name in unknown])
        if len(set(names)) < len(names):
            raise InvalidRequestError("A column appears more than once.")

    def _unknown(self, name: str) -> Fault:
        nearest = nearest_field(name, self.columns)
        remedy = f"Use {nearest!r}." if nearest else f"Known: {', '.join(self.columns)}."
        shown = name[:100].encode("utf-8", "backslashreplace").decode()
        return Fault(f"There is no column {shown!r}.", remedy, field=shown)

    def _filled(self, cells: Iterable[tuple[str, str]]) -> dict[str, str]:
        return {
            name: unguard_formula(cell.strip())
            for name, cell in cells
            if cell.strip() and name not in self.read_only
        }

    def write(self, rows: Iterable[Mapping[str, object]]) -> str:
        """Return records as CSV that can be uploaded again."""
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, self.exported, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
        return buffer.getvalue()

    def body(self) -> dict[str, Any]:
        """Return the OpenAPI description of an upload's body."""
        schema = reference_to(self.schema)
        content = {
            JSON: {
                "schema": {
                    "anyOf": [
                        schema,
                        {"type": "array", "minItems": 1, "maxItems": MAX_RECORDS, "items": schema},
                    ]
                },
                "example": self.example,
            },
            CSV: {"schema": {"type": "string"}, "example": self.csv_example},
        }
        return {"requestBody": {"required": True, "content": content}}


def _nonempty_lines(body: bytes) -> Iterator[list[str]]:
    """Yield the non-empty lines of a CSV file; empty ones take no memory."""
    text = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="")
    try:
        first_line = text.readline()
        refuse_lost_line_breaks(first_line)
        reader = csv.reader(chain([first_line], text), strict=True)
        for number, line in enumerate(reader, start=1):
            if number > _MAX_LINES:
                raise InvalidRequestError(f"The file has more than {_MAX_LINES} lines.")
            if any(cell.strip() for cell in line):
                yield line
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The file is not UTF-8. Save it as UTF-8.") from error
    except csv.Error as error:
        raise InvalidRequestError(f"The file is not valid CSV: {error}.") from error


def _width_fault(cells: Sequence[str], row: int, names: Sequence[str]) -> Fault:
    return Fault(
        f"The row has {say_count(len(cells), 'cell')} where the header has {len(names)}.",
        "Give every row as many cells as the header; quote cells with commas, and write decimals"
        " with a point.",
        row=row,
    )


def _json_rows(body: bytes) -> list[object]:
    document = parse_json(body)
    return document if isinstance(document, list) else [document]


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, Decimal):
        return money_text(value)
    return guard_formula(value) if isinstance(value, str) else value
