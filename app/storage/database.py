"""The engine and the transaction: one service call, one commit."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import SQLITE_CORRUPT, SQLITE_NOTADB
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.orm import Session, sessionmaker

from app.domain.errors import StorageUnavailableError
from app.storage.stores import Stores

_logger = logging.getLogger(__name__)
_SQLITE_BUSY_TIMEOUT_MS = 30_000
_POSTGRES_CONNECT_TIMEOUT_S = 5


def _prepare_sqlite(engine: sa.Engine) -> None:
    """Give SQLite foreign keys, WAL and real transactions (writers take their lock at once)."""

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute(f"PRAGMA busy_timeout = {_SQLITE_BUSY_TIMEOUT_MS}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        # A reader that upgrades to a writer in WAL mode fails at once instead of waiting,
        # therefore transactions that may write take the lock at their beginning.
        reading = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _reason(error: exc.SQLAlchemyError) -> str:
    """Return the driver's words in one line; the stack would tell nothing more."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _is_damaged(error: exc.DBAPIError) -> bool:
    """Whether SQLite says that its file is corrupt or no database at all."""
    return getattr(error.orig, "sqlite_errorcode", None) in {SQLITE_CORRUPT, SQLITE_NOTADB}


def make_engine(url: str, *, pool_size: int = 20) -> sa.Engine:
    """Return the engine for SQLite or PostgreSQL (psycopg 3).

    `postgres://` and `postgresql://` URLs are read as psycopg's.
    """
    parsed = sa.make_url(url)
    if parsed.drivername in {"postgres", "postgresql"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": 10}
    if parsed.get_backend_name() == "postgresql":
        options["pool_pre_ping"] = True
        options["connect_args"] = {"connect_timeout": _POSTGRES_CONNECT_TIMEOUT_S}
    engine = sa.create_engine(parsed, **options)
    if parsed.get_backend_name() == "sqlite":
        _prepare_sqlite(engine)
    return engine


class Database:
    """Hands out transactions; nobody else commits.

    Parameters
    ----------
    url
        SQLAlchemy URL of an SQLite file or a PostgreSQL database.
    pool_size
        The most connections held at once.
    """

    def __init__(self, url: str, *, pool_size: int = 20) -> None:
        self.engine = make_engine(url, pool_size=pool_size)
        self._writing = sessionmaker(self.engine, expire_on_commit=False)
        self._reading = sessionmaker(
            self.engine.execution_options(read_only=True), expire_on_commit=False
        )

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def transaction(self) -> Iterator[Stores]:
        """Yield the stores on one writing transaction: commit at the end, roll back on errors.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer; nothing was stored.
        """
        with self._session(self._writing) as session, session.begin():
            yield Stores(session)

    @contextmanager
    def reading(self) -> Iterator[Stores]:
        """Yield the stores on one consistent reading transaction that is never committed."""
        with self._session(self._reading) as session:
            yield Stores(session)

    @contextmanager
    def _session(self, factory: sessionmaker[Session]) -> Iterator[Session]:
        with self.answering(), factory() as session:
            yield session

    @staticmethod
    @contextmanager
    def answering() -> Iterator[None]:
        """Turn the driver's ways to say that the database does not answer into ours.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer.
        """
        try:
            yield
        except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
            _logger.warning("database unavailable", extra={"reason": _reason(error)})
            raise StorageUnavailableError from error
        except exc.DBAPIError as error:
            if not error.connection_invalidated and not _is_damaged(error):
                raise
            _logger.warning("database connection lost", extra={"reason": _reason(error)})
            raise StorageUnavailableError from error

    def close(self) -> None:
        """Close all pooled connections."""
        self.engine.dispose()
