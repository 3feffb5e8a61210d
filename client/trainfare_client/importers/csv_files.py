"""Plain CSV files: columns named as in an upload are taken, others through the map."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Final, Literal

from trainfare_client.importers.faults import Report, SourceError, at_line
from trainfare_client.importers.fields import field_of
from trainfare_client.importers.lines import text_lines
from trainfare_client.importers.rows import ImportedRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.mapping import ColumnMap
    from trainfare_client.importers.options import Options

_SEPARATORS: Final = ",;\t|"
_SEPARATOR_PREFIX: Final = "sep="
_AFTER_RETURN: Final = re.compile(r"(?<=\r)(?!\n)")


class _Lines:
    """Feeds the reader with lines and their line breaks, and keeps track of the position."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._number = 1
        self._row_number = 1

    @property
    def place(self) -> str:
        """The line that was read last."""
        return at_line(self._path, self._number)

    @property
    def place_of_row(self) -> str:
        """The line in which the row begins that is being read: a quote may take in many."""
        return at_line(self._path, self._row_number)

    def rows(self, reader: Iterator[list[str]]) -> Iterator[list[str]]:
        """Yield the rows that a reader makes of these lines."""
        self._row_number = self._number + 1
        for cells in reader:
            yield cells
            self._row_number = self._number + 1

    def __iter__(self) -> Iterator[str]:
        number = 0
        for _, text in text_lines(self._path):
            # Old Macs end lines with a carriage return alone.
            for line in _AFTER_RETURN.split(text + "\n"):
                number += 1
                self._number = number
                yield line


def read_csv(paths: Sequence[str], report: Report, options: Options) -> Iterator[ImportedRow]:
    """Yield the rows of CSV files with a header; it shows the separator if none is given.

    Raises
    ------
    SourceError
        If a file has no header, names a column or a field twice, or has broken quotes.
    """
    for path in paths:
        yield from _read_file(path, report, options)


def table(
    path: str, report: Report, delimiter: str | None, *, quoted: bool = True
) -> Iterator[tuple[str, dict[str, Cell]]]:
    """Yield the rows of a table as cells by column; rows of another width are reported as bad.

    Empty rows, and empty columns without a name after the last one, are left out.

    Raises
    ------
    SourceError
        As for `read_csv`.
    """
    lines = _Lines(path)
    source = iter(lines)
    header = _next_line(source)
    stated = _stated_separator(header)
    if stated is not None:
        delimiter = delimiter or stated or None
        header = _next_line(source)
    sep = delimiter or max(_SEPARATORS, key=header.count)
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    try:
        (names,) = csv.reader([header.rstrip("\r\n")], delimiter=sep, quoting=quoting) or ([],)
        columns = _checked_header(lines.place, names)
        reader = csv.reader(source, delimiter=sep, strict=quoted, quoting=quoting)
        for cells in lines.rows(reader):
            if not any(cell.strip() for cell in cells):
                continue
            # Spreadsheets write empty columns beside the table. Where the header has none, a
            # decimal comma has probably moved the cells.
            while len(names) > len(columns) < len(cells) and not cells[-1].strip():
                cells.pop()
            if len(cells) == len(columns):
                yield lines.place, dict(zip(columns, cells, strict=True))
            else:
                report.add(
                    lines.place,
                    f"The row has {len(cells)} cells where the header has {len(columns)}.",
                    f"Separate cells by {sep!r} alone; if cells hold it, by another --delimiter.",
                )
    except csv.Error as error:
        raise SourceError(
            lines.place_of_row, f"It is not CSV: {error}.", "Check its quotes."
        ) from None


def _stated_separator(line: str) -> str | None:
    """Return the separator that spreadsheets' own first line states, None for any other line.

    Spreadsheets that save the table again add a separator for each of its columns.
    """
    if not line.startswith(_SEPARATOR_PREFIX):
        return None
    stated = line.removeprefix(_SEPARATOR_PREFIX).rstrip("\r\n")
    return None if len(set(stated)) > 1 or '"' in stated else stated[:1]


def _next_line(source: Iterator[str]) -> str:
    return next((line for line in source if line.strip()), "")


def _checked_header(place: str, names: Sequence[str]) -> list[str]:
    columns = [name.strip() for name in names]
    while columns and not columns[-1]:
        columns.pop()
    if not columns:
        raise SourceError(place, "There is no header line with column names.", "Put one first.")
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise SourceError(place, f"Several columns are named {repeated[0]!r}.", "Rename one.")
    return columns


def _read_file(path: str, report: Report, options: Options) -> Iterator[ImportedRow]:
    is_checked = False
    for place, cells in table(path, report, options.delimiter):
        if not is_checked:
            _check_fields(path, cells, options.mapping)
            is_checked = True
        by_field = {field_of(name): cell for name, cell in cells.items()}
        fields = {name: cell for name, cell in by_field.items() if name is not None}
        report.pass_over(name for name in cells if field_of(name) is None)
        yield ImportedRow(place, fields, cells)


def _check_fields(path: str, columns: Iterable[str], mapping: ColumnMap) -> None:
    """Refuse columns that would become the same field, unless the map settles it."""
    names: dict[str, list[str]] = {}
    for column in columns:
        field = field_of(column)
        if field is not None and field not in mapping.fields:
            names.setdefault(field, []).append(column)
    for field, duplicates in names.items():
        if len(duplicates) > 1:
            raise SourceError(
                at_line(path, 1),
                f"The columns {' and '.join(duplicates)} are both {field}.",
                f"Remove one, or choose with --map {field}={duplicates[0]}.",
            )
