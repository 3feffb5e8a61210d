"""`trainfare backup` and `trainfare restore`: the whole database in one file."""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.operator import Json, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.domain.backups import BackupSummary

BACKUP_EXAMPLES: Final = ("trainfare backup nightly.tfb", "trainfare backup --check nightly.tfb")
RESTORE_EXAMPLES: Final = ("trainfare restore nightly.tfb",)


@contextmanager
def _reporting_refusals() -> "Iterator[None]":
    from app.cli.failures import RefusedError
    from app.domain.backups import BackupError

    try:
        yield
    except BackupError as error:
        raise RefusedError(str(error), error.remedy) from None


def _show_summary(summary: "BackupSummary", sentence: str, *, as_json: bool) -> None:
    from app.cli.output import print_json

    if as_json:
        print_json(summary)
        return
    typer.echo(f"{sentence}: {summary.rows} rows, schema {summary.revision}, {summary.path}")


def backup(
    *,
    file: Annotated[Path, typer.Argument(help="File to write.", dir_okay=False)],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only read a backup to its end and check that it is complete."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the whole database to one file; the service may run.

    The file is a consistent snapshot of all rows.
    """
    from app.cli.surroundings import open_context
    from app.services.backups import BackupService, check_backup

    with _reporting_refusals():
        if check:
            _show_summary(check_backup(file), "The backup is complete", as_json=as_json)
            return
        with open_context(read_settings()) as context:
            summary = BackupService(context).create(file, overwrite=overwrite)
    _show_summary(summary, "Backed up", as_json=as_json)


def restore(
    *,
    file: Annotated[Path, typer.Argument(help="File that `trainfare backup` wrote.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove what the database holds.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fill an empty database from a backup; stop the service first.

    The backup may come from SQLite or PostgreSQL.
    """
    from app.cli.surroundings import open_new_context
    from app.services.backups import BackupService

    with _reporting_refusals(), open_new_context(read_settings()) as context:
        summary = BackupService(context).restore(file, overwrite=overwrite)
    _show_summary(summary, "Restored", as_json=as_json)
