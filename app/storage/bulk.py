"""Stores many runs by the fastest way of each database: driver's executemany, or COPY."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, repeat
from typing import Final

import sqlalchemy as sa

from app.domain.errors import StorageUnavailableError
from app.domain.runs import NewRuns, RunContent

_Column = Sequence[object]
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_NULL: Final = "\\N"


def insert_runs(connection: sa.Connection, runs: NewRuns) -> None:
    """Store runs in the transaction of `connection`."""
    columns = _columns(runs)
    if connection.dialect.name == "sqlite":
        _execute_many(connection, columns)
    else:
        _copy(connection, columns)


def _columns(runs: NewRuns) -> dict[str, _Column]:
    size = len(runs.run_id)
    content = {field.name: getattr(runs.content, field.name) for field in fields(RunContent)}
    columns: dict[str, _Column | None] = {
        "id": runs.run_id,
        "workload_id": runs.workload_id,
        "external_id": runs.external_id,
        "content_sha256": runs.content_sha256,
        **content,
        "excluded": [runs.exclusion is not None] * size,
        "excluded_reason": None if runs.exclusion is None else [runs.exclusion] * size,
        "created_at": [runs.created_at] * size,
    }
    return {name: column for name, column in columns.items() if column is not None}


def _execute_many(connection: sa.Connection, columns: Mapping[str, _Column]) -> None:
    marks = ", ".join(["?"] * len(columns))
    statement = f"INSERT INTO run ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of our own columns
    values = [_for_sqlite(column) for column in columns.values()]
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    try:
        # The driver takes the rows from an iterator, so that they never stand side by side.
        driver.executemany(statement, zip(*values, strict=True))
    except sqlite3.OperationalError as error:
        raise StorageUnavailableError from error


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
    """Convert each distinct value once: instants repeat much in an upload."""
    known = {value: convert(value) for value in set(column) if value is not None}
    return list(map(known.get, column))


def _copy(connection: sa.Connection, columns: Mapping[str, _Column]) -> None:
    import psycopg  # noqa: PLC0415 - on PostgreSQL it is there already, on SQLite nobody needs it

    names = ", ".join(columns)
    lines = map("\t".join, zip(*map(_for_copy, columns.values()), strict=True))
    block = "\n".join(chain(lines, repeat("", 1)))
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    statement = f"COPY run ({names}) FROM STDIN"
    try:
        with driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.write(block)
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StorageUnavailableError from error


def _for_copy(column: _Column) -> Sequence[str]:
    kinds = set(map(type, column))
    if kinds <= {int, float}:
        return list(map(repr, column))
    if kinds == {str}:
        return _escaped([str(value) for value in column])
    if kinds == {datetime, type(None)} or kinds == {datetime}:
        return [value or _NULL for value in _converted(column, str)]
    return [_copy_value(value) for value in column]


def _escaped(texts: list[str]) -> Sequence[str]:
    needs = "\\" in "".join(texts)
    return [text.translate(_ESCAPES) for text in texts] if needs else texts


def _copy_value(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    return str(value)
