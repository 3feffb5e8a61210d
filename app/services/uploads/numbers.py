"""Turns columns of cells into columns of numbers and finds the cells that are none."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.domain.configurations import MAX_PARAMETER
from app.services.uploads.chunks import BoolArray, Cell, FloatArray
from app.services.uploads.fields import NumberRule


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers, NaN where nothing was sent or the cell is bad; `is_bad` marks the bad cells."""

    values: FloatArray
    is_bad: BoolArray


def read_numbers(cells: Sequence[Cell], rule: NumberRule, *, is_typed: bool) -> NumberColumn:
    """Return the numbers of a column under the rule of its field."""
    values = _fast(cells, is_typed=is_typed)
    if values is None:
        values = np.array([_slow(cell, is_typed=is_typed) for cell in cells], dtype=np.float64)
    # Infinity stands for a cell that is no number: no field takes it.
    with np.errstate(invalid="ignore"):
        is_bad = ~np.isnan(values) & ~_is_allowed(values, rule)
    values[is_bad] = np.nan
    return NumberColumn(values, is_bad)


def is_number(cell: Cell, *, is_typed: bool) -> bool:
    """Whether a cell of a parameter is a number (absent cells are not asked about)."""
    return abs(_slow(cell, is_typed=is_typed)) <= MAX_PARAMETER


def _is_allowed(values: FloatArray, rule: NumberRule) -> BoolArray:
    above = values > rule.lower if rule.is_open else values >= rule.lower
    allowed: BoolArray = above & (values <= rule.upper) & np.isfinite(values)
    if rule.is_whole:
        allowed &= values == np.floor(values)
    return allowed


def _fast(cells: Sequence[Cell], *, is_typed: bool) -> FloatArray | None:
    if is_typed:
        if not set(map(type, cells)) <= {int, float, type(None)}:
            return None
        filled: Sequence[Cell] = [np.nan if cell is None else cell for cell in cells]
    else:
        # float() reads "1_000" and "nan", which nobody means in a file of measurements.
        joined = "".join(map(str, cells))
        if "_" in joined or "n" in joined or "N" in joined:
            return None
        filled = [cell or "nan" for cell in cells] if "" in cells else cells
    try:
        return np.fromiter(map(float, filled), np.float64, len(cells))  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None


def _slow(cell: Cell, *, is_typed: bool) -> float:
    """Return the number, NaN for an absent cell, infinity for one that is no number."""
    text = cell.strip() if isinstance(cell, str) else cell
    if text is None or text == "":
        return np.nan
    if isinstance(text, str) and (is_typed or "_" in text):
        return np.inf
    try:
        value = float(text)
    except (ValueError, OverflowError):
        return np.inf
    return np.inf if np.isnan(value) else value
