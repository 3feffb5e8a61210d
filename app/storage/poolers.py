"""Detects a pooler that shares PostgreSQL's sessions among connections."""

from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa

from app.domain.availability_errors import SharedSessionsError
from app.storage.database import Database

_STATEMENT_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 5


def require_own_sessions(database: Database) -> None:
    """Refuse a pooler that shares sessions, unless the URL says so.

    Prepared statements would be missing, or belong to another connection.

    Raises
    ------
    SharedSessionsError
        If two connections had the same session, or one had two.
    """
    if database.is_sqlite or database.shares_sessions or _is_direct(database):
        return
    with (
        closing(database.with_own_connection(_STATEMENT_TIMEOUT_S)) as first,
        closing(database.with_own_connection(_STATEMENT_TIMEOUT_S)) as second,
    ):
        for _ in range(_ATTEMPTS):
            # Ask the first again: if it was closed, the second may rightly have its session.
            session, other_session, repeated_session = (
                _session(first),
                _session(second),
                _session(first),
            )
            if session == other_session or session != repeated_session:
                raise SharedSessionsError


def _is_direct(database: Database) -> bool:
    """Whether the session has the identifier given at the start; poolers invent one."""
    with database.translating_errors(), database.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        return bool(driver.info.backend_pid == _backend_pid(connection))


def _session(database: Database) -> int:
    with database.translating_errors(), database.engine.connect() as connection:
        return _backend_pid(connection)


def _backend_pid(connection: sa.Connection) -> int:
    pid: int = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    return pid
