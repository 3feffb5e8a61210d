"""Stores many rows in each database's fastest way: statements of many rows, or COPY."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, islice, repeat
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import orjson
import sqlalchemy as sa

from app.domain.availability_errors import StorageUnavailableError
from app.domain.runs import NewRuns, RunContent

if TYPE_CHECKING:
    import psycopg

_Column = Sequence[object]
_RUNS: Final = "run"
_ESCAPED_CHARACTERS: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
"""Characters with a special meaning in COPY, and their escapes."""

_ESCAPES: Final = str.maketrans(_ESCAPED_CHARACTERS)
_NULL: Final = "\\N"
_ROWS_OF_A_STATEMENT: Final = 50
"""With fifty rows per statement SQLite takes two thirds of the time; more rows gain little."""


WriteRuns = Callable[[NewRuns], None]


@contextmanager
def writing_runs(connection: sa.Connection) -> Iterator[WriteRuns]:
    """Yield a function that stores blocks of runs in the transaction of a connection.

    On PostgreSQL one COPY stays open between blocks, so that the server stores one block while the
    next is prepared; until it ends, the connection accepts nothing else.
    """
    if connection.dialect.name == "sqlite":
        yield lambda runs: _execute_many(connection, _RUNS, _columns(runs))
        return
    with _Copying(connection, _RUNS) as copying:
        yield lambda runs: copying.write(_columns(runs))


def insert_columns(connection: sa.Connection, table: str, columns: Mapping[str, _Column]) -> None:
    """Store rows in the transaction of a connection.

    Parameters
    ----------
    connection
        In a transaction.
    table
        Our name for a table.
    columns
        Values as the table holds them, of equal length; JSON as its text, instants aware.

    Raises
    ------
    StorageUnavailableError
        If the database does not answer.
    """
    if connection.dialect.name == "sqlite":
        _execute_many(connection, table, columns)
        return
    with _Copying(connection, table) as copying:
        copying.write(columns)


def _columns(runs: NewRuns) -> dict[str, _Column]:
    size = len(runs.run_id)
    reasons = runs.exclusions
    content = {field.name: getattr(runs.content, field.name) for field in fields(RunContent)}
    columns: dict[str, _Column | None] = {
        "id": runs.run_id,
        "workload_id": runs.workload_id,
        "external_id": runs.external_id,
        "content_sha256": runs.content_sha256,
        **content,
        "excluded": [False] * size
        if reasons is None
        else [reason is not None for reason in reasons],
        "excluded_reason": reasons,
        "created_at": [runs.created_at] * size,
    }
    return {name: column for name, column in columns.items() if column is not None}


def _execute_many(connection: sa.Connection, table: str, columns: Mapping[str, _Column]) -> None:
    values = [_for_sqlite(column) for column in columns.values()]
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    max_rows = driver.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(columns)
    at_once = min(_ROWS_OF_A_STATEMENT, max_rows)
    n_full, n_rest = divmod(len(values[0]), at_once)
    row = f"({', '.join(repeat('?', len(columns)))})"
    # Taken from an iterator, so that the rows are never all in memory at once.
    cells = chain.from_iterable(zip(*values, strict=True))
    for repeats, rows in ((n_full, at_once), (1, n_rest)):
        statement = f"INSERT INTO {_target(connection, table, columns)} VALUES "  # noqa: S608 - quoted
        statement += ", ".join(repeat(row, rows))
        for _ in range(repeats if rows else 0):
            driver.execute(statement, tuple(islice(cells, rows * len(columns))))


def _target(connection: sa.Connection, table: str, names: Iterable[str]) -> str:
    """Return a table and its columns as statements name them."""
    quote = connection.dialect.identifier_preparer.quote
    return f"{quote(table)} ({', '.join(map(quote, names))})"


def _for_sqlite(column: _Column) -> _Column:
    kind = type(next((value for value in column if value is not None), None))
    if kind is Decimal:
        return [None if value is None else str(value) for value in column]
    if kind is datetime:
        return _converted(column, _sqlite_instant)
    return column


def _sqlite_instant(value: object) -> str:
    assert isinstance(value, datetime)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def _converted(column: _Column, convert: Callable[[object], str]) -> list[str | None]:
    """Convert each distinct value once: an upload repeats its instants often."""
    known = {value: convert(value) for value in set(column) if value is not None}
    return list(map(known.get, column))


class _Copying:
    """A COPY that stays open while blocks have the same columns; other columns begin a new one."""

    def __init__(self, connection: sa.Connection, table: str) -> None:
        import psycopg  # noqa: PLC0415 - loaded already on PostgreSQL, unneeded on SQLite

        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        self._connection, self._driver, self._table = connection, driver, table
        self._lost = psycopg.OperationalError, psycopg.InterfaceError
        self._open = ExitStack()
        self._columns: list[str] = []
        self._copy: psycopg.Copy | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._translating():
            self._open.__exit__(kind, failure, trace)

    def write(self, columns: Mapping[str, _Column]) -> None:
        with self._translating():
            if self._copy is None or list(columns) != self._columns:
                self._copy = self._begin(list(columns))
            self._copy.write(_to_block(columns))

    def _begin(self, names: list[str]) -> "psycopg.Copy":
        self._open.close()
        self._columns = names
        cursor = self._open.enter_context(self._driver.cursor())
        statement = f"COPY {_target(self._connection, self._table, names)} FROM STDIN"
        return self._open.enter_context(cursor.copy(statement.encode()))

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except self._lost as error:
            raise StorageUnavailableError(str(error)) from error


def _to_block(columns: Mapping[str, _Column]) -> str:
    lines = map("\t".join, zip(*map(_for_copy, columns.values()), strict=True))
    return "\n".join(chain(lines, repeat("", 1)))


def _for_copy(column: _Column) -> Sequence[str]:
    kinds = set(map(type, column))
    # Equal amounts may be written differently: 1.0 and 1.00.
    if len(kinds) == 1 and kinds != {Decimal} and column.count(column[0]) == len(column):
        return [_copy_value(column[0])] * len(column)
    if kinds <= {int, float, type(None)}:
        # The same digits as by repr(), in an eighth of the time.
        return orjson.dumps(column)[1:-1].decode().replace("null", _NULL).split(",")
    if kinds == {str}:
        return _escaped(column)  # type: ignore[arg-type] # all are texts
    if kinds == {datetime, type(None)} or kinds == {datetime}:
        return [value or _NULL for value in _converted(column, str)]
    return [_copy_value(value) for value in column]


def _escaped(texts: Sequence[str]) -> Sequence[str]:
    joined = "".join(texts)
    has_special = any(character in joined for character in _ESCAPED_CHARACTERS)
    return [text.translate(_ESCAPES) for text in texts] if has_special else texts


def _copy_value(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    if isinstance(value, bytes):
        return rf"\\x{value.hex()}"
    return str(value)
