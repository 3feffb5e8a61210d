"""Applies migrations and tells whether the schema is the one that this version needs.

Alembic is imported only where it migrates, so that asking for the revision starts fast.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.availability_errors import (
    ForeignTablesError,
    SchemaAheadError,
    SchemaMismatchError,
)
from app.storage.collations import require_time_order_on
from app.storage.database import Database
from app.storage.stores import Stores
from app.storage.tables import Base

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK_NOT_AVAILABLE: Final = "55P03"
_DEADLOCK: Final = "40P01"
"""PostgreSQL's codes; psycopg itself may be missing on SQLite."""

_VERSION = sa.table("alembic_version", sa.column("version_num", sa.String))

_ADVISORY_LOCK = 0x7472_6661_7265
"""Makes two instances that start at once migrate one after the other on PostgreSQL."""
_TRY_TO_LOCK: Final = sa.select(sa.func.pg_try_advisory_xact_lock(_ADVISORY_LOCK))
_PAUSE_S: Final = 0.2
"""Between two attempts at that lock. A statement that waited for it would hold a snapshot, which
`CREATE INDEX CONCURRENTLY` of the instance that has the lock would wait for in turn."""

_ADDED_PARTS: Final = {
    "add_table": "table",
    "add_column": "column",
    "add_index": "index",
    "add_constraint": "constraint",
    "add_fk": "foreign key",
}
"""Alembic's terms for what it would have to add, and ours."""

_UNFINISHED: Final = sa.text(
    "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    " WHERE NOT indisvalid AND relnamespace = CAST(current_schema() AS regnamespace)"
    " ORDER BY relname"
)
"""Remains of an interrupted `CREATE INDEX CONCURRENTLY`: they occupy the name but are unused."""

LOCK_TIMEOUT_S: Final = 10.0
"""How long a migration waits for a lock: all later queries on that table wait behind it."""


class MigrationBlockedError(RuntimeError):
    """A step of a migration did not get a lock; nothing of it was done."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The migration {reason}.")


def _folder() -> Path:
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        message = "The package `migrations` is not installed beside the service."
        raise RuntimeError(message)
    return Path(spec.origin).parent


def _config() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 - heavy: not for every start

    config = Config()
    config.set_main_option("script_location", str(_folder()))
    return config


def head_revision() -> str:
    """Return the newest revision that this version of the service knows."""
    return max(known_revisions())


def known_revisions() -> frozenset[str]:
    """Return all revisions that this version of the service knows, the prefixes of their files."""
    return frozenset(file.name[:4] for file in (_folder() / "versions").glob("[0-9]*_*.py"))


def current_revision(database: Database, *, only_reads: bool = False) -> str | None:
    """Return the database's revision, None for an empty database.

    With `only_reads`, SQLite answers while others write; otherwise it refuses a read-only file.
    """
    with database.translating_errors(), database.engine.connect() as connection:
        return _revision(connection.execution_options(read_only=only_reads))


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    revision: str | None = connection.execute(sa.select(_VERSION.c.version_num)).scalar()
    return revision


def migrate(
    database: Database, revision: str = "head", *, lock_timeout_s: float = LOCK_TIMEOUT_S
) -> tuple[str | None, str | None]:
    """Bring the schema up (or down) to `revision`; a second caller waits for the first.

    On PostgreSQL each step is a transaction: no lock that one takes outlasts it, however long the
    next one counts. On SQLite, which locks the whole file anyway, all are one.

    Returns
    -------
    tuple
        The revisions before and after, None for an empty database.

    Raises
    ------
    MigrationBlockedError
        If a step does not get a lock on PostgreSQL within `lock_timeout_s`; the steps before it
        are done, and nothing of it.
    SchemaAheadError
        If the database is at a revision that this version does not know.
    ForeignTablesError
        If the database has tables with our names but not our schema.
    ForeignOrderError
        If the empty database sorts identifiers by the rules of a language.
    """
    wanted = head_revision() if revision == "head" else revision
    reached = None if wanted == "base" else wanted
    with _alone(database):
        before, after = _advance(database, wanted, lock_timeout_s)
        while after != reached:
            _, after = _advance(database, wanted, lock_timeout_s)
    return before, after


def _advance(
    database: Database, wanted: str, lock_timeout_s: float
) -> tuple[str | None, str | None]:
    """Migrate a step towards `wanted`, on SQLite all of them; return the revisions around it."""
    _prepare(database, wanted)
    with (
        _whole_tables(database) as connection,
        _migrating(connection, lock_timeout_s) as run,
    ):
        before = _revision(connection)
        run(wanted if database.is_sqlite else _next(before, wanted))
        return before, _revision(connection)


def _prepare(database: Database, wanted: str) -> None:
    """Let the next step up do what does not lock out writers, but cannot be in a transaction."""
    if database.is_sqlite:
        return
    before = current_revision(database)
    if before not in {None, *known_revisions()} or goes_down(before, wanted):
        return
    prepare = getattr(_module(_next(before, wanted)), "prepare", None)
    if prepare is None:
        return
    engine = database.engine.execution_options(isolation_level="AUTOCOMMIT")
    with database.translating_errors(), engine.connect() as connection:
        prepare(connection)


def _next(before: str | None, wanted: str) -> str:
    """Return the revision one step nearer to `wanted`, `before` itself if that is it."""
    order = ["base", *sorted(known_revisions())]
    here, there = order.index(before or "base"), order.index(wanted)
    return order[here + (there > here) - (there < here)]


def _module(revision: str) -> ModuleType:
    (file,) = (_folder() / "versions").glob(f"{revision}_*.py")
    return import_module(f"migrations.versions.{file.stem}")


@contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Keep other instances from migrating; on SQLite the transaction does so."""
    if database.is_sqlite:
        yield
        return
    guard = database.with_own_connection(math.inf)
    try:
        with guard.translating_errors(), guard.engine.connect() as connection:
            while not connection.scalar(_TRY_TO_LOCK):
                connection.rollback()
                time.sleep(_PAUSE_S)
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield
    finally:
        guard.close()


