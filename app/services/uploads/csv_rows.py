"""Reads a CSV file of runs as chunks of columns."""

import csv
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from io import TextIOWrapper
from itertools import islice
from typing import IO, Final

import numpy as np

from app.domain.errors import Fault, InvalidRequestError, TooManyRowsError, UnknownFieldError
from app.services.uploads.chunks import Cell, RawChunk
from app.services.uploads.faults import FaultCollector
from app.services.uploads.fields import MAX_NAMES, canonical_field, meant_field, unknown_field_fault
from app.services.uploads.formulas import unguard_formula
from app.services.uploads.json_values import MAX_VALUE_CHARACTERS
from app.services.uploads.separators import (
    KEEPING_LINE_BREAKS,
    is_filled,
    read_names,
    refuse_lost_line_breaks,
    without_empty_end,
)

MAX_ROWS: Final = 1_000_000
CHUNK_ROWS: Final = 8192


def read_csv(
    body: IO[bytes], faults: FaultCollector, *, max_rows: int = MAX_ROWS
) -> Iterator[RawChunk]:
    """Yield the rows of a CSV file (UTF-8 with or without a byte order mark, comma-separated).

    Rows with more or fewer cells than the header are noted in `faults` and left out. Spreadsheets
    write empty rows, also before the header, and nameless empty columns beside the table: neither
    counts. Where the header has no nameless columns, an empty cell too many is a fault as well: a
    decimal comma has probably moved the cells before it.

    Raises
    ------
    InvalidRequestError
        If the file is not UTF-8, has broken quotes, no header, no line breaks, a separator other
        than the comma, or a line longer than a MiB.
    UnknownFieldError
        If a column has a name that no field has.
    TooManyRowsError
        If there are more than `max_rows`, or more than twice as many including empty ones.
    """
    text = TextIOWrapper(body, encoding="utf-8-sig", newline="")
    rows_read = _Rows(_lines(text))
    reader = iter(rows_read)
    first_row, n_lines = 1, 0
    try:
        fields, width = _read_header(reader)
        # A row of nothing but commas takes eight times the memory of its text: such rows are cut.
        while lines := [
            cells if len(cells) <= MAX_NAMES else cells[: MAX_NAMES + 1]
            for cells in islice(reader, CHUNK_ROWS)
        ]:
            rows = [cells for cells in lines if is_filled(cells)]
            if width > len(fields):
                rows = [
                    # The end of a row that was cut is unknown.
                    cells if len(cells) > MAX_NAMES else without_empty_end(cells, len(fields))
                    for cells in rows
                ]
            chunk = _to_chunk(rows, fields, first_row, faults)
            first_row += len(rows)
            n_lines += len(lines)
            if first_row > max_rows + 1:
                raise TooManyRowsError(max_rows)
            if n_lines > 2 * max_rows:
                raise TooManyRowsError(2 * max_rows)
            yield chunk
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"The file is not UTF-8: byte 0x{error.object[error.start]:02x} at or after data row"
            f" {first_row}. Save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise InvalidRequestError(
            f"The file is not valid CSV: {error} ({rows_read.place()}). Check its quotes."
        ) from error
    finally:
        text.detach()


class _Rows:
    """The rows of a file, and where the one is that is being read."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._reader = csv.reader(lines, strict=True)
        self._first_line = 1

    def __iter__(self) -> Iterator[list[str]]:
        for cells in self._reader:
            yield cells
            self._first_line = self._reader.line_num + 1

    def place(self) -> str:
        """Return where the row lies; a quote that nothing closes takes in the lines behind it."""
        first, last = self._first_line, self._reader.line_num
        return f"line {last}" if last <= first else f"the row that begins in line {first}"


def _lines(text: TextIOWrapper) -> Iterator[str]:
    is_first = True
    while line := text.readline(MAX_VALUE_CHARACTERS + 1):
        if len(line) > MAX_VALUE_CHARACTERS:
            raise InvalidRequestError(
                "A line is longer than one MiB. Put each run on a line of its own;"
                f" {KEEPING_LINE_BREAKS}."
            )
        if is_first:
            refuse_lost_line_breaks(line)
        is_first = False
        yield line


def _read_header(reader: Iterator[list[str]]) -> tuple[list[str], int]:
    """Return the fields of the columns, and how many there are with nameless ones at the end."""
    names, width = read_names(islice(reader, CHUNK_ROWS))
    if len(names) > MAX_NAMES:
        raise InvalidRequestError(
            f"The file has {len(names)} columns; at most {MAX_NAMES}. Send its rows in parts that"
            " need fewer: a page of an export (page_size) then has only those of its own runs."
        )
    return _canonical_names(names), width


def _canonical_names(names: Sequence[str]) -> list[str]:
    fields = [canonical_field(name) for name in names]
    unknown = [name for name, field in zip(names, fields, strict=True) if not field]
    if unknown:
        missing = _missing(named := {*fields, *map(meant_field, unknown)})
        if named == {None}:
            raise InvalidRequestError(
                "The first line is no header: no column has a known name. Begin with the columns'"
                " names, such as workload,duration_seconds,workers.",
                missing,
            )
        raise UnknownFieldError([unknown_field_fault(name) for name in unknown], missing)
    canonical = [field for field in fields if field]
    repeated = sorted({field for field in canonical if canonical.count(field) > 1})
    if repeated:
        raise InvalidRequestError(
            f"Several columns give {', '.join(repeated)}.",
            [
                Fault("More than one column gives it.", "Keep one.", field=field)
                for field in repeated
            ],
        )
    return canonical


def _missing(fields: AbstractSet[str | None]) -> list[Fault]:
    """Return faults for the required fields that are missing."""
    faults = []
    if "workload" not in fields:
        remedy = "Add it, or rename the column that names what was trained."
        faults.append(Fault("No column names the workload.", remedy, field="workload"))
    if "duration_seconds" not in fields and not {"started_at", "ended_at"} <= fields:
        remedy = "Add it in seconds, or rename the column of durations; or started_at and ended_at."
        faults.append(Fault("No column gives the duration.", remedy, field="duration_seconds"))
    return faults


def _to_chunk(
    rows: list[list[str]], fields: Sequence[str], first_row: int, faults: FaultCollector
) -> RawChunk:
    numbers = np.arange(first_row, first_row + len(rows), dtype=np.int64)
    sent, width = len(rows), len(fields)
    if set(map(len, rows)) - {width}:
        is_complete = np.array([len(cells) == width for cells in rows], dtype=np.bool_)
        for index in np.flatnonzero(~is_complete).tolist():
            faults.add(
                first_row + index,
                None,
                None,
                f"The row has {_count_text(len(rows[index]))} cells where the header has {width}.",
                "Give every row as many cells as the header; quote cells that contain commas, and"
                " write decimals with a point.",
            )
        rows = [cells for cells in rows if len(cells) == width]
        numbers = numbers[is_complete]
    columns = zip(fields, zip(*rows, strict=True), strict=True) if rows else ()
    filled = {field: _unguarded(cells) for field, cells in columns if any(cells)}
    return RawChunk(sent=sent, rows=numbers, columns=filled, is_typed=False)


def _count_text(cells: int) -> str:
    return str(cells) if cells <= MAX_NAMES else f"more than {MAX_NAMES}"


def _unguarded(cells: Sequence[str]) -> Sequence[Cell]:
    return list(map(unguard_formula, cells)) if "'" in "".join(cells) else cells
