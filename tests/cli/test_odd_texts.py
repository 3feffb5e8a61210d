"""Commands given text that is no UTF-8, or that would be read as markup."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.cli.output import print_note, print_table
from app.storage.database import Database
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy

NO_UTF8 = os.fsdecode(b"w\xff")


@pytest.fixture(autouse=True)
def database_set(terminal: Terminal, sqlite_url: str) -> None:
    terminal.set(database_url=sqlite_url, url="http://127.0.0.1:1")


@pytest.mark.parametrize(
    "line",
    [
        ("forecast", NO_UTF8),
        ("forecast", "w", f"param.a={NO_UTF8}"),
        ("recommend", NO_UTF8),
        ("fit", NO_UTF8, "--no-wait"),
        ("audit", "--project", NO_UTF8),
    ],
)
def test_argument_that_is_no_utf8_is_wrong_usage(terminal: Terminal, line: tuple[str, ...]) -> None:
    result = terminal.type(*line)

    assert result.exit_code == 2
    assert r"Error: utf-8 has no code for '\udcff'." in result.err
    assert "Remedy: Use UTF-8 in arguments" in result.err


@pytest.mark.parametrize("as_json", [True, False])
def test_backup_in_a_file_whose_name_is_no_utf8_is_told(
    terminal: Terminal, tmp_path: Path, *, as_json: bool
) -> None:
    file = tmp_path / NO_UTF8

    result = terminal.type("backup", file, *(["--json"] if as_json else []))

    assert result.exit_code == 0
    assert str(tmp_path / "w\N{REPLACEMENT CHARACTER}") in result.out
    assert terminal.type("backup", "--check", file).exit_code == 0


def test_columns_keep_the_names_of_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"dataset_size": 1, "param.inner_modules": 2, "param.[/x]": 3}])

    assert "dataset size  param.inner_modules  param.[/x]" in capsys.readouterr().out


def test_names_between_colons_are_no_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"run": "ci:100:3", "param.a:x:b": ":fire:"}])
    print_note("Workload host:100:a: none.")

    captured = capsys.readouterr()
    assert "ci:100:3" in captured.out
    assert "param.a:x:b" in captured.out
    assert ":fire:" in captured.out
    assert "host:100:a" in captured.err


def test_recounted_project_is_told_by_its_name(terminal: Terminal, sqlite_url: str) -> None:
    terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--project", "[/b]")
    terminal.type("projects", "limit", "[/b]", "--runs", "9")
    database = Database(sqlite_url)
    with database.transaction() as stores:
        [owner] = [each for each in stores.access.list_projects() if each.name == "[/b]"]
        stores.quotas.add_runs(owner.project_id, 3)
    database.close()

    result = terminal.type("recount")

    assert "1 project counted again: [/b]." in result.out


def test_table_shows_instants_as_those_of_utc(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"expires at": datetime(2026, 11, 28, 20, 18, 5, tzinfo=UTC)}])

    assert "2026-11-28 20:18Z" in capsys.readouterr().out