@contextmanager
def rebuilding(database: Database, revision: str) -> Iterator[Stores]:
    """Yield the stores on a schema at `revision`, whose tables may hold rows; then migrate it.

    Tables are made anew unless they are all there as this version needs them. Everything is one
    transaction: an error leaves schema and rows as they were.

    Raises
    ------
    MigrationBlockedError
        If it does not get a lock on PostgreSQL within `LOCK_TIMEOUT_S`; nothing was changed.
    SchemaAheadError
        If the database is at a revision that this version does not know.
    ForeignTablesError
        If the database has tables with our names but not our schema.
    ForeignOrderError
        If the empty database sorts identifiers by the rules of a language.
    """
    with (
        _alone(database),
        database.translating_errors(),
        database.engine.connect() as connection,
        _migrating(connection, LOCK_TIMEOUT_S) as run,
    ):
        known = _revision(connection)
        if known is not None and (known != revision or not _is_whole(connection, revision)):
            _remove_tables(connection)
        run(revision)
        with Session(connection) as session:
            yield Stores(session)
        run("head")


def _is_whole(connection: sa.Connection, revision: str) -> bool:
    """Whether a schema at `revision` is at head and lacks nothing."""
    return revision == head_revision() and not _missing_parts(connection)


def _remove_tables(connection: sa.Connection) -> None:
    """Remove the schema, whatever is left of it: the way down needs all that it takes away."""
    Base.metadata.drop_all(connection)
    connection.exec_driver_sql(f"DROP TABLE {_VERSION.name}")


@contextmanager
def _whole_tables(database: Database) -> Iterator[sa.Connection]:
    """Yield a connection on which a table may be replaced by another with its name.

    SQLite can make some changes only so, and treats dropping the old table as deleting its rows,
    along with all that references them. Within a transaction it ignores the pragma against that.
    """
    with database.translating_errors(), database.engine.connect() as connection:
        if not database.is_sqlite:
            yield connection
            return
        cursor = connection.connection.cursor()
        cursor.execute("PRAGMA foreign_keys = OFF")
        try:
            yield connection
        finally:
            cursor.execute("PRAGMA foreign_keys = ON")
            cursor.close()


@contextmanager
def _migrating(connection: sa.Connection, lock_timeout_s: float) -> Iterator[Callable[[str], None]]:
    """Yield a function that migrates in one transaction."""
    config = _config()
    config.attributes["connection"] = connection
    with _blocked(lock_timeout_s), connection.begin():
        limit_lock_waits(connection, lock_timeout_s)
        known = _revision(connection)
        if known is not None and known not in known_revisions():
            raise _mismatch(known)
        if known is None:
            _require_room_for_schema(connection)
        yield lambda revision: _run(config, _revision(connection), revision)


