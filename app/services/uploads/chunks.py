"""Rows on their way through an upload: a few thousand at a time, column by column."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Cell = str | int | float | None
"""A value as it was sent; from a CSV file always text, empty for absence."""


@dataclass(frozen=True, slots=True)
class RawChunk:
    """Rows as they were sent, under canonical field names.

    `rows` holds row numbers, counted from 1; `sent` is the number of rows that came, including
    unreadable ones; `is_typed` is true for JSON values, false for cells of a CSV file.
    """

    sent: int
    rows: IntArray
    columns: dict[str, Sequence[Cell]]
    is_typed: bool


@dataclass(slots=True)
class Chunk:
    """Checked rows: NaN or None where nothing was sent; columns that nobody sent are left out.

    `parameters` holds the values as they were sent, since whether a parameter is a number or a
    category is known only after the last row.
    """

    rows: IntArray
    is_typed: bool
    texts: dict[str, list[str | None]] = field(default_factory=dict)
    numbers: dict[str, FloatArray] = field(default_factory=dict)
    instants: dict[str, list[datetime | None]] = field(default_factory=dict)
    money: dict[str, list[Decimal | None]] = field(default_factory=dict)
    parameters: dict[str, list[str | float | None]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def keep(self, good: BoolArray) -> "Chunk":
        """Return the rows where `good` is true."""
        indices = np.flatnonzero(good).tolist()
        return Chunk(
            rows=self.rows[good],
            is_typed=self.is_typed,
            texts={name: [cells[i] for i in indices] for name, cells in self.texts.items()},
            numbers={name: values[good] for name, values in self.numbers.items()},
            instants={name: [cells[i] for i in indices] for name, cells in self.instants.items()},
            money={name: [cells[i] for i in indices] for name, cells in self.money.items()},
            parameters={
                name: [cells[i] for i in indices] for name, cells in self.parameters.items()
            },
        )
