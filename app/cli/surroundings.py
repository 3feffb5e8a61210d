"""The service context of commands that work on the database directly."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.failures import RefusedError
from app.services.context import ServiceContext
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import require_head, require_migrated
from app.storage.suitability import require_suitable


@contextmanager
def open_migrated_context(settings: Settings) -> Iterator[ServiceContext]:
    """Open the configured database, which must have the complete schema of this version.

    Raises
    ------
    RefusedError
        If there is none.
    SchemaMismatchError
        If it has not been migrated.
    """
    with open_context(settings) as context:
        require_suitable(context.database)
        require_migrated(context.database)
        yield context


@contextmanager
def open_current_context(settings: Settings) -> Iterator[ServiceContext]:
    """Open the configured database, which must have exactly the schema of this version.

    Raises
    ------
    RefusedError
        If there is none.
    SchemaMismatchError
        If its schema is older or newer.
    """
    with open_context(settings) as context:
        require_suitable(context.database)
        require_head(context.database)
        yield context


@contextmanager
def open_context(settings: Settings) -> Iterator[ServiceContext]:
    """Open the configured database during the block.

    Raises
    ------
    RefusedError
        If there is none: a missing SQLite file is not created as a side effect.
    """
    with _opened(settings) as context:
        _require_file(context.database)
        yield context


def require_database(settings: Settings) -> None:
    """Refuse settings whose database is a missing SQLite file.

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
            "`trainfare migrate` creates a new one; if there should be one, check"
            " TRAINFARE_DATA_DIR and TRAINFARE_DATABASE_URL.",
        )


@contextmanager
def open_new_context(settings: Settings) -> Iterator[ServiceContext]:
    """Open the configured database, which may be new, during the block.

    Raises
    ------
    RefusedError
        If the data folder cannot be created.
    """
    make_database_folder(settings)
    with _opened(settings) as context:
        yield context


def make_database_folder(settings: Settings) -> None:
    """Create the database's folder unless another address is configured.

    Raises
    ------
    RefusedError
        If it cannot be created.
    """
    if not settings.database_url:
        make_data_folder(settings)


def make_data_folder(settings: Settings) -> None:
    """Create the data folder unless it exists.

    Raises
    ------
    RefusedError
        If it cannot be created.
    """
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedError(
            f"Cannot create the data folder {settings.data_dir.absolute()}: {error.strerror}.",
            "Set TRAINFARE_DATA_DIR to a writable folder, or TRAINFARE_DATABASE_URL to a database.",
        ) from None


@contextmanager
def _opened(settings: Settings) -> Iterator[ServiceContext]:
    database = Database(settings.url, pool_size=2)
    try:
        yield ServiceContext(database, settings)
    finally:
        database.close()