def limit_lock_waits(connection: sa.Connection, seconds: float = LOCK_TIMEOUT_S) -> None:
    """Make a transaction wait `seconds` for a lock on PostgreSQL: later queries wait behind it."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(1000 * seconds)}")


def _require_room_for_schema(connection: sa.Connection) -> None:
    """Refuse a database in which no schema can be made."""
    if foreign := _tables_in_the_way(connection):
        raise ForeignTablesError(foreign)
    if connection.dialect.name == "postgresql":
        require_time_order_on(connection)


def _tables_in_the_way(connection: sa.Connection) -> list[str]:
    return sorted(set(sa.inspect(connection).get_table_names()) & Base.metadata.tables.keys())


@contextmanager
def _blocked(seconds: float) -> Iterator[None]:
    try:
        yield
    except sa.exc.OperationalError as error:
        reasons = {
            _LOCK_NOT_AVAILABLE: f"waited {seconds:g} s for a lock that another transaction holds,"
            " and gave up so that no query waits behind it",
            _DEADLOCK: "and another transaction waited for each other, so that PostgreSQL ended it",
        }
        reason = reasons.get(getattr(error.orig, "sqlstate", None) or "")
        if reason is None:
            raise
        raise MigrationBlockedError(reason) from error


def _run(config: "Config", known: str | None, revision: str) -> None:
    from alembic import command  # noqa: PLC0415 - heavy: not for every start

    is_downgrade = revision == "base" or goes_down(known, revision)
    (command.downgrade if is_downgrade else command.upgrade)(config, revision)


def goes_down(known: str | None, revision: str) -> bool:
    """Return whether `revision` is below the `known` one of a database."""
    if known is None or known not in known_revisions():
        return False
    return revision == "base" or (revision.isdigit() and int(revision) < int(known))


def missing_parts(database: Database) -> list[str]:
    """Return the tables, columns, indexes and constraints that a schema at head lacks.

    They may have been dropped by hand, and a unique index takes the rule that it enforces with
    it. Parts that only the database has (an operator's own index) are fine.
    """
    with database.translating_errors(), database.engine.connect() as connection:
        return _missing_parts(connection.execution_options(read_only=True))


def _missing_parts(connection: sa.Connection) -> list[str]:
    from alembic.autogenerate import compare_metadata  # noqa: PLC0415 - heavy: not for every start
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - likewise

    differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    has_unfinished = connection.dialect.name == "postgresql"
    unfinished = connection.scalars(_UNFINISHED).all() if has_unfinished else ()
    # Altered columns come in nested lists.
    additions = (
        change for change in differences if isinstance(change, tuple) and change[0] in _ADDED_PARTS
    )
    own_indexes = {index.name for table in Base.metadata.tables.values() for index in table.indexes}
    return [f"{_ADDED_PARTS[change[0]]} {_full_name(change[-1])}" for change in additions] + [
        f"index {name} (it is invalid: REINDEX it)" for name in unfinished if name in own_indexes
    ]


def _full_name(part: Any) -> str:
    return f"{part.table.name}.{part.name}" if isinstance(part, sa.Column) else str(part.name)


def require_migrated(database: Database) -> None:
    """Refuse a database that lacks migrations; a later release's schema is accepted.

    Raises
    ------
    SchemaMismatchError
        If a migration that this version knows was not applied.
    """
    revision = current_revision(database, only_reads=True)
    if revision is None or (revision != head_revision() and revision in known_revisions()):
        raise _mismatch(revision)


def require_head(database: Database, *, only_reads: bool = False) -> None:
    """Refuse a database whose schema is not at head; `only_reads` as in `current_revision`.

    Raises
    ------
    SchemaMismatchError
        If the schema is older or newer than this version's.
    """
    revision = current_revision(database, only_reads=only_reads)
    if revision != head_revision():
        raise _mismatch(revision)


def _mismatch(found: str | None) -> SchemaMismatchError:
    if found is None or found in known_revisions():
        return SchemaMismatchError(found=found, needed=head_revision())
    return SchemaAheadError(found=found, needed=head_revision())
