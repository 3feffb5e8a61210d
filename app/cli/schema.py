"""Brings the database's schema to a revision and says what it did."""

from alembic.util import CommandError as RevisionError

from app.cli.failures import RefusedError
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import (
    MigrationBlockedError,
    SchemaOutdatedError,
    current_revision,
    migrate,
)


def migrate_schema(settings: Settings, revision: str = "head") -> str:
    """Migrate; return a sentence for the operator.

    Raises
    ------
    RefusedError
        If the revision is unknown, the database is newer than this version, or somebody holds a
        lock that the migration needs.
    """
    if not settings.database_url:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    database = Database(settings.url, pool_size=1)
    try:
        before = current_revision(database)
        migrate(database, revision)
        after = current_revision(database)
    except SchemaOutdatedError as error:
        raise RefusedError(str(error), "Use the version that migrated this database.") from None
    except MigrationBlockedError as error:
        raise RefusedError(str(error), "Look for long transactions: docs/runbook.md.") from None
    except RevisionError as error:
        raise RefusedError(f"Cannot migrate to {revision!r}: {error}", "See migrations/.") from None
    finally:
        database.close()
    if before == after:
        return f"The schema is at {after or 'none'} already."
    return f"The schema went from {before or 'none'} to {after or 'none'}."
