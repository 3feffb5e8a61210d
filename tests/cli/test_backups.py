"""The whole database goes into one file and comes back from it."""

import errno
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def database_set(terminal: Terminal, sqlite_url: str, tmp_path: Path) -> None:
    terminal.set(database_url=sqlite_url, data_dir=tmp_path)


def test_backup_is_checked_and_restored_into_a_new_database(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--project", "team")
    written = terminal.type("backup", tmp_path / "all.tfb", "--json").document
    checked = terminal.type("backup", "--check", tmp_path / "all.tfb").out
    terminal.set(database_url="", data_dir=tmp_path / "new")

    result = terminal.type("restore", tmp_path / "all.tfb")
    [key] = terminal.type("keys", "list", "--json").document["keys"]

    assert result.exit_code == 0
    assert f"{written['rows']} rows" in result.out
    assert "complete" in checked
    assert (key["name"], key["project"]) == ("ci", "team")


def _run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "app.cli", *arguments], input=given, capture_output=True, check=False
    )


@pytest.mark.lengthy
def test_backup_goes_through_a_pipe(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--project", "team")

    written = _run("backup", "-", "--json")
    checked = _run("backup", "--check", "-", "--json", given=written.stdout)
    terminal.set(database_url="", data_dir=tmp_path / "new")
    restored = _run("restore", "-", given=written.stdout)
    [key] = terminal.type("keys", "list", "--json").document["keys"]

    summary = json.loads(written.stderr)
    assert summary["path"] == "standard output"
    assert json.loads(checked.stdout) == {**summary, "path": "standard input"}
    assert restored.returncode == 0
    assert (key["name"], key["project"]) == ("ci", "team")
    assert {path.name for path in tmp_path.iterdir()} == {"trainfare.db", "new"}


@pytest.mark.lengthy
def test_half_a_backup_from_a_pipe_is_refused_and_changes_nothing(
    terminal: Terminal, tmp_path: Path
) -> None:
    half = _run("backup", "-").stdout[:200]
    terminal.set(database_url="", data_dir=tmp_path / "new")

    restored = _run("restore", "-", given=half)

    assert restored.returncode == 1
    assert b"standard input is damaged" in restored.stderr
    assert not (tmp_path / "new" / "trainfare.db").exists()


def test_backup_from_a_pipe_needs_a_folder_for_temporary_files(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_folder() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", no_folder)

    result = terminal.type("restore", "-")

    assert result.exit_code == 1
    assert "Cannot hold standard input in a temporary file: No usable temporary" in result.err
    assert "TMPDIR" in result.err


def test_backup_to_a_full_disk_is_refused() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "app.cli", "backup", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert ended.returncode == 1
    assert b"The output cannot be written: No space left" in ended.stderr


def test_backup_is_not_shown_on_a_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", screen)

    shown = terminal.type("backup", "-")

    assert shown.exit_code == 1
    assert "Redirect it" in shown.err
    assert screen.getvalue() == ""


def test_restore_over_data_is_refused_with_a_remedy(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("keys", "create", "--name", "ci", "--scope", "read")
    terminal.type("backup", tmp_path / "all.tfb")

    result = terminal.type("restore", tmp_path / "all.tfb")

    assert result.exit_code == 1
    assert "holds data" in result.err
    assert "--overwrite" in result.err


def test_backup_of_an_outdated_schema_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("migrate", "--to", "0003")

    result = terminal.type("backup", tmp_path / "all.tfb")

    assert result.exit_code == 1
    # A backup from before the migration is what the operator asks for.
    assert "at schema 0003" in result.err
    assert "Take the backup with the release that has served so far" in result.err


def test_restore_does_not_reach_a_database_that_is_away(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("backup", tmp_path / "all.tfb")
    terminal.set(database_url="postgresql://nobody@127.0.0.1:1/nothing")

    assert terminal.type("restore", tmp_path / "all.tfb").exit_code == 3


def test_backup_never_replaces_the_database(terminal: Terminal, tmp_path: Path) -> None:
    terminal.set(database_url="", data_dir=tmp_path)
    terminal.type("migrate")
    (tmp_path / "link.tfb").symlink_to(tmp_path / "trainfare.db")

    for name in ("trainfare.db", "link.tfb"):
        result = terminal.type("backup", "--overwrite", tmp_path / name)

        assert result.exit_code == 1
        assert "is the database itself" in result.err
    assert (tmp_path / "trainfare.db").read_bytes().startswith(b"SQLite format 3")
