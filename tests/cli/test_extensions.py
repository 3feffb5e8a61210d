"""Commands that other distributions bring, installed and not."""

import re
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from app.cli.extensions import GROUP, add_extensions
from app.cli.failures import UsageError

_CONVERT = EntryPoint("convert", "tests.cli.test_extensions:convert", GROUP)
_FLUSH = EntryPoint("flush", "tests.cli.test_extensions:convert", GROUP)


def convert(arguments: list[str]) -> int:
    """Print the arguments, as an installed command would; return their number."""
    typer.echo(" ".join(arguments))
    return len(arguments)


def _application(*entries: EntryPoint) -> typer.Typer:
    application = typer.Typer(rich_markup_mode=None)
    application.command("own")(lambda: None)
    add_extensions(application, entries)
    return application


def test_installed_command_gets_its_options_and_gives_its_exit_code() -> None:
    result = CliRunner().invoke(_application(_CONVERT), ["convert", "--fast", "--help"])

    assert (result.output, result.exit_code) == ("--fast --help\n", 2)


@pytest.mark.parametrize("name", ["ci", "flush", "import"])
def test_command_of_the_client_says_what_to_install(name: str) -> None:
    result = CliRunner().invoke(_application(), [name, "spark", "--dry-run"])

    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith(f"{name} comes with the client")
    assert "pip install ./client" in result.exception.remedy


def test_help_tells_each_command_once_and_what_needs_the_client() -> None:
    told = CliRunner().invoke(_application(_CONVERT, _FLUSH), ["--help"]).output
    commands = dict(re.findall(r"^  (convert|ci|flush|import) +(.+)$", told, re.MULTILINE))

    assert set(commands) == {"convert", "ci", "flush", "import"}
    assert told.count("  flush ") == 1
    assert {name for name, line in commands.items() if "(needs the client)" in line} == {
        "ci",
        "import",
    }
