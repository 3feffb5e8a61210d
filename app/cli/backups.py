"""`trainfare backup` and `trainfare restore`: the whole database in one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.operator import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.domain.backups import BackupSummary
    from app.services.backups import BackupService

BACKUP_EXAMPLES: Final = ("trainfare backup nightly.tfb", "trainfare backup --check nightly.tfb")
RESTORE_EXAMPLES: Final = ("trainfare restore nightly.tfb",)
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _do(act: "Callable[[BackupService], BackupSummary]") -> "BackupSummary":
    from app.cli.failures import RefusedError
    from app.domain.backups import BackupError
    from app.services.backups import BackupService
    from app.services.context import ServiceContext
    from app.storage.database import Database
    from app.storage.migration import SchemaOutdatedError

    settings = read_settings()
    if not settings.database_url:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    database = Database(settings.url, pool_size=2)
    try:
        return act(BackupService(ServiceContext(database, settings)))
    except BackupError as error:
        raise RefusedError(str(error), error.remedy) from None
    except SchemaOutdatedError as error:
        raise RefusedError(
            str(error), "Run `trainfare migrate`, or the version that fits."
        ) from None
    finally:
        database.close()


def _tell(summary: "BackupSummary", sentence: str, *, as_json: bool) -> None:
    from app.cli.output import print_json

    if as_json:
        print_json(summary)
        return
    typer.echo(f"{sentence}: {summary.rows} rows, schema {summary.revision}, {summary.path}")


def backup(
    *,
    file: Annotated[Path, typer.Argument(help="File to write.", dir_okay=False)],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file when it exists.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only read a backup to its end and say if it is whole.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Write the whole database into one file; the service may run.

    It holds all rows of one instant.
    """
    from app.services.backups import check_backup

    if check:
        _tell(_do(lambda _service: check_backup(file)), "The backup is whole", as_json=as_json)
        return
    summary = _do(lambda service: service.create(file, overwrite=overwrite))
    _tell(summary, "Backed up", as_json=as_json)


def restore(
    *,
    file: Annotated[Path, typer.Argument(help="File that `trainfare backup` wrote.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove what the database holds.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Fill an empty database from a backup; stop the service.

    The backup may be of either kind of database.
    """
    summary = _do(lambda service: service.restore(file, overwrite=overwrite))
    _tell(summary, "Restored", as_json=as_json)
