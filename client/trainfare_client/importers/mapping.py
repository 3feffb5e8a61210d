"""What the caller states about all rows: `--map FIELD=EXPRESSION` and `--set FIELD=TEXT`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trainfare_client.importers.asked import OptionError, nearest_hint
from trainfare_client.importers.expressions import (
    Cell,
    ExpressionError,
    Node,
    columns_of,
    evaluate,
    parse,
)
from trainfare_client.importers.fields import field_of, unknown_field_remedy
from trainfare_client.importers.naming import slug

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_NAMES = 40


class MapError(OptionError):
    """A `--map` or `--set` is invalid."""


@dataclass
class ColumnMap:
    """Fields to fill from a row's facts, and fields with one value for all rows.

    Attributes
    ----------
    expressions, values
        The source of each field: an expression over the facts, or a text.
    """

    expressions: Mapping[str, Node] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    _missing: set[str] = field(init=False)
    _found: dict[str, None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._missing = {name for node in self.expressions.values() for name in columns_of(node)}

    @property
    def columns(self) -> set[str]:
        """The columns used in any expression."""
        return {name for node in self.expressions.values() for name in columns_of(node)}

    @property
    def fields(self) -> set[str]:
        """The fields filled by the map."""
        return {*self.expressions, *self.values}

    def apply(self, fields: Mapping[str, Cell], facts: Mapping[str, Cell]) -> dict[str, Cell]:
        """Return a row's fields, with those of the map replacing its own.

        Raises
        ------
        RowError
            If an expression cannot be evaluated.
        """
        if self._missing:
            self._missing -= facts.keys()
            self._found.update(dict.fromkeys(facts))
        mapped = {name: evaluate(node, facts) for name, node in self.expressions.items()}
        if isinstance(workload := mapped.get("workload"), str):
            mapped["workload"] = slug(workload)
        return {**fields, **mapped, **self.values}

    def check(self) -> None:
        """Refuse columns that no row had.

        Raises
        ------
        MapError
            If there are such columns; the remedy lists the existing ones.
        """
        if not self._missing:
            return
        name = min(self._missing)
        shown = ", ".join(list(self._found)[:_SHOWN_NAMES])
        raise MapError(
            f"--map reads {name!r}, which no row has.",
            f"{nearest_hint(name, self._found)}There are: {shown}."
            " Put names with other characters in [brackets].",
        )


def column_map(maps: Iterable[str], sets: Iterable[str], *, workload: str | None) -> ColumnMap:
    """Return the map given by a command's options.

    Raises
    ------
    MapError
        If a field does not exist or is given twice, or an expression is invalid.
    """
    expressions: dict[str, Node] = {}
    values: dict[str, str] = {} if workload is None else {"workload": workload}
    for option in maps:
        name, text = _split("--map", option, {**expressions, **values})
        try:
            expressions[name] = parse(text)
        except ExpressionError as error:
            raise MapError(
                f"--map {option!r} is not understood: {error}.",
                "Write FIELD=EXPRESSION with numbers, columns, + - * / and parentheses,"
                " such as duration_seconds=elapsed_ms*0.001; a name with spaces in [brackets].",
            ) from None
    for option in sets:
        name, text = _split("--set", option, {**expressions, **values})
        values[name] = text
    return ColumnMap(expressions, values)


def _split(flag: str, option: str, taken: Mapping[str, object]) -> tuple[str, str]:
    name, equals, text = option.partition("=")
    field_name = field_of(name.strip())
    if not equals or not text.strip():
        raise MapError(f"{flag} {option!r} gives no value.", f"Write {flag} FIELD=VALUE.")
    if field_name is None:
        raise MapError(
            f"{flag}: there is no field {name.strip()!r}.", unknown_field_remedy(name.strip())
        )
    if field_name in taken:
        raise MapError(f"{field_name} is given twice.", "Give each field once.")
    return field_name, text.strip()
