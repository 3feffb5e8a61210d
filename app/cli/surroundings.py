"""The surroundings of commands that work on the database itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.failures import RefusedError
from app.services.context import ServiceContext
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import SchemaOutdatedError, require_migrated


@contextmanager
def migrated_surroundings_of(settings: Settings) -> Iterator[ServiceContext]:
    """Open the database of the settings, which must have all tables and columns of this version.

    Raises
    ------
    RefusedError
        If it was not migrated.
    """
    with surroundings_of(settings) as context:
        try:
            require_migrated(context.database)
        except SchemaOutdatedError as error:
            raise RefusedError(str(error)) from None
        yield context


@contextmanager
def surroundings_of(settings: Settings) -> Iterator[ServiceContext]:
    """Open the database of the settings for as long as the block lasts."""
    database = Database(settings.url, pool_size=1)
    try:
        yield ServiceContext(database, settings)
    finally:
        database.close()
