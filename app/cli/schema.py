"""Migrates the database's schema to a revision and reports what it did."""

from app.cli.failures import RefusedError, UsageError
from app.cli.surroundings import make_database_folder
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import (
    MigrationBlockedError,
    current_revision,
    goes_down,
    known_revisions,
    migrate,
)


def migrate_schema(settings: Settings, revision: str = "head", *, overwrite: bool = False) -> str:
    """Migrate the schema; return a sentence for the operator.

    `overwrite` allows a downgrade to remove stored data.

    Raises
    ------
    UsageError
        If the revision is unknown.
    RefusedError
        If another process holds a lock that the migration needs, the data folder cannot be created,
        or a downgrade would remove data.
    SchemaAheadError
        If the database's schema is newer than this version.
    """
    _require_known(revision)
    make_database_folder(settings)
    database = Database(settings.url, pool_size=1)
    try:
        if not overwrite and goes_down(current_revision(database), revision):
            _require_no_data(database, revision)
        before, after = migrate(database, revision)
    except MigrationBlockedError as error:
        message = f"{error} Steps before that are done, and the service goes on as before."
        remedy = "Try again; if it stays so, look for long transactions: docs/runbook.md."
        raise RefusedError(message, remedy) from None
    finally:
        database.close()
    if before == after:
        return f"The schema is at {after or 'none'} already."
    return f"The schema went from {before or 'none'} to {after or 'none'}."


def _require_known(revision: str) -> None:
    known = known_revisions()
    if revision not in known | {"base", "head"}:
        raise UsageError(
            f"There is no revision {revision!r}.",
            f"Name one from {min(known)} to {max(known)}, base or head.",
        )


def _require_no_data(database: Database, revision: str) -> None:
    with database.reading() as stores:
        if stores.dumps.holds_data():
            raise RefusedError(
                f"The database holds data; what schema {revision} has no place for would be lost.",
                "Stop the service, take a backup (`trainfare backup`), and pass --overwrite.",
            )
