"""The surroundings of commands that work on the database itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.services.context import ServiceContext
from app.settings import Settings
from app.storage.database import Database


@contextmanager
def surroundings_of(settings: Settings) -> Iterator[ServiceContext]:
    """Open the database of the settings for as long as the block lasts."""
    database = Database(settings.url, pool_size=1)
    try:
        yield ServiceContext(database, settings)
    finally:
        database.close()
