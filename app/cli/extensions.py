"""Commands that other distributions bring: each is an entry point of one group.

An entry point is a function that takes the arguments after the command's name and returns the
exit code. The client's `flush` comes this way, so that neither package imports the other.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import typer

GROUP: Final = "trainfare.commands"
# The other command reads its own options, --help among them.
_PASSED_ON: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


def add_extensions(application: typer.Typer) -> None:
    """Add the commands of all installed distributions."""
    for entry in entry_points(group=GROUP):
        application.command(
            entry.name, context_settings=_PASSED_ON, help=f"From {_origin(entry)}; --help tells."
        )(_runner(entry))


def _origin(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def _runner(entry: EntryPoint) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        command: Callable[[Sequence[str]], int] = entry.load()
        raise typer.Exit(command(context.args))

    return run
