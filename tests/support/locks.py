"""Transactions that wait for a lock, which takes several writers: PostgreSQL."""

from concurrent.futures import Future
from typing import Any, Final

import pytest
import sqlalchemy as sa

from app.storage.database import Database

_WAITING: Final = sa.text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def require_several_writers(database: Database) -> None:
    """Skip the test on SQLite."""
    if database.is_sqlite:
        pytest.skip("SQLite has one writer at a time")


def wait_for_a_lock(database: Database, *others: Future[Any], count: int = 1) -> None:
    """Return when at least `count` transactions wait for a lock, or one of `others` has ended."""
    engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        while not any(other.done() for other in others):
            if connection.execute(_WAITING).scalar_one() >= count:
                return


def has_to_wait(database: Database, other: Future[Any]) -> bool:
    """Whether a transaction waits for a lock; False if it has ended instead."""
    wait_for_a_lock(database, other)
    return not other.done()
