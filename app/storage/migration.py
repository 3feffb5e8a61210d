"""Applies migrations and tells whether the schema is the one that this version needs.

Alembic is imported only where it migrates, so that asking for the revision starts fast.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
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
    """A migration did not get a lock; nothing was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The migration {reason}. Nothing was changed: try again.")


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

    Returns
    -------
    tuple
        The revisions before and after, None for an empty database.

    Raises
    ------
    MigrationBlockedError
        If it does not get a lock on PostgreSQL within `lock_timeout_s`; nothing was changed.
    SchemaAheadError
        If the database is at a revision that this version does not know.
    ForeignTablesError
        If the database has tables with our names but not our schema.
    ForeignOrderError
        If the empty database sorts identifiers by the rules of a language.
    """
    with (
        _whole_tables(database) as connection,
        _migrating(database, connection, lock_timeout_s) as run,
    ):
        before = _revision(connection)
        run(revision)
        return before, _revision(connection)


@contextmanager
def rebuilding(database: Database, revision: str) -> Iterator[Stores]:
    """Yield the stores on a schema at `revision`, whose tables may hold rows; then migrate it.

    Everything is one transaction: an error leaves schema and rows as they were.

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
        database.translating_errors(),
        database.engine.connect() as connection,
        _migrating(database, connection, LOCK_TIMEOUT_S) as run,
    ):
        if _revision(connection) not in {None, revision}:
            run("base")
        run(revision)
        with Session(connection) as session:
            yield Stores(session)
        run("head")


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
def _migrating(
    database: Database, connection: sa.Connection, lock_timeout_s: float
) -> Iterator[Callable[[str], None]]:
    """Yield a function that migrates in a transaction which excludes other migrations."""
    config = _config()
    config.attributes["lock_timeout_s"] = lock_timeout_s
    config.attributes["connection"] = connection
    with _blocked(lock_timeout_s), connection.begin():
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        known = _revision(connection)
        if known is not None and known not in known_revisions():
            raise _mismatch(known)
        if known is None:
            _require_room_for_schema(connection)
        yield lambda revision: _run(config, _revision(connection), revision)


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
    from alembic.autogenerate import compare_metadata  # noqa: PLC0415 - heavy: not for every start
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - likewise

    with database.translating_errors(), database.engine.connect() as connection:
        connection.execution_options(read_only=True)
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
        unfinished = () if database.is_sqlite else connection.scalars(_UNFINISHED).all()
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
