"""The command line `trainfare`: operator commands and a client of the service."""

import errno
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated, Final

import typer

from app.cli import backups, client, keys, operator, projects, pruning, refitting
from app.cli.extensions import GROUP, add_extensions
from app.cli.failures import CommandError, ExitCode
from app.cli.field_options import FieldsCommand
from app.cli.profiling import command as profiling
from app.cli.remedies import in_cli_words, where_listed
from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import DomainError, NotFoundError

_EXIT_CODES = (
    "Exit codes: 0 done; 1 refused by the service, nothing to recommend, or doctor found something;"
    " 2 wrong usage; 3 the service or the database does not answer; 4 the fit failed;"
    " 130 interrupted."
)

application = typer.Typer(
    name="trainfare",
    help="Forecasts the time and cost of training machine-learning models.\n\n" + _EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_requested: bool) -> None:  # noqa: FBT001 - typer's callback
    if is_requested:
        typer.echo(f"trainfare {version('trainfare')}")
        raise typer.Exit


@application.callback()
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Handle the options common to all commands."""


def _examples(*lines: str) -> str | None:
    # \b keeps click from joining the lines when it wraps the help.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else None


def _database_epilog(*lines: str) -> str:
    """Return the end of the help text of a command that opens the database itself."""
    return "\n\n".join(filter(None, (_DATABASE, _examples(*lines))))


_DATABASE: Final = (
    "The database is the one that TRAINFARE_DATABASE_URL names, else trainfare.db in the folder"
    " TRAINFARE_DATA_DIR (var)."
)
_DATABASE_COMMANDS: Final[tuple[tuple[Callable[..., None], tuple[str, ...]], ...]] = (
    (operator.serve, operator.SERVE_EXAMPLES),
    (operator.fitter, ()),
    (operator.migrate, operator.MIGRATE_EXAMPLES),
    (operator.wait, operator.WAIT_EXAMPLES),
    (operator.doctor, ()),
    (operator.recount, ()),
    (backups.backup, backups.BACKUP_EXAMPLES),
    (backups.restore, backups.RESTORE_EXAMPLES),
    (keys.audit, ("trainfare audit --project vision --limit 20",)),
    (refitting.refit, refitting.REFIT_EXAMPLES),
    (pruning.prune, pruning.PRUNE_EXAMPLES),
    (operator.demo, ()),
)
_SERVICE_COMMANDS: Final[tuple[tuple[Callable[..., None], tuple[str, ...]], ...]] = (
    (client.upload, client.UPLOAD_EXAMPLES),
    (client.fit, client.FIT_EXAMPLES),
    (client.forecast, client.FORECAST_EXAMPLES),
    (client.recommend, client.RECOMMEND_EXAMPLES),
    (client.workloads, ()),
    (profiling.profile, profiling.PROFILE_EXAMPLES),
)
for _command, _lines in _DATABASE_COMMANDS:
    application.command(epilog=_database_epilog(*_lines))(_command)
for _command, _lines in _SERVICE_COMMANDS:
    _class = FieldsCommand if _command in {client.forecast, client.recommend} else None
    application.command(cls=_class, epilog=_examples(*_lines))(_command)
keys.keys.command("create", epilog=_database_epilog(*keys.CREATE_EXAMPLES))(keys.create)
keys.keys.command("list", epilog=_database_epilog())(keys.list_keys)
keys.keys.command("revoke", epilog=_database_epilog())(keys.revoke)
application.add_typer(keys.keys, name="keys")
projects.projects.command("list", epilog=_database_epilog())(projects.list_projects)
projects.projects.command("limit", epilog=_database_epilog(*projects.LIMIT_EXAMPLES))(
    projects.limit
)
projects.projects.command("delete", epilog=_database_epilog(*projects.DELETE_EXAMPLES))(
    projects.delete
)
application.add_typer(projects.projects, name="projects")
add_extensions(application, entry_points(group=GROUP))


_DATABASE_AWAY: Final = (
    "Check TRAINFARE_DATABASE_URL and whether its server runs, then type the command again."
)
_WRITE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE})


def with_only(name: str) -> typer.Typer:
    """Return the application with nothing but one command or group, if it has one of this name.

    To make the options of all commands takes time at each start, and memory as long as a service
    runs.
    """
    commands = [
        info
        for info in application.registered_commands
        if name == (info.name or getattr(info.callback, "__name__", None))
    ]
    groups = [info for info in application.registered_groups if name == info.name]
    if not commands and not groups:
        return application
    narrowed = copy(application)
    narrowed.registered_commands, narrowed.registered_groups = commands, groups
    return narrowed


def _run() -> None:
    _, *words = sys.argv
    try:
        with_only(words[0] if words else "")()
    finally:
        # Detects a full disk here at the latest, not at interpreter shutdown.
        sys.stdout.flush()


def _open_streams() -> None:
    """Replace standard streams that are closed at the start (`>&-`) by the null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115


def _report(message: str, remedy: str = "") -> None:
    typer.echo(f"Error: {message}", err=True)
    if remedy:
        typer.echo(f"Remedy: {remedy}", err=True)


def _report_unwritten(error: OSError) -> ExitCode:
    """Report that the output cannot be written; a closed pipe is no error."""
    with suppress(OSError):
        # Discards what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        _report(f"The output cannot be written: {error.strerror}.")
    return ExitCode.REFUSED


def _report_unavailable(error: StorageUnavailableError) -> ExitCode:
    """Report that the database does not answer."""
    reason = f" It says: {error.reason}" if error.reason else ""
    is_away = type(error) is StorageUnavailableError
    _report(f"{error}{reason}", _DATABASE_AWAY if is_away else error.remedy)
    return ExitCode.UNREACHABLE


def _report_unencodable(error: UnicodeEncodeError) -> ExitCode:
    """Report text that an argument brought in another encoding, or that the output cannot show."""
    part = error.object[error.start : error.end]
    _report(
        f"{error.encoding} has no code for {part!r}.",
        "Use UTF-8 in arguments and terminal (PYTHONIOENCODING).",
    )
    return ExitCode.USAGE


def main() -> None:
    """Run the command that the process was started with."""
    _open_streams()
    # serve and fitter configure logging; other commands print their own messages.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        _run()
    except CommandError as error:
        _report(str(error), error.remedy)
        sys.exit(error.exit_code)
    except StorageUnavailableError as error:
        sys.exit(_report_unavailable(error))
    except DomainError as error:
        listed = where_listed(error.kind) if isinstance(error, NotFoundError) else None
        _report(in_cli_words(str(error)), listed or in_cli_words(error.remedy))
        sys.exit(ExitCode.REFUSED)
    except OSError as error:
        if error.errno not in _WRITE_ERRORS:
            raise
        sys.exit(_report_unwritten(error))
    except UnicodeEncodeError as error:
        sys.exit(_report_unencodable(error))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
