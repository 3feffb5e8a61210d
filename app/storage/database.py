"""The engine and the transaction: one service call, one commit."""

import logging
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from sqlite3 import (
    SQLITE_CANTOPEN,
    SQLITE_CONSTRAINT_FOREIGNKEY,
    SQLITE_CORRUPT,
    SQLITE_NOTADB,
    SQLITE_PERM,
    SQLITE_READONLY,
)
from sqlite3 import DatabaseError as SqliteError
from sqlite3 import OperationalError as SqliteOperationalError
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

from app.domain import deadlines
from app.domain.access_errors import UnauthenticatedError
from app.domain.availability_errors import (
    OldSqliteError,
    SharedSessionsError,
    StorageUnavailableError,
    StorageUnusableError,
)
from app.storage.sessions import (
    POOL_MODE,
    is_shared,
    prepare_sessions,
    prepare_transactions,
    require_encoding,
)
from app.storage.stores import Stores
from app.storage.types import json_text

_logger = logging.getLogger(__name__)
_SQLITE_BUSY_TIMEOUT_MS = 30_000
_POSTGRES_OPTIONS: Final = {
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "fallback_application_name": "trainfare",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""A database of another encoding answers in text too, so that it can be refused. Connections of a
server that vanished silently (a lost machine, a cut network) end in about 20 s: by default the
kernel blocks the threads that wait for it for a quarter of an hour or longer. All are in seconds,
but the last is in milliseconds."""
_PRIVATE: Final = 0o600
PAGE_BYTES: Final = 16_384
"""Page size of a new SQLite file. A recorded forecast takes more than half of a default page of
4 KB, so that each would write one of its own, half of it empty."""
_REFUSED: Final = {"42P01", "42703", "42501", "25006"}
"""PostgreSQL's codes for missing tables and columns, for missing privileges, and for a read-only
server, such as a standby; SQLite raises operational errors for these."""
_SHARED: Final = {"26000", "42P05"}
"""Its codes for prepared statements that are missing or exist already, as in shared sessions."""
_NO_SUCH_PARENT: Final = "23503"
"""Its code for a row that references a missing one."""
_UNUSABLE: Final = {SQLITE_CANTOPEN, SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_PERM, SQLITE_READONLY}
_PRIMARY_CODE: Final = 0xFF
"""The lower byte of SQLite's extended codes."""
_MAX_TIMEOUT_MS = (1 << 31) - 1
_OLDEST_SQLITE: Final = (3, 35)
"""The first with RETURNING; some distributions for enterprises bring an older one."""


def _is_no_path(name: str) -> bool:
    """Whether SQLite's database name is that of one in memory, or a URI."""
    return name == ":memory:" or name.startswith("file:")


def _prepare_sqlite(engine: sa.Engine, busy_timeout_ms: int) -> None:
    """Give SQLite foreign keys, WAL and real transactions (writers lock at once)."""

    @event.listens_for(engine, "do_connect")
    def _before_connect(_dialect: object, _record: object, where: list[str], _how: object) -> None:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise OldSqliteError(sqlite3.sqlite_version, ".".join(map(str, _OLDEST_SQLITE)))
        # Runs and prices are private; SQLite gives the files beside it the same mode.
        if not _is_no_path(where[0]):
            with suppress(OSError):  # it exists, or SQLite reports what is wrong
                os.close(os.open(where[0], os.O_CREAT | os.O_EXCL, _PRIVATE))

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        # Takes effect for a new file only, and only before WAL.
        cursor.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        # A reader that upgrades to a writer in WAL mode fails at once instead of waiting, so
        # transactions that may write take the lock at their beginning.
        reading = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _reason(error: Exception) -> str:
    """Return the driver's message in one line; a traceback would add nothing."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _is_unusable(error: Exception) -> bool:
    """Whether there is no such database, or it is closed to this process: no retry helps."""
    if isinstance(error, exc.ProgrammingError) and error.statement is None:
        # The driver does not even try: the URL has an unknown option.
        return True
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    is_refused = code is not None and code & _PRIMARY_CODE in _UNUSABLE
    return is_refused or _sqlstate(error) in _REFUSED | _SHARED


def _sqlstate(error: Exception) -> str | None:
    """Return PostgreSQL's code of an error, None where there is none."""
    return getattr(getattr(error, "orig", error), "sqlstate", None)


def _is_of_removed_project(error: exc.DBAPIError) -> bool:
    """Whether a row was refused because its project does not exist any more."""
    if getattr(error.orig, "sqlite_errorcode", None) == SQLITE_CONSTRAINT_FOREIGNKEY:
        # A writer locks the whole file: nothing else that it found can have been removed since.
        return True
    constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None) or ""
    return _sqlstate(error) == _NO_SUCH_PARENT and constraint.endswith("_project_id_project")


def _unavailable(error: Exception) -> StorageUnavailableError:
    reason = _reason(error)
    if _sqlstate(error) in _SHARED:
        _logger.warning("sessions of PostgreSQL are shared", extra={"reason": reason})
        return SharedSessionsError(reason)
    if _is_unusable(error):
        _logger.warning("database cannot be used", extra={"reason": reason})
        return StorageUnusableError(reason)
    _logger.warning("database unavailable", extra={"reason": reason})
    return StorageUnavailableError(reason)


