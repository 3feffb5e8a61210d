"""Fixtures of the tests of the storage."""

from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from app.storage.database import Database


@pytest.fixture
def plans(database: Database) -> Sequence[str]:
    """What SQLite says of the statements of reading: which indexes it searches."""
    if not database.is_sqlite:
        pytest.skip("PostgreSQL plans by what is in the tables")
    plans: list[str] = []

    def explain(
        connection: sa.Connection, _cursor: Any, statement: str, parameters: Any, *_: object
    ) -> None:
        if statement.startswith("SELECT "):
            cursor = connection.connection.cursor()
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in cursor.fetchall())

    event.listen(database.engine, "before_cursor_execute", explain)
    return plans
