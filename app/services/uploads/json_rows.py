"""Converts JSON runs, nested or flat, into chunks of columns."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from operator import itemgetter
from types import NoneType
from typing import IO, Any, Final

import numpy as np

from app.domain.columns import members_by_name
from app.domain.errors import Fault, InvalidRequestError, TooManyRowsError
from app.domain.flat_fields import CONFIGURATION, PARAMETER, WORK
from app.services.uploads.chunks import Cell, RawChunk
from app.services.uploads.csv_rows import MAX_ROWS
from app.services.uploads.faults import FaultCollector
from app.services.uploads.fields import (
    FAMILIES,
    MAX_NAMES,
    WRITABLE_FIELDS,
    canonical_field,
    unknown_field_fault,
)
from app.services.uploads.json_values import MalformedLine, read_document, read_lines

CHUNK_ROWS: Final = 2048
_GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "configuration": {name: name for name in CONFIGURATION},
    "work": {name: name for name in WORK},
    "cost": {"amount": "cost_amount", "currency": "cost_currency"},
}
_NESTED: Final = frozenset((*_GROUPS, *FAMILIES))
_PLAIN: Final = frozenset({str, int, float})
_ABSENT: Final = frozenset({NoneType})
_CELLS: Final = _PLAIN | _ABSENT
_OBJECT_REMEDY: Final = 'Send runs as JSON objects such as {"workload": ..., ...}.'


def read_json(
    body: IO[bytes], faults: FaultCollector, *, lines: bool, max_rows: int = MAX_ROWS
) -> Iterator[RawChunk]:
    """Yield the runs of a JSON body: one object, an array, or one object per line.

    Rows that are not objects or have unknown fields are noted in `faults` and left out.

    Raises
    ------
    InvalidRequestError
        If the body as a whole is not JSON.
    TooManyRowsError
        If there are more than `max_rows`.
    """
    flattener = _Flattener(faults)
    chunks = _lines(body, flattener) if lines else _document(body, flattener)
    sent = 0
    with closing(chunks):
        for chunk in chunks:
            sent += chunk.sent
            if sent > max_rows:
                raise TooManyRowsError(max_rows)
            yield chunk


def _lines(body: IO[bytes], flattener: "_Flattener") -> Generator[RawChunk, None, None]:
    """Yield the runs of lines; lines of the same form are gathered until they fill a chunk."""
    gathered: dict[str, list[Cell]] = {}
    n_gathered, n_rows = 0, 0
    with closing(read_lines(body)) as blocks:
        for values in blocks:
            columns = flattener.columns(values)
            is_more = columns is not None and columns.keys() == gathered.keys()
            if n_gathered and not (is_more and n_gathered < CHUNK_ROWS):
                yield _of_columns(gathered, n_rows, n_gathered)
                gathered, n_gathered = {}, 0
            n_rows += len(values)
            if columns is None:
                first_row = n_rows - len(values) + 1
                flat = [flattener.flatten(value, first_row + i) for i, value in enumerate(values)]
                yield _to_chunk(flat, first_row)
                continue
            n_gathered += len(values)
            for name, cells in columns.items():
                gathered.setdefault(name, []).extend(cells)
    if n_gathered:
        yield _of_columns(gathered, n_rows, n_gathered)


def _of_columns(columns: Mapping[str, list[Cell]], last_row: int, sent: int) -> RawChunk:
    rows = np.arange(last_row - sent + 1, last_row + 1, dtype=np.int64)
    return RawChunk(sent=sent, rows=rows, columns={**columns}, is_typed=True)


def _document(body: IO[bytes], flattener: "_Flattener") -> Generator[RawChunk, None, None]:
    first_row = 1
    with closing(read_document(body)) as values:
        # Only one value is in memory at a time: a MiB of text can become fifty.
        while flat := [
            flattener.flatten(value, first_row + i)
            for i, value in enumerate(islice(values, CHUNK_ROWS))
        ]:
            yield _to_chunk(flat, first_row)
            first_row += len(flat)


def _to_chunk(sent: Sequence[dict[str, Cell] | None], first_row: int) -> RawChunk:
    good = [(number, row) for number, row in enumerate(sent, first_row) if row is not None]
    flat = [row for _, row in good]
    names: dict[str, Cell] = {}
    for row in flat:
        names.update(row)
    is_full = all(len(row) == len(names) for row in flat)
    return RawChunk(
        sent=len(sent),
        rows=np.array([number for number, _ in good], dtype=np.int64),
        columns={
            name: list(map(itemgetter(name), flat)) if is_full else [row.get(name) for row in flat]
            for name in names
        },
        is_typed=True,
    )


class _Flattener:
    """Flattens nested runs; remembers the names that it has seen."""

    def __init__(self, faults: FaultCollector) -> None:
        self._faults = faults
        self._known: dict[str, dict[str, str]] = {group: {} for group in ("", *_NESTED)}
        self._names: set[str] = set()

    def columns(self, values: Sequence[object]) -> dict[str, Sequence[Cell]] | None:
        """Return runs of one form with plain values, by field; None where they are not."""
        columns: dict[str, Sequence[Cell]] = {}
        return columns if self._gather("", values, columns) else None

    def _gather(
        self, group: str, objects: Sequence[Any], columns: dict[str, Sequence[Cell]]
    ) -> bool:
        """Add the members of objects to the columns; return whether all are plain values."""
        members = members_by_name(objects)
        if members is None:
            return False
        for name, cells in members.items():
            kinds = set(map(type, cells))
            if kinds == {dict} and not group and name in _NESTED:
                if not self._gather(name, cells, columns):
                    return False
            elif kinds != _ABSENT:
                field = self._field(group, name)
                if field is None or field in columns or not kinds <= _CELLS:
                    return False
                columns[field] = cells
        return True

    def flatten(self, value: object, row: int) -> dict[str, Cell] | None:
        """Return the fields of a run, None when it has a fault."""
        if isinstance(value, MalformedLine):
            message = f"The line is not valid JSON: {value.reason}."
            self._faults.add(row, None, None, message, value.remedy or _OBJECT_REMEDY)
            return None
        if not isinstance(value, dict):
            self._faults.add(row, None, None, "The run is not an object.", _OBJECT_REMEDY)
            return None
        if (plain := self._plain(value)) is not None:
            return plain
        flat: dict[str, Cell] = {}
        is_good = True
        for group, name, cell in _members(value):
            field = self._field(group, name)
            if field is None or field in flat or not isinstance(cell, str | int | float):
                is_good = False
                self._add_fault(row, field, _shown(group, name), cell)
            elif not isinstance(cell, bool):
                flat[field] = cell
            elif field.startswith(PARAMETER):
                flat[field] = str(cell).lower()
            else:
                is_good = False
                self._faults.add(
                    row, field, cell, f"{field} does not take true or false.", "Send its value."
                )
        return flat if is_good else None

    def _plain(self, value: dict[str, object]) -> dict[str, Cell] | None:
        """Return the fields of a run with known names and plain values: the common case."""
        flat: dict[str, Cell] = {}
        sent, known = 0, self._known
        outer = known[""]
        try:
            for name, member in value.items():
                if type(member) in _PLAIN:
                    flat[outer[name]] = member  # type: ignore[assignment] # its type is a cell's
                    sent += 1
                elif isinstance(member, dict) and name in _NESTED:
                    if not _PLAIN.issuperset(map(type, member.values())):
                        return None
                    inner = known[name]
                    flat.update({inner[key]: cell for key, cell in member.items()})
                    sent += len(member)
                elif member is not None:
                    return None
        except KeyError:  # a name not seen before
            return None
        # A field given twice is left to the slow path, which reports it.
        return flat if len(flat) == sent else None

    def _add_fault(self, row: int, field: str | None, shown: str, cell: object) -> None:
        if shown in _NESTED:
            plain = cell if isinstance(cell, str | int | float) else None
            self._faults.add(
                row, shown, plain, f"{shown} is not an object.", 'Send {"name": value, ...}.'
            )
        elif field is None and isinstance(cell, list) and cell and isinstance(cell[0], dict):
            remedy = "Send the list of runs itself, without an object around it."
            fault = Fault(f"There is no field {shown!r}.", remedy, field=shown, row=row)
            self._faults.add_unknown_field(fault)
        elif field is None:
            self._faults.add_unknown_field(
                unknown_field_fault(shown, row=row, known=_known_names(shown))
            )
        elif isinstance(cell, dict | list):
            kind = "a list" if isinstance(cell, list) else "a group of values"
            self._faults.add(row, field, None, f"{field} is {kind}.", "Send one plain value.")
        else:
            self._faults.add(row, field, cell, f"{field} is given twice.", "Give it once.")

    def _field(self, group: str, name: str) -> str | None:
        field = self._known[group].get(name)
        if field is None:
            field = _resolve(group, name)
            if field is not None:
                self._known[group][name] = field
            self._names.add(name)
            if len(self._names) > MAX_NAMES:
                raise InvalidRequestError(
                    f"The runs have more than {MAX_NAMES} different fields. Send parameters,"
                    " phases and labels under the same few names in every run."
                )
        return field


def _members(value: dict[str, object]) -> Iterator[tuple[str, str, object]]:
    for name, member in value.items():
        if isinstance(member, dict) and name in _NESTED:
            for inner, cell in member.items():
                if cell is not None:
                    yield name, inner, cell
        elif member is not None:
            yield "", name, member


def _resolve(group: str, name: str) -> str | None:
    if not group:
        return canonical_field(name)
    if group in _GROUPS:
        return _GROUPS[group].get(name)
    return canonical_field(FAMILIES[group] + name)


def _known_names(shown: str) -> Sequence[str]:
    group = shown.partition(".")[0]
    if group in _GROUPS:
        return [f"{group}.{name}" for name in _GROUPS[group]]
    return (*WRITABLE_FIELDS, *_NESTED)


def _shown(group: str, name: str) -> str:
    if not group:
        return name
    return FAMILIES[group] + name if group in FAMILIES else f"{group}.{name}"
