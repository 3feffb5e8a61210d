"""Parses single cells into texts, instants and money, each distinct cell once."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from math import inf
from typing import Final, Generic, TypeVar

from app.domain.configurations import MAX_PARAMETER, Purchase
from app.domain.exchange_rates import CURRENCY_REMEDY, NO_CURRENCY, currency_code
from app.domain.identifiers import parse_slug
from app.domain.runs import RunStatus
from app.domain.spelling import nearest_field
from app.domain.wording import say_unprintable
from app.services.uploads.chunks import Cell
from app.services.uploads.fields import (
    MAX_EXTERNAL_ID,
    MAX_IDENTIFIER,
    MAX_TEXT,
    MAX_VALUE_TEXT,
)

Value = TypeVar("Value")
_MAX_REMEMBERED: Final = 20_000
_MICROS: Final = Decimal("0.000001")
_MAX_MONEY: Final = Decimal("1e13")
_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_PLAIN_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


class CellError(ValueError):
    """A cell is not a valid value of its field."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


class CellReader(dict[Cell, Value | None], Generic[Value]):
    """Parses the cells of one field and remembers the value of each distinct cell.

    Absent and bad cells are read as None; `errors` holds the bad ones.
    """

    def __init__(self, parse: Callable[[Cell], Value]) -> None:
        super().__init__()
        self.errors: dict[Cell, CellError] = {}
        self._parse = parse

    def __missing__(self, cell: Cell) -> Value | None:
        value = None
        text = cell.strip() if isinstance(cell, str) else cell
        if text is not None and text != "":
            try:
                value = self._parse(text)
            except CellError as error:
                self.errors[cell] = error
        if len(self) < _MAX_REMEMBERED:
            self[cell] = value
        return value

    def read(self, cells: Sequence[Cell]) -> list[Value | None]:
        """Return the values of a column."""
        if cells and cells.count(cells[0]) == len(cells):
            return [self[cells[0]]] * len(cells)
        return list(map(self.__getitem__, cells))


def are_plain_texts(cells: Sequence[Cell], limit: int) -> bool:
    """Whether all cells are present texts that need neither trimming nor rejection."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell]
    joined = "".join(texts)
    is_full = len(texts) == len(cells)
    return is_full and " " not in joined and joined.isprintable() and max(map(len, texts)) <= limit


def _text(cell: Cell, limit: int = MAX_TEXT) -> str:
    if not isinstance(cell, str):
        raise CellError("It is not text.", "Send it as text in quotes.")
    if len(cell) > limit:
        raise CellError(f"It is longer than {limit} characters.", "Shorten it.")
    if not cell.isprintable():
        first = say_unprintable(cell)
        raise CellError(
            f"It has characters that cannot be printed, the first is {first}.", "Remove them."
        )
    return cell


def parse_name(cell: Cell) -> str:
    """Return the name of a machine, a GPU, a provider or a region."""
    return _text(cell)


def parse_forecast_id(cell: Cell) -> str:
    """Return the id of the forecast that a run is compared with."""
    return _text(cell, MAX_IDENTIFIER)


def parse_value_text(cell: Cell) -> str:
    """Return the value of a label or category."""
    return _text(cell, MAX_VALUE_TEXT)


def parse_parameter(cell: Cell) -> str | float:
    """Return a parameter's value as it was sent: a text, or a number up to `MAX_PARAMETER`."""
    if cell is None or isinstance(cell, str):
        return parse_value_text(cell)
    try:
        value = float(cell)
    except OverflowError:
        value = inf
    if abs(value) > MAX_PARAMETER:
        wanted = f"a finite number from -{MAX_PARAMETER:g} to {MAX_PARAMETER:g}"
        raise CellError(f"It is not {wanted}.", f"Send {wanted}.")
    return value


def parse_external_id(cell: Cell) -> str:
    """Return the caller's own id of a run; a whole number is taken as text."""
    return _text(str(cell) if isinstance(cell, int) else cell, MAX_EXTERNAL_ID)


def parse_workload(cell: Cell) -> str:
    """Return a workload's id, case-folded."""
    slug = parse_slug(cell) if isinstance(cell, str) else None
    if slug is None:
        raise CellError(
            "It is not a workload id.",
            "Use letters, digits, '.', '_' and '-' (1 to 100 characters, the first a letter or"
            " digit).",
        )
    return slug


def _one_of(cell: Cell, known: Sequence[str]) -> str:
    text = cell.casefold() if isinstance(cell, str) else ""
    if text in known:
        return text
    nearest = nearest_field(text, known)
    hint = f"Did you mean {nearest!r}? " if nearest else ""
    raise CellError("It is not one of the known values.", f"{hint}Known: {', '.join(known)}.")


def parse_status(cell: Cell) -> str:
    """Return how a run ended."""
    return _one_of(cell, [str(status) for status in RunStatus])


def parse_purchase(cell: Cell) -> str:
    """Return how capacity was paid for."""
    return _one_of(cell, [str(purchase) for purchase in Purchase])


def parse_currency(cell: Cell) -> str:
    """Return an ISO 4217 code."""
    code = currency_code(cell) if isinstance(cell, str) else None
    if code is None:
        raise CellError(NO_CURRENCY, CURRENCY_REMEDY)
    return code


def parse_instant(cell: Cell) -> datetime:
    """Return an RFC 3339 instant in UTC."""
    remedy = "Send an RFC 3339 instant with its offset, such as 2026-11-01T10:00:00Z."
    if not isinstance(cell, str) or not _INSTANT.fullmatch(cell):
        raise CellError("It is not an instant with an offset from UTC.", remedy)
    try:
        return datetime.fromisoformat(cell.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise CellError(f"There is no such instant: {error}.", remedy) from error


def parse_money(cell: Cell) -> Decimal:
    """Return an amount of money with six decimals; of a JSON number, its shortest form is read."""
    remedy = 'Send a decimal such as "34.83", without a currency sign.'
    text = repr(cell) if isinstance(cell, int | float) else cell
    if not isinstance(text, str) or not _PLAIN_NUMBER.fullmatch(text):
        raise CellError("It is not an amount of money.", remedy)
    amount = Decimal(text)
    if not 0 <= amount < _MAX_MONEY:
        raise CellError("An amount is from 0 to 10,000,000,000,000.", remedy)
    return abs(amount.quantize(_MICROS))


TEXT_PARSERS: Final[Mapping[str, Callable[[Cell], str]]] = {
    "workload": parse_workload,
    "external_id": parse_external_id,
    "status": parse_status,
    "purchase": parse_purchase,
    "cost_currency": parse_currency,
    "gpu_type": parse_name,
    "instance_type": parse_name,
    "provider": parse_name,
    "region": parse_name,
    "forecast_id": parse_forecast_id,
}
