"""The surroundings of commands that work on the database itself."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.failures import RefusedError
from app.services.context import ServiceContext
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import require_migrated


@contextmanager
def migrated_surroundings_of(settings: Settings) -> Iterator[ServiceContext]:
    """Open the database of the settings, which must have all tables and columns of this version.

    Raises
    ------
    RefusedError
        If there is none.
    SchemaMismatchError
        If it was not migrated.
    """
    with surroundings_of(settings) as context:
        require_migrated(context.database)
        yield context


@contextmanager
def surroundings_of(settings: Settings) -> Iterator[ServiceContext]:
    """Open the database of the settings for as long as the block lasts.

    Raises
    ------
    RefusedError
        If there is none: an SQLite file that is missing is not made in passing.
    """
    with _opened(settings) as context:
        _require_file(context.database)
        yield context


def require_database(settings: Settings) -> None:
    """Refuse settings whose database is an SQLite file that is missing.

    Raises
    ------
    RefusedError
        If there is none.
    """
    with _opened(settings) as context:
        _require_file(context.database)


def _require_file(database: Database) -> None:
    file = database.file
    if file is not None and not file.exists():
        raise RefusedError(
            f"There is no database at {file}.",
            "`trainfare migrate` makes a new one; if there should be one, check"
            " TRAINFARE_DATA_DIR and TRAINFARE_DATABASE_URL.",
        )


@contextmanager
def new_surroundings_of(settings: Settings) -> Iterator[ServiceContext]:
    """Open the database of the settings, which may be new, for as long as the block lasts.

    Raises
    ------
    RefusedError
        If the data folder cannot be made.
    """
    make_data_folder(settings)
    with _opened(settings) as context:
        yield context


def make_data_folder(settings: Settings) -> None:
    """Make the folder of the database where no other address is set.

    Raises
    ------
    RefusedError
        If it cannot be made.
    """
    if settings.database_url:
        return
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedError(
            f"Cannot make the data folder {settings.data_dir.absolute()}: {error.strerror}.",
            "Name a folder that can be written by TRAINFARE_DATA_DIR, or a database by"
            " TRAINFARE_DATABASE_URL.",
        ) from None


@contextmanager
def _opened(settings: Settings) -> Iterator[ServiceContext]:
    database = Database(settings.url, pool_size=2)
    try:
        yield ServiceContext(database, settings)
    finally:
        database.close()
