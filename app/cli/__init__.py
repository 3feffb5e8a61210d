"""The command line `trainfare`: the operator's door and a client of the service."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from app.cli import operator
from app.cli.failures import CommandError, ExitCode

_EXIT_CODES = (
    "Exit codes: 0 done; 1 refused by the service, or doctor found something; 2 wrong usage;"
    " 3 the service or the database does not answer; 4 the fit failed; 130 interrupted."
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


def _show_version(asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if asked:
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
    """Take the options of all commands."""


def _examples(*lines: str) -> str:
    # \b keeps the lines apart when the help is wrapped.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


application.command(epilog=_examples(*operator.SERVE_EXAMPLES))(operator.serve)
application.command()(operator.fitter)
application.command(epilog=_examples(*operator.MIGRATE_EXAMPLES))(operator.migrate)


def main() -> None:
    """Run the command that the process was started with."""
    try:
        application()
    except CommandError as error:
        typer.echo(f"Error: {error}", err=True)
        if error.remedy:
            typer.echo(f"Remedy: {error.remedy}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
