"""Checks chunks of rows: every cell by its field, every row by the rules between fields."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from app.domain.flat_fields import PARAMETER
from app.services.uploads.cells import (
    TEXT_PARSERS,
    CellReader,
    are_plain_texts,
    parse_instant,
    parse_money,
    parse_name,
    parse_parameter,
    parse_value_text,
)
from app.services.uploads.chunks import Cell, Chunk, FloatArray, RawChunk
from app.services.uploads.faults import FaultCollector
from app.services.uploads.fields import (
    INSTANT_FIELDS,
    MAX_EXTERNAL_ID,
    MONEY_FIELDS,
    NumberRule,
    number_rule,
)
from app.services.uploads.numbers import is_miswritten, read_numbers
from app.services.uploads.rules import check_rows

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

Value = TypeVar("Value")
_PLAIN_NUMBER: Final = (
    "Write it with a decimal point, without separators of thousands and without a percent sign."
)
GpuNaming = Callable[[str], str]


class ChunkChecker:
    """Checks the chunks of one upload; remembers the value of each distinct cell.

    Parameters
    ----------
    faults
        Collects the bad rows.
    canonical_gpu_name
        Returns the canonical name for an unambiguous alias, and every other name unchanged.
    """

    def __init__(self, faults: FaultCollector, canonical_gpu_name: GpuNaming) -> None:
        self._faults = faults
        self._canonical_gpu_name = canonical_gpu_name
        self._texts: dict[str, CellReader[str]] = {}
        self._parameters: dict[str, CellReader[str | float]] = {}
        self._instants: CellReader[datetime] = CellReader(parse_instant)
        self._money: CellReader[Decimal] = CellReader(parse_money)

    def check(self, raw: RawChunk) -> Chunk:
        """Return the good rows of a chunk."""
        chunk = Chunk(rows=raw.rows, is_typed=raw.is_typed)
        for field, cells in raw.columns.items():
            self._read(chunk, field, cells)
        check_rows(chunk, self._faults)
        return chunk.keep(self._faults.is_good(chunk.rows)) if self._faults else chunk

    def _read(self, chunk: Chunk, field: str, cells: Sequence[Cell]) -> None:
        rule = number_rule(field)
        if rule is not None:
            chunk.numbers[field] = self._numbers(chunk, field, cells, rule)
        elif field in INSTANT_FIELDS:
            chunk.instants[field] = self._values(chunk, field, cells, self._instants)
        elif field in MONEY_FIELDS:
            chunk.money[field] = self._values(chunk, field, cells, self._money)
        elif field.startswith(PARAMETER):
            chunk.parameters[field] = self._values(chunk, field, cells, self._parameter(field))
        elif field == "external_id" and are_plain_texts(cells, MAX_EXTERNAL_ID):
            # They are all different: a look-up among those seen would be in vain.
            chunk.texts[field] = list(map(str, cells))
        else:
            chunk.texts[field] = self._values(chunk, field, cells, self._text_reader(field))

    def _numbers(
        self, chunk: Chunk, field: str, cells: Sequence[Cell], rule: NumberRule
    ) -> FloatArray:
        column = read_numbers(cells, rule, is_typed=chunk.is_typed)
        for index in np.flatnonzero(column.is_bad).tolist():
            row, cell = int(chunk.rows[index]), cells[index]
            if chunk.is_typed and isinstance(cell, str):
                message, remedy = f"{field} is a text.", "Send a JSON number, without quotes."
            else:
                message, remedy = f"{field} is not {rule.wanted}.", rule.remedy
                if isinstance(cell, str) and is_miswritten(cell.strip()):
                    remedy = _PLAIN_NUMBER
            self._faults.add(row, field, cell, message, remedy)
        return column.values

    def _values(
        self, chunk: Chunk, field: str, cells: Sequence[Cell], reader: CellReader[Value]
    ) -> list[Value | None]:
        values = reader.read(cells)
        if reader.errors:
            for row, cell in zip(chunk.rows.tolist(), cells, strict=True):
                error = reader.errors.get(cell)
                if error is not None:
                    self._faults.add(row, field, cell, error.message, error.remedy)
        return values

    def _parameter(self, field: str) -> CellReader[str | float]:
        return self._parameters.setdefault(field, CellReader(parse_parameter))

    def _text_reader(self, field: str) -> CellReader[str]:
        if field not in self._texts:
            parse = TEXT_PARSERS.get(field, parse_value_text)
            self._texts[field] = CellReader(self._parse_gpu if field == "gpu_type" else parse)
        return self._texts[field]

    def _parse_gpu(self, cell: Cell) -> str:
        return self._canonical_gpu_name(parse_name(cell))
