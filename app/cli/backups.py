"""`trainfare backup` and `trainfare restore`: the whole database in one file."""

import shutil
import sys
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.operator import Json, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.domain.backups import BackupSummary

BACKUP_EXAMPLES: Final = (
    "trainfare backup nightly.tfb",
    "trainfare backup --check nightly.tfb",
    "docker compose exec -T api trainfare backup - > nightly.tfb",
)
RESTORE_EXAMPLES: Final = (
    "trainfare restore nightly.tfb",
    "docker compose run --rm -T api restore - < nightly.tfb",
)
_STANDARD: Final = Path("-")


@contextmanager
def _reporting_refusals() -> "Iterator[None]":
    from app.cli.failures import RefusedError
    from app.domain.backups import BackupError

    try:
        yield
    except BackupError as error:
        raise RefusedError(str(error), error.remedy) from None


@contextmanager
def _opened(file: Path) -> "Iterator[tuple[Path, str]]":
    """Yield path and name of a backup to read; standard input is held in a temporary folder."""
    from app.domain.backups import BackupError

    if file != _STANDARD:
        yield file, str(file)
        return
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(TemporaryDirectory(prefix="trainfare-"))
            held = Path(folder, "standard-input")
            with held.open("wb") as target:
                shutil.copyfileobj(sys.stdin.buffer, target)
        except OSError as error:
            raise BackupError(
                f"Cannot hold standard input in a temporary file: {error.strerror}.",
                "Set TMPDIR to a folder with more space, or name a file.",
            ) from None
        yield held, "standard input"


def _back_up_to_standard_output(*, as_json: bool) -> None:
    """Stream a backup; what is printed for people, or as JSON, goes to standard error."""
    from app.cli.surroundings import open_context
    from app.domain.backups import BackupError
    from app.services.backups import BackupService

    if sys.stdout.isatty():
        raise BackupError(
            "A backup is not text for a terminal.",
            "Redirect it: `trainfare backup - > nightly.tfb` (`docker compose exec` needs -T).",
        )
    with open_context(read_settings()) as context:
        summary = BackupService(context).stream(sys.stdout.buffer, "standard output")
    with redirect_stdout(sys.stderr):
        _show_summary(summary, "Backed up", as_json=as_json)


def _show_summary(summary: "BackupSummary", sentence: str, *, as_json: bool) -> None:
    from app.cli.output import name_of, print_json

    path = name_of(summary.path)
    if as_json:
        print_json(replace(summary, path=path))
        return
    typer.echo(f"{sentence}: {summary.rows} rows, schema {summary.revision}, {path}")


def backup(
    *,
    file: Annotated[
        Path, typer.Argument(help="File to write; - is standard output.", dir_okay=False)
    ],
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
            with _opened(file) as (archive, name):
                summary = check_backup(archive, name)
                _show_summary(summary, "The backup is complete", as_json=as_json)
            return
        if file == _STANDARD:
            _back_up_to_standard_output(as_json=as_json)
            return
        with open_context(read_settings()) as context:
            summary = BackupService(context).create(file, overwrite=overwrite)
    _show_summary(summary, "Backed up", as_json=as_json)


def restore(
    *,
    file: Annotated[
        Path, typer.Argument(help="File that `trainfare backup` wrote; - is standard input.")
    ],
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

    with (
        _reporting_refusals(),
        _opened(file) as (archive, name),
        open_new_context(read_settings()) as context,
    ):
        summary = BackupService(context).restore(archive, name, overwrite=overwrite)
    _show_summary(summary, "Restored", as_json=as_json)
