"""Converts columns of cells into columns of numbers and finds the cells that are none."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson

from app.domain.configurations import MAX_PARAMETER
from app.services.uploads.chunks import BoolArray, Cell, FloatArray
from app.services.uploads.fields import NumberRule

_MISWRITTEN: Final = re.compile(
    r"[+-]?(\d+([.,]\d+)? ?%|\d+,\d+"
    r"|\d{1,3}([,' \u00a0\u202f]\d{3})+(\.\d+)?|\d{1,3}(\.\d{3})+,\d+)",
    re.ASCII,
)
_WITH_UNIT: Final = re.compile(
    r"[+\u2212-]?\d+(\.\d+)?[ \u00a0\u202f]?"
    r"(([kKMGTP]i?)?([bB](it|ps)?(/s)?)?|[mun\u00b5\u03bc]?s|min|h|[kMG]?Hz|k?W)",
    re.ASCII,
)
"""A number with a common unit, or with the minus sign of typeset text, which float() refuses."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers, NaN where the cell is absent or bad; `is_bad` marks the bad cells."""

    values: FloatArray
    is_bad: BoolArray


def read_numbers(cells: Sequence[Cell], rule: NumberRule, *, is_typed: bool) -> NumberColumn:
    """Return the numbers of a column under the rule of its field."""
    values = _parse_column(cells, is_typed=is_typed)
    if values is None:
        values = np.array(
            [_parse_cell(cell, is_typed=is_typed) for cell in cells], dtype=np.float64
        )
    # Infinity stands for a cell that is not a number: no field accepts it.
    with np.errstate(invalid="ignore"):
        is_bad = ~np.isnan(values) & ~_is_allowed(values, rule)
    values[is_bad] = np.nan
    return NumberColumn(values, is_bad)


def is_number(cell: Cell, *, is_typed: bool) -> bool:
    """Whether a parameter's cell is a number (never called for absent cells)."""
    return abs(_parse_cell(cell, is_typed=is_typed)) <= MAX_PARAMETER


def is_miswritten(text: str) -> bool:
    """Whether a text is a number with a decimal comma, separators of thousands or a percent sign.

    Examples
    --------
    >>> is_miswritten("0,5"), is_miswritten("1.234,5"), is_miswritten("10 %"), is_miswritten("0.5")
    (True, True, True, False)
    """
    return _MISWRITTEN.fullmatch(text) is not None


def has_unit(text: str) -> bool:
    """Whether a text is a number but for its unit, or for the sign of its minus.

    Examples
    --------
    >>> has_unit("24 GB"), has_unit("1.5M"), has_unit("\u22124"), has_unit("fp16"), has_unit("8x")
    (True, True, True, False, False)
    """
    return _WITH_UNIT.fullmatch(text) is not None


def _is_allowed(values: FloatArray, rule: NumberRule) -> BoolArray:
    above = values > rule.lower if rule.is_open else values >= rule.lower
    allowed: BoolArray = above & (values <= rule.upper) & np.isfinite(values)
    if rule.is_whole:
        allowed &= values == np.floor(values)
    return allowed


def _parse_column(cells: Sequence[Cell], *, is_typed: bool) -> FloatArray | None:
    """Return the numbers of a purely numeric column, None where each cell must be examined."""
    numbers = cells if is_typed else _parsed(cells)
    if numbers is None or not set(map(type, numbers)) <= {int, float, type(None)}:
        return None
    try:
        return np.array(numbers, dtype=np.float64)
    except OverflowError:
        return None


def _parsed(cells: Sequence[Cell]) -> Sequence[Cell] | None:
    """Return the cells parsed as one JSON list, absent ones None: faster than float() of each.

    JSON's numbers mean the same to float(). A text with a comma or a bracket would change the
    length of the list, and a text "null" the number of Nones.
    """
    n_absent = cells.count("")
    texts = [cell or "null" for cell in cells] if n_absent else cells
    try:
        numbers: list[Cell] = orjson.loads(f"[{','.join(texts)}]")  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        return None
    is_cell_by_cell = len(numbers) == len(cells) and numbers.count(None) == n_absent
    return numbers if is_cell_by_cell else None


def _parse_cell(cell: Cell, *, is_typed: bool) -> float:
    """Return the number, NaN for an absent cell, infinity for one that is not a number."""
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
