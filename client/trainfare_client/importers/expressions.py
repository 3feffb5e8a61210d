"""The arithmetic of a column map: numbers, columns, + - * / and parentheses, nothing else.

::

    expression = term {("+" | "-") term}
    term       = factor {("*" | "/") factor}
    factor     = number | column | "(" expression ")" | "-" factor
    column     = letter or "_", then letters, digits, "_" and "."; or anything in [brackets]
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Union

from trainfare_client.importers.faults import RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Cell = str | int | float | None
"""A value of a source; None if absent."""

_MAX_LENGTH: Final = 500
_MAX_DEPTH: Final = 40
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)"
    r"|(?P<name>[A-Za-z_][\w.]*)|\[(?P<quoted>[^\[\]]+)\]|(?P<mark>[-+*/()]))",
    re.ASCII,
)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_OPERATIONS: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class ExpressionError(ValueError):
    """A text is not an expression."""


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Column:
    """The cell of a column."""

    name: str


@dataclass(frozen=True)
class Operation:
    """Two values and the operation on them."""

    mark: str
    left: Node
    right: Node


Node = Union[Number, Column, "Operation"]


def parse(text: str) -> Node:
    """Return the expression that a text represents.

    Raises
    ------
    ExpressionError
        If it is not one; the message says where.

    Examples
    --------
    >>> evaluate(parse("elapsed_ms * 0.001"), {"elapsed_ms": "1500"})
    1.5
    >>> evaluate(parse("[Wall time (h)] * 3600 / nodes"), {"Wall time (h)": 2, "nodes": 4})
    1800.0
    """
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"it is longer than {_MAX_LENGTH} characters")
    return _Parser(text).parse()


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of the columns used in an expression."""
    if isinstance(node, Column):
        yield node.name
    elif isinstance(node, Operation):
        yield from columns_of(node.left)
        yield from columns_of(node.right)


def evaluate(node: Node, cells: Mapping[str, Cell]) -> Cell:
    """Return the value of an expression in a row; None if a cell is absent.

    A single column keeps its cell unchanged, even a word.

    Raises
    ------
    RowError
        If a cell is not a number, or the value is not finite.
    """
    if isinstance(node, Column):
        return cells.get(node.name)
    try:
        value = _number(node, cells)
    except ZeroDivisionError:
        raise RowError("The map divides by zero.", "Correct the cell, or the map.") from None
    except OverflowError:
        value = math.inf
    if value is not None and not math.isfinite(value):
        raise RowError("The map gives no finite number.", "Correct the cell, or the map.")
    # 9875300 * 0.001 should be 9875.3, without the error in the last bit.
    return None if value is None else float(f"{value:.15g}")


def is_number(text: str) -> bool:
    """Return whether a text is a plain number."""
    return _NUMBER.fullmatch(text) is not None


def number_in(cell: Cell, name: str) -> float | None:
    """Return the number in a cell, None if it is absent.

    Raises
    ------
    RowError
        If it is not a number.
    """
    if isinstance(cell, str):
        text = cell.strip()
        if not text:
            return None
        if not is_number(text):
            raise RowError(
                f"{name} {text[:60]!r} is not a number.",
                "Write numbers as 5123.7, without units and with a decimal point.",
            )
        return float(text)
    return None if cell is None else as_float(cell)


def as_float(number: float) -> float:
    """Return a number as a float, infinity for a whole number too large for one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _number(node: Node, cells: Mapping[str, Cell]) -> float | None:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Column):
        return number_in(cells.get(node.name), node.name)
    left, right = _number(node.left, cells), _number(node.right, cells)
    if left is None or right is None:
        return None
    return _OPERATIONS[node.mark](left, right)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._token = self._next()

    def parse(self) -> Node:
        node = self._sum()
        if self._token is not None:
            raise self._unexpected()
        return node

    def _next(self) -> tuple[str, str] | None:
        if not self._text[self._position :].strip():
            return None
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:
            raise ExpressionError(
                f"{self._text[self._position :].strip()[:20]!r} is not understood"
            )
        self._position = match.end()
        return match.lastgroup, match[match.lastgroup]

    def _accept(self, marks: str) -> str | None:
        if self._token is None or self._token[0] != "mark" or self._token[1] not in marks:
            return None
        mark = self._token[1]
        self._token = self._next()
        return mark

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ExpressionError("it is nested too deeply")
        node = self._product()
        while mark := self._accept("+-"):
            node = Operation(mark, node, self._product())
        self._depth -= 1
        return node

    def _product(self) -> Node:
        node = self._factor()
        while mark := self._accept("*/"):
            node = Operation(mark, node, self._factor())
        return node

    def _factor(self) -> Node:
        if self._accept("-"):
            return Operation("*", Number(-1.0), self._factor())
        if self._accept("("):
            node = self._sum()
            if not self._accept(")"):
                raise ExpressionError("a parenthesis is not closed")
            return node
        if self._token is None or self._token[0] == "mark":
            raise self._unexpected()
        kind, text = self._token
        self._token = self._next()
        return Number(float(text)) if kind == "number" else Column(text.strip())

    def _unexpected(self) -> ExpressionError:
        if self._token is None:
            return ExpressionError("it ends too early")
        return ExpressionError(f"{self._token[1]!r} does not belong there")
