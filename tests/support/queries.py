"""Counts the statements that a piece of code sends to the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from app.storage.database import Database


@contextmanager
def recorded_queries(database: Database) -> Iterator[list[str]]:
    """Yield a list that collects the statements, except for transaction control."""
    statements: list[str] = []

    def record(_connection: sa.Connection, _cursor: Any, statement: str, *_others: object) -> None:
        if not statement.startswith("BEGIN"):
            statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(database.engine, "before_cursor_execute", record)
