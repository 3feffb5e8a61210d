"""Brings the database's schema to a revision and says what it did."""

from alembic.util import CommandError as RevisionError

from app.cli.failures import RefusedError
from app.cli.surroundings import make_data_folder
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import (
    MigrationBlockedError,
    current_revision,
    migrate,
)


def migrate_schema(settings: Settings, revision: str = "head") -> str:
    """Migrate; return a sentence for the operator.

    Raises
    ------
    RefusedError
        If the revision is unknown, somebody holds a lock that the migration needs, or the data
        folder cannot be made.
    SchemaAheadError
        If the database is newer than this version.
    """
    make_data_folder(settings)
    database = Database(settings.url, pool_size=1)
    try:
        before = current_revision(database)
        migrate(database, revision)
        after = current_revision(database)
    except MigrationBlockedError as error:
        raise RefusedError(str(error), "Look for long transactions: docs/runbook.md.") from None
    except RevisionError as error:
        raise RefusedError(f"Cannot migrate to {revision!r}: {error}", "See migrations/.") from None
    finally:
        database.close()
    if before == after:
        return f"The schema is at {after or 'none'} already."
    return f"The schema went from {before or 'none'} to {after or 'none'}."
