"""Commands from other distributions: each is an entry point of one group.

An entry point is a function that takes the arguments after the command's name and returns the
exit code. The client's commands are added this way, so that neither package imports the other;
if the client is not installed, they are still listed and say what they need.
"""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint
from typing import Final

import typer

from app.cli.failures import UsageError

GROUP: Final = "trainfare.commands"
# The other command parses its own options, including --help.
_PASS_THROUGH: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
_CLIENT_COMMANDS: Final = {
    "ci": "Judge a build's runs by their forecasts",
    "flush": "Upload runs that waited for the service",
    "import": "Upload runs that other tools recorded",
}


def add_extensions(application: typer.Typer, entries: Iterable[EntryPoint]) -> None:
    """Add the commands of `entries` (group `GROUP`), and stubs for those of a missing client."""
    installed = {entry.name: entry for entry in entries}
    for name, help_text in _CLIENT_COMMANDS.items():
        if name not in installed:
            _add(application, name, f"{help_text} (needs the client).", _refusal(name))
    for name, entry in installed.items():
        help_text = _CLIENT_COMMANDS.get(name, f"From {_origin(entry)}; see --help")
        _add(application, name, f"{help_text}.", _runner(entry))


def _add(application: typer.Typer, name: str, help_text: str, command: Callable[..., None]) -> None:
    application.command(name, context_settings=_PASS_THROUGH, help=help_text)(command)


def _origin(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def _runner(entry: EntryPoint) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        command: Callable[[Sequence[str]], int] = entry.load()
        raise typer.Exit(command(context.args))

    return run


def _refusal(name: str) -> Callable[[], None]:
    def refuse() -> None:
        raise UsageError(
            f"{name} comes with the client, which is not installed here.",
            "In a clone: pip install ./client; elsewhere: see docs/integrations.",
        )

    return refuse
