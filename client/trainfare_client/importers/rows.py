"""Rows of an import: checked, kept in a temporary file, written as the CSV of an upload."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from trainfare_client.importers.expressions import Cell, is_number, number_in
from trainfare_client.importers.faults import ImportRefusedError, Report, RowError
from trainfare_client.importers.fields import STATUSES, column_order, status_of
from trainfare_client.importers.naming import digest, run_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from trainfare_client.importers.mapping import ColumnMap

MAX_ROWS: Final = 1_000_000
_TEN_YEARS_S: Final = 10 * 366 * 86_400.0
_FORMULA_MARKS: Final = ("=", "+", "-", "@")


@dataclass(frozen=True)
class ImportedRow:
    """One run as a source states it.

    Attributes
    ----------
    place
        Its position in the source.
    fields
        The importer's result, by the field names of an upload.
    facts
        The source's own values, for maps.
    """

    place: str
    fields: Mapping[str, Cell]
    facts: Mapping[str, Cell] = field(default_factory=dict)


class RowFile:
    """Rows of one import in a temporary file, so that a million take no memory."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._file: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed by __exit__
        self._columns: set[str] = set()
        self._keys: Counter[str] = Counter()
        self.workloads: set[str] = set()
        self.count = 0

    def fill(self, rows: Iterable[ImportedRow], mapping: ColumnMap, report: Report) -> None:
        """Take in all rows; bad ones are listed in the report.

        Raises
        ------
        ImportRefusedError
            If there are more than a million.
        MapError
            If the map reads a column that no row has.
        """
        for row in rows:
            fields = self._checked(row, mapping, report)
            if fields:
                self._add(row.place, fields)
        if self.count or report.fault_count:
            mapping.check()

    def _checked(
        self, row: ImportedRow, mapping: ColumnMap, report: Report
    ) -> dict[str, Cell] | None:
        try:
            mapped = mapping.apply(row.fields, row.facts)
            fields: dict[str, Cell] = {
                name: cell for name, cell in mapped.items() if not _is_blank(cell)
            }
            _check(fields, is_told="duration_seconds" in mapped)
            if not _normalize_status(fields):
                report.leave_out("runs that have not ended")
                return None
        except RowError as error:
            report.add(row.place, error.message, error.remedy)
            return None
        fields.setdefault("external_id", self._content_key(row))
        return fields

    def _content_key(self, row: ImportedRow) -> str:
        content = json.dumps([sorted(row.facts.items()), sorted(row.fields.items())], default=str)
        key = digest(content)
        self._keys[key] += 1
        occurrence = self._keys[key]
        return run_key(self._source, key, *([str(occurrence)] if occurrence > 1 else []))

    def _add(self, place: str, fields: Mapping[str, Cell]) -> None:
        self.count += 1
        if self.count > MAX_ROWS:
            raise ImportRefusedError(
                f"There are more than {MAX_ROWS:,} runs.", "Import fewer files at a time."
            )
        self._columns.update(fields)
        self.workloads.add(str(fields["workload"]))
        self._file.write(json.dumps([place, fields]) + "\n")

    def _rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        self._file.seek(0)
        for line in self._file:
            place, fields = json.loads(line)
            yield place, fields

    def places(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the places of the rows with the given numbers, counted from 1."""
        wanted = set(numbers)
        rows = enumerate(self._rows(), start=1)
        return {number: place for number, (place, _) in rows if number in wanted}

    def write_csv(self, target: IO[str]) -> None:
        """Write the rows as an upload, with the columns that any row has."""
        columns = sorted(self._columns, key=column_order)
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(columns)
        for _, fields in self._rows():
            writer.writerow(_cells(fields, columns))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def _is_blank(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _check(fields: Mapping[str, Cell], *, is_told: bool) -> None:
    if not fields.get("workload"):
        raise RowError("The run's workload is not known.", "Name it with --workload.")
    _check_duration(fields, is_told=is_told)


def _normalize_status(fields: dict[str, Cell]) -> bool:
    """Convert the status to an upload's term; return whether the run has ended."""
    term = fields.get("status")
    if term is None:
        return True
    try:
        status = status_of(str(term))
    except ValueError:
        raise RowError(
            f"The status {str(term)[:60]!r} is not known.", f"Known: {', '.join(STATUSES)}."
        ) from None
    fields["status"] = status
    return status is not None


def _check_duration(fields: Mapping[str, Cell], *, is_told: bool) -> None:
    if "duration_seconds" not in fields:
        if "started_at" in fields and "ended_at" in fields:
            return
        if is_told:
            raise RowError(
                "The run's duration is empty.",
                "Fill it in, or leave such runs out: --skip-invalid.",
            )
        raise RowError(
            "The run's duration is not known.",
            "Map it, such as --map duration_seconds=elapsed_ms*0.001.",
        )
    seconds = number_in(fields["duration_seconds"], "duration_seconds")
    if seconds is None or not 0 < seconds <= _TEN_YEARS_S or not math.isfinite(seconds):
        raise RowError(
            f"The duration {seconds!r} s is not above 0 and below ten years.",
            "Correct it, or its unit in the map.",
        )


def _cells(fields: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    return [_text(fields.get(name)) for name in columns]


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        return repr(cell)
    # The service removes one such mark; it keeps spreadsheets from reading formulas in a dry run.
    is_formula = cell.lstrip("'").startswith(_FORMULA_MARKS) and not is_number(cell)
    # A lone surrogate, which JSON can contain, cannot be written.
    writable = cell.encode("utf-8", "backslashreplace").decode()
    return f"'{writable}" if is_formula else writable
