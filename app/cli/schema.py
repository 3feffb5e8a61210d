"""Migrates the database's schema to a revision and reports what it did."""

from alembic.util import CommandError as RevisionError

from app.cli.failures import RefusedError
from app.cli.surroundings import make_data_folder
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import (
    MigrationBlockedError,
    current_revision,
    goes_down,
    migrate,
)


def migrate_schema(settings: Settings, revision: str = "head", *, overwrite: bool = False) -> str:
    """Migrate the schema; return a sentence for the operator.

    `overwrite` allows a downgrade to remove stored data.

    Raises
    ------
    RefusedError
        If the revision is unknown, another process holds a lock that the migration needs, the
        data folder cannot be created, or a downgrade would remove data.
    SchemaAheadError
        If the database's schema is newer than this version.
    """
    make_data_folder(settings)
    database = Database(settings.url, pool_size=1)
    try:
        if not overwrite and goes_down(current_revision(database), revision):
            _require_no_data(database, revision)
        before, after = migrate(database, revision)
    except MigrationBlockedError as error:
        raise RefusedError(str(error), "Look for long transactions: docs/runbook.md.") from None
    except RevisionError as error:
        raise RefusedError(f"Cannot migrate to {revision!r}: {error}", "See migrations/.") from None
    finally:
        database.close()
    if before == after:
        return f"The schema is at {after or 'none'} already."
    return f"The schema went from {before or 'none'} to {after or 'none'}."


def _require_no_data(database: Database, revision: str) -> None:
    with database.reading() as stores:
        if stores.dumps.holds_data():
            raise RefusedError(
                f"The database holds data; what schema {revision} has no place for would be lost.",
                "Stop the service, take a backup (`trainfare backup`), and pass --overwrite.",
            )