def make_engine(
    url: str, *, pool_size: int = 20, statement_timeout_s: float | None = None
) -> sa.Engine:
    """Return the engine for SQLite or PostgreSQL (psycopg 3).

    `postgres://` and `postgresql://` URLs are read as psycopg's; `pool_mode=transaction` says that
    a pooler gives each transaction another session. SQLite has no time limit for statements; there
    `statement_timeout_s` limits the wait for its lock.
    """
    parsed = sa.make_url(url)
    if parsed.drivername in {"postgres", "postgresql"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    options: dict[str, Any] = {
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": 10,
        "json_serializer": json_text,
        # Logged errors show statements without what requests contained.
        "hide_parameters": True,
    }
    if parsed.get_backend_name() == "postgresql":
        options["pool_pre_ping"] = True
        # The URL's own options take precedence.
        options["connect_args"] = {
            name: value for name, value in _POSTGRES_OPTIONS.items() if name not in parsed.query
        }
        if is_shared(parsed):
            options["connect_args"]["prepare_threshold"] = None
    engine = sa.create_engine(parsed.difference_update_query([POOL_MODE]), **options)
    if parsed.get_backend_name() == "postgresql":
        require_encoding(engine)
        prepare = prepare_transactions if is_shared(parsed) else prepare_sessions
        prepare(engine, _milliseconds(statement_timeout_s or 0))
    if parsed.get_backend_name() == "sqlite":
        limit_ms = _milliseconds(statement_timeout_s or math.inf)
        _prepare_sqlite(engine, min(limit_ms, _SQLITE_BUSY_TIMEOUT_MS))
    return engine


def _milliseconds(seconds: float) -> int:
    return int(min(seconds * 1e3, _MAX_TIMEOUT_MS))


def _close_connection(_connection: object, record: ConnectionPoolEntry) -> None:
    record.invalidate()


class Database:
    """Hands out transactions; nobody else commits.

    Parameters
    ----------
    url
        SQLAlchemy URL of an SQLite file or a PostgreSQL database.
    pool_size
        The most connections held at once.
    statement_timeout_s
        How long one statement may take on PostgreSQL, or wait for the lock on SQLite; work for a
        request with a longer deadline gets that time. None: no limit.
    """

    def __init__(
        self, url: str, *, pool_size: int = 20, statement_timeout_s: float | None = None
    ) -> None:
        self._url, self._statement_timeout_s = url, statement_timeout_s
        self.engine = make_engine(url, pool_size=pool_size, statement_timeout_s=statement_timeout_s)
        self._writing = sessionmaker(self.engine, expire_on_commit=False)
        self._reading = sessionmaker(
            self.engine.execution_options(read_only=True), expire_on_commit=False
        )

    def with_own_connection(self, statement_timeout_s: float) -> "Database":
        """Return the same database on one separate connection, which these cannot exhaust."""
        return Database(self._url, pool_size=1, statement_timeout_s=statement_timeout_s)

    @property
    def shares_sessions(self) -> bool:
        """Whether the URL says that a pooler gives each transaction another session."""
        return is_shared(sa.make_url(self._url))

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @property
    def file(self) -> Path | None:
        """The file of an SQLite database, None where there is none."""
        path = self.engine.url.database
        if not self.is_sqlite or not path or _is_no_path(path):
            return None
        return Path(path).absolute()

    @contextmanager
    def transaction(self) -> Iterator[Stores]:
        """Yield the stores on a writing transaction: commits at the end, rolls back on errors.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer; nothing was stored.
        DeadlineExceededError
            If the time of the request has run out; nothing was stored.
        """
        with self._session(self._writing) as session:
            yield Stores(session)
            deadline = deadlines.current.get()
            with nullcontext() if deadline is None else deadline.committing():
                session.commit()

    @contextmanager
    def reading(self) -> Iterator[Stores]:
        """Yield the stores on a consistent reading transaction that is never committed."""
        with self._session(self._reading) as session:
            yield Stores(session)

    @contextmanager
    def _session(self, factory: sessionmaker[Session]) -> Iterator[Session]:
        deadline = deadlines.current.get()
        if deadline is not None:
            deadline.check()
        with self.translating_errors(), factory() as session:
            if deadline is not None:
                self._extend_timeout(session, deadline.limit_s)
            yield session

    def _extend_timeout(self, session: Session, limit_s: float) -> None:
        """Give statements more time if the request may take longer than usual."""
        if self._statement_timeout_s is None or limit_s <= self._statement_timeout_s:
            return
        if not self.is_sqlite:
            limit = sa.text(f"SET LOCAL statement_timeout = {_milliseconds(limit_s)}")
            session.execute(limit)

    @staticmethod
    @contextmanager
    def translating_errors() -> Iterator[None]:
        """Translate the driver's errors for a database that does not answer into ours.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer.
        StorageUnusableError
            If there is no database, or none that can be used.
        UnauthenticatedError
            If the caller's project was removed after the caller was authenticated.
        """
        try:
            yield
        except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
            raise _unavailable(error) from error
        except exc.DBAPIError as error:
            if _is_of_removed_project(error):
                raise UnauthenticatedError("the project was removed") from error
            if not error.connection_invalidated and not _is_unusable(error):
                raise
            raise _unavailable(error) from error
        except SqliteError as error:  # of rows passed directly to the driver
            if not isinstance(error, SqliteOperationalError) and not _is_unusable(error):
                raise
            raise _unavailable(error) from error

    def close(self) -> None:
        """Close all connections; one in use, as by abandoned work, closes when it is returned."""
        event.listen(self.engine.pool, "checkin", _close_connection)
        self.engine.dispose()
