"""A process that is to start waits for the schema and the first key."""

from pathlib import Path

import pytest

from app.cli import surroundings
from app.domain.access import Scope
from app.domain.availability_errors import SharedSessionsError
from app.services.wiring import Services
from tests.support.server import start_process
from tests.support.terminal import Terminal

EXPOSED = "0.0.0.0"


@pytest.fixture(autouse=True)
def database_set(terminal: Terminal, sqlite_url: str, tmp_path: Path) -> None:
    terminal.set(database_url=sqlite_url, data_dir=tmp_path)


@pytest.mark.parametrize("command", ["serve", "fitter"])
def test_what_could_start_is_not_waited_for(terminal: Terminal, command: str) -> None:
    result = terminal.type("wait", command, "--timeout-s", "0")

    assert (result.exit_code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize("command", ["serve", "fitter"])
def test_what_is_missing_in_the_end_is_told_with_its_remedy(
    terminal: Terminal, command: str
) -> None:
    terminal.type("migrate", "--to", "0002")

    result = terminal.type("wait", command, "--timeout-s", "0")

    assert result.exit_code == 1
    assert "The database is at schema 0002" in result.err
    assert "trainfare migrate" in result.err


def test_database_that_is_not_there_is_waited_for(terminal: Terminal, tmp_path: Path) -> None:
    terminal.set(database_url=f"sqlite:///{tmp_path}/new.db")

    result = terminal.type("wait", "fitter", "--timeout-s", "0")

    assert result.exit_code == 1
    assert "There is no database at" in result.err
    assert not (tmp_path / "new.db").exists()


def test_server_that_is_away_is_told_as_such(terminal: Terminal) -> None:
    terminal.set(database_url="postgresql://localhost:1/nothing")

    assert terminal.type("wait", "fitter", "--timeout-s", "0").exit_code == 3


def test_only_the_service_waits_for_a_key(terminal: Terminal, services: Services) -> None:
    terminal.set(host=EXPOSED, database_url=services.context.settings.url)
    fitter = terminal.type("wait", "fitter", "--timeout-s", "0")
    early = terminal.type("wait", "serve", "--timeout-s", "0")

    services.access.create_key("admin", [Scope.ADMIN])
    late = terminal.type("wait", "serve", "--timeout-s", "0")

    assert [fitter.exit_code, early.exit_code, late.exit_code] == [0, 1, 0]
    assert "No usable API key exists" in early.err


def test_database_that_cannot_be_used_safely_is_not_waited_for(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_database: object) -> None:
        raise SharedSessionsError("a pooler shares them")

    monkeypatch.setattr(surroundings, "require_suitable", refuse)

    assert terminal.type("wait", "fitter").exit_code == 3


def test_unknown_command_is_wrong_usage(terminal: Terminal) -> None:
    result = terminal.type("wait", "doctor")

    assert result.exit_code == 2
    assert "Name serve or fitter." in result.err


@pytest.mark.lengthy
def test_wait_says_what_is_missing_and_ends_when_all_is_there(
    terminal: Terminal, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/later.db"
    process = start_process(
        "wait", "serve", database_url=url, environment={"TRAINFARE_HOST": EXPOSED}
    )
    terminal.set(database_url=url)

    process.wait_for_line("Waiting: There is no database at")
    assert terminal.type("migrate").exit_code == 0
    process.wait_for_line("Waiting: No usable API key exists")
    terminal.type("keys", "create", "--name", "admin", "--scope", "admin")

    assert process.wait() == 0


@pytest.mark.lengthy
def test_signal_ends_a_wait(tmp_path: Path) -> None:
    process = start_process("wait", "fitter", database_url=f"sqlite:///{tmp_path}/never.db")
    process.wait_for_line("Waiting:")

    assert process.end() == 130
