"""Inserts that say what happens to existing rows, in each database's own dialect."""

from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from app.storage.dialects import is_sqlite
from app.storage.tables import Base

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def insert_into(session: Session, table: type[Base]) -> "sqlite.Insert | postgresql.Insert":
    """Return an insert with `on_conflict_do_nothing` and `on_conflict_do_update`."""
    # A process needs only one of the two dialects.
    if is_sqlite(session):
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
