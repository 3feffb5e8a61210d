"""Names and numbers that one of the databases would not take are refused on both."""

from pathlib import Path

import pytest

from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def database_set(terminal: Terminal, database_url: str, tmp_path: Path) -> None:
    terminal.set(database_url=database_url, data_dir=tmp_path)


@pytest.mark.parametrize("name", ["n" * 101, "", " ", "two\nlines"])
@pytest.mark.parametrize("option", ["--name", "--project"])
def test_key_or_project_without_a_proper_name_is_refused(
    terminal: Terminal, option: str, name: str
) -> None:
    names = {"--name": "ci", "--project": "team", option: name}
    typed = [word for pair in names.items() for word in pair]

    result = terminal.type("keys", "create", "--scope", "read", *typed)

    assert result.exit_code == 1
    assert "cannot be the name of a" in result.err
    assert terminal.type("keys", "list", "--json").document["keys"] == []


@pytest.mark.parametrize("days", ["0", "-1", "1e-12", "inf", "nan", "1e9", "36526"])
def test_key_that_would_be_dead_or_outlive_the_calendar_is_refused(
    terminal: Terminal, days: str
) -> None:
    result = terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--days", days)

    assert result.exit_code == 2
    assert "--days" in result.err
    assert terminal.type("keys", "list", "--json").document["keys"] == []


def test_scope_that_is_none_is_told_with_those_that_are(terminal: Terminal) -> None:
    result = terminal.type("keys", "create", "--name", "ci", "--scope", "write")

    assert result.exit_code == 2
    assert "'--scope': 'write' is not one of read, runs:write, fits:write" in result.err


def test_note_of_a_new_key_tells_when_it_expires(terminal: Terminal) -> None:
    result = terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--days", "36525")

    [key] = terminal.type("keys", "list", "--json").document["keys"]
    assert f"until {key['expires_at'][:16]}" in result.err


def test_names_may_have_a_hundred_characters(terminal: Terminal) -> None:
    longest = "ñ" * 100

    terminal.type("keys", "create", "--scope", "read", "--name", longest, "--project", longest)

    [key] = terminal.type("keys", "list", "--json").document["keys"]
    assert (key["name"], key["project"]) == (longest, longest)


@pytest.mark.parametrize(
    ("option", "highest"),
    [
        ("--runs", 2**63 - 1),
        ("--workloads", 2**31 - 1),
        ("--fits-per-day", 2**31 - 1),
        ("--queued-fits", 2**31 - 1),
        ("--requests-per-minute", 2**31 - 1),
    ],
)
def test_limit_beyond_what_can_be_stored_is_refused(
    terminal: Terminal, option: str, highest: int
) -> None:
    stored = terminal.type("projects", "limit", "default", option, highest, "--json")
    refused = terminal.type("projects", "limit", "default", option, highest + 1)

    assert highest in stored.document.values()
    assert refused.exit_code == 2
    assert option in refused.err
