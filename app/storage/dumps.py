"""All rows of the database as JSON values, the same on SQLite and PostgreSQL."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import orjson
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.orm import Session

from app.domain.backups import RefusedRowError, TableDump
from app.storage.bulk import insert_columns
from app.storage.dialects import is_sqlite
from app.storage.tables import Base
from app.storage.types import JSON_DOCUMENT, ExactDecimal, JsonDocument, UtcDateTime, json_text

_ROWS_AT_ONCE: Final = 1000
_LARGE_AT_ONCE: Final = 10
"""For rows with bytes: artefacts and answers of up to several megabytes."""
_UNAVAILABLE: Final = (exc.OperationalError, exc.InterfaceError)
"""Errors that say nothing about a row."""
_SEEDED: Final = frozenset({"project", "fitter"})
"""Tables that have rows before anybody has stored anything."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How values of one kind are converted to and from JSON; NULL is null."""

    type: sa.types.TypeEngine[Any] | None
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _identity(value: Any) -> Any:
    return value


def _to_text(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()


def _to_fragment(text: str) -> Any:
    """Return a stored JSON document as it is; one of several lines would end that of its row."""
    return json.loads(text) if "\n" in text else orjson.Fragment(text)


def _to_stored_document(document: Any) -> str | None:
    return None if document is None else json_text(document)


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


_KINDS: Final = {
    "instant": _Kind(UtcDateTime(), _to_text, datetime.fromisoformat),
    "decimal": _Kind(ExactDecimal(), str, Decimal),
    "json": _Kind(JSON_DOCUMENT, _to_fragment, _identity),
    "bytes": _Kind(sa.LargeBinary(), _to_base64, base64.b64decode),
    "boolean": _Kind(sa.Boolean(), _identity, _identity),
    "plain": _Kind(None, _identity, _identity),
}


def _kind_of(column: sa.Column[Any]) -> str:
    match column.type:
        case UtcDateTime():
            return "instant"
        case ExactDecimal():
            return "decimal"
        case JsonDocument():
            return "json"
        case sa.LargeBinary():
            return "bytes"
        case sa.Boolean():
            return "boolean"
        case _:
            return "plain"


def _at_once(table: TableDump) -> int:
    return _LARGE_AT_ONCE if "bytes" in table.kinds else _ROWS_AT_ONCE


def _converted(values: Sequence[Any], coders: Sequence[Callable[[Any], Any]]) -> list[Any]:
    return [
        None if value is None else code(value) for value, code in zip(values, coders, strict=True)
    ]


def _is_beyond(kind: sa.types.TypeEngine[Any], value: Any) -> bool:
    """Whether a value is longer or larger than columns of a type accept."""
    match kind, value:
        case sa.String(length=int() as longest), str():
            return len(value) > longest
        case sa.BigInteger(), int():
            return not -(1 << 63) <= value < 1 << 63
        case sa.Integer(), int():
            return not -(1 << 31) <= value < 1 << 31
        case _:
            return False


class DumpStore:
    """Reads and writes whole tables, without knowing what their rows mean."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_sqlite = is_sqlite(session)

    def freeze(self) -> None:
        """Make this transaction read everything as of one instant; call before its first query."""
        if not self._is_sqlite:
            self._session.connection(execution_options={"isolation_level": "REPEATABLE READ"})

    @staticmethod
    def tables() -> list[TableDump]:
        """Return all tables, each after those that it references."""
        return [
            TableDump(
                table.name,
                tuple(column.name for column in table.columns),
                tuple(_kind_of(column) for column in table.columns),
            )
            for table in Base.metadata.sorted_tables
        ]

    def read(self, table: TableDump) -> Iterator[list[Any]]:
        """Yield the rows of a table as values for `orjson`, in the order of its columns.

        Documents come as the text that the database has: to read and write each would take longer
        than everything else.
        """
        encoders = [_KINDS[kind].encode for kind in table.kinds]
        columns = zip(self._table(table).columns, table.kinds, strict=True)
        query = sa.select(*(self._as_stored(column, kind) for column, kind in columns))
        for row in self._session.execute(query.execution_options(yield_per=_at_once(table))):
            yield _converted(row, encoders)

    def _as_stored(self, column: sa.ColumnElement[Any], kind: str) -> sa.ColumnElement[Any]:
        if kind != "json":
            return column
        return sa.type_coerce(column, sa.Text) if self._is_sqlite else sa.cast(column, sa.Text)

    def write(self, table: TableDump, rows: Iterable[list[Any]]) -> int:
        """Insert rows of JSON values, as `read` yields them; return their number.

        Raises
        ------
        RefusedRowError
            If the database rejects one of them.
        """
        decoders = [_KINDS[kind].decode for kind in table.kinds]
        count = 0
        remaining = iter(rows)
        while block := list(islice(remaining, _at_once(table))):
            values = [_converted(row, decoders) for row in block]
            if not self._insert_together(table, values):
                self._insert_each(table, values, count)
            count += len(block)
        self._continue_numbering(table)
        return count

    def _insert_together(self, table: TableDump, rows: Sequence[Sequence[Any]]) -> bool:
        """Insert rows in the database's fastest way, or none and return False if it rejects any."""
        columns = {
            name: list(map(_to_stored_document, column)) if kind == "json" else column
            for name, kind, column in zip(
                table.columns, table.kinds, zip(*rows, strict=True), strict=True
            )
        }
        driver_error = self._session.connection().dialect.loaded_dbapi.Error
        try:
            with self._session.begin_nested():
                # Asked for within, since that is what sets the savepoint.
                insert_columns(self._session.connection(), table.name, columns)
        except (driver_error, OverflowError, TypeError, ValueError):
            return False
        return True

    def _insert_each(self, table: TableDump, rows: Sequence[Sequence[Any]], before: int) -> None:
        """Insert rows one by one, up to one that is rejected."""
        insert = sa.insert(self._table(table))
        for number, values in enumerate(rows, before + 1):
            row = dict(zip(table.columns, values, strict=True))
            reason = self._refusal(insert, row)
            if reason is not None:
                raise RefusedRowError(table.name, number, self._oversized(table, row), reason)

    def _refusal(self, insert: sa.Insert, row: dict[str, Any]) -> str | None:
        """Insert a row and return None, or return why the database rejects it."""
        try:
            with self._session.begin_nested():
                self._session.execute(insert, row)
        except (exc.StatementError, OverflowError) as error:
            if isinstance(error, _UNAVAILABLE) or getattr(error, "connection_invalidated", False):
                raise
            return str(getattr(error, "orig", None) or error).partition("\n")[0].rstrip(".")
        return None

    def _oversized(self, table: TableDump, row: dict[str, Any]) -> str | None:
        """Return the first column whose value is longer or larger than its type allows."""
        for column in sa.inspect(self._session.connection()).get_columns(table.name):
            if _is_beyond(column["type"], row.get(column["name"])):
                return column["name"]
        return None

    def holds_data(self) -> bool:
        """Whether anybody stored anything, whatever the schema."""
        existing = set(sa.inspect(self._session.connection()).get_table_names()) - _SEEDED
        tables = (table for table in Base.metadata.sorted_tables if table.name in existing)
        return any(
            self._session.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first()
            for table in tables
        )

    def clear(self, tables: Sequence[TableDump]) -> None:
        """Remove all rows of the given tables, which are in the order of `tables`."""
        for table in reversed(tables):
            self._session.execute(sa.delete(self._table(table)))

    @staticmethod
    def _table(table: TableDump) -> sa.TableClause:
        columns: list[sa.ColumnClause[Any]] = [
            sa.column(name, _KINDS[kind].type)
            for name, kind in zip(table.columns, table.kinds, strict=True)
        ]
        return sa.table(table.name, *columns)

    def _continue_numbering(self, table: TableDump) -> None:
        """Make PostgreSQL continue numbering after rows that came with their own numbers."""
        if self._is_sqlite or "id" not in table.columns:
            return
        sequence = self._session.scalar(sa.select(sa.func.pg_get_serial_sequence(table.name, "id")))
        if sequence is None:
            return
        newest = sa.select(sa.func.max(self._table(table).columns["id"])).scalar_subquery()
        next_id = 1 + (self._session.scalar(sa.select(newest)) or 0)
        # Unlike setval(), this is rolled back with the transaction.
        self._session.execute(sa.text(f"ALTER SEQUENCE {sequence} RESTART WITH {next_id}"))
