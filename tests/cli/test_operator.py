"""The operator's commands work on the database itself and tell what they did."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.cli import output
from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug
from app.domain.runs import RunStatus
from app.storage.database import Database
from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def database_set(terminal: Terminal, sqlite_url: str, tmp_path: Path) -> None:
    terminal.set(database_url=sqlite_url, data_dir=tmp_path)


def test_migrate_goes_to_a_revision_and_back(terminal: Terminal) -> None:
    assert "already" in terminal.type("migrate").out
    assert "to 0002" in terminal.type("migrate", "--to", "0002").out
    assert "to none" in terminal.type("migrate", "--to", "base").out
    assert terminal.type("migrate").exit_code == 0


@pytest.mark.parametrize("revision", ["base", "0002"])
def test_way_down_removes_data_only_when_told_so(terminal: Terminal, revision: str) -> None:
    terminal.type("keys", "create", "--name", "ci", "--scope", "read")

    refused = terminal.type("migrate", "--to", revision)
    kept = terminal.type("keys", "list", "--json").document["keys"]
    done = terminal.type("migrate", "--to", revision, "--overwrite")

    assert refused.exit_code == 1
    assert "--overwrite" in refused.err
    assert len(kept) == 1
    assert done.exit_code == 0


@pytest.mark.parametrize("revision", ["9999", "head-1", "head+1", "+1", "3", ""])
def test_unknown_revision_is_wrong_usage(terminal: Terminal, revision: str) -> None:
    result = terminal.type("migrate", "--to", revision)

    assert result.exit_code == 2
    assert f"There is no revision {revision!r}." in result.err
    assert "Name one from 0001 to 00" in result.err


def test_database_of_a_newer_version_is_refused(terminal: Terminal, sqlite_url: str) -> None:
    database = Database(sqlite_url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.close()

    for command in ("migrate", "fitter", "serve", "wait serve", "backup nightly.tfb"):
        result = terminal.type(*command.split())

        assert result.exit_code == 1
        assert "of a later release" in result.err
        assert "Use the release that migrated the database" in result.err


def test_fitter_needs_a_migrated_database(terminal: Terminal) -> None:
    terminal.type("migrate", "--to", "0002")

    result = terminal.type("fitter")

    assert result.exit_code == 1
    assert "schema 0002" in result.err
    assert "trainfare migrate" in result.err


def test_data_folder_that_cannot_be_made_is_named(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    terminal.set(database_url="", data_dir=tmp_path / "file")

    result = terminal.type("migrate")

    assert result.exit_code == 1
    assert f"Cannot create the data folder {tmp_path}/file: File exists." in result.err
    assert "TRAINFARE_DATA_DIR" in result.err


def test_database_that_no_retry_helps_is_told_with_the_reason(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada, this is no database at all.")
    for path, reason in (("no/folder.db", "unable to open"), ("letter.txt", "not a database")):
        terminal.set(database_url=f"sqlite:///{tmp_path}/{path}")

        result = terminal.type("migrate")

        assert result.exit_code == 3
        assert reason in result.err
        assert "Retry" not in result.err


def test_unreachable_database_is_exit_code_3(terminal: Terminal) -> None:
    terminal.set(database_url="postgresql://nobody@127.0.0.1:1/nothing")

    said = [terminal.type("keys", "list"), terminal.type("migrate")]

    assert [result.exit_code for result in said] == [3, 3]
    assert all("Remedy: Check TRAINFARE_DATABASE_URL" in result.err for result in said)


def test_new_database_folder_is_made(terminal: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder"
    terminal.set(database_url="", data_dir=folder)

    result = terminal.type("migrate")

    assert result.exit_code == 0
    assert (folder / "trainfare.db").exists()


def test_key_is_created_listed_and_revoked(terminal: Terminal) -> None:
    made = terminal.type(
        "keys", "create", "--name", "ci", "--scope", "read", "--scope", "runs:write",
        "--project", "team", "--days", "30", "--json",
    ).document  # fmt: skip
    assert "ci" in terminal.type("keys", "list").out
    assert terminal.type("keys", "revoke", made["key_id"]).exit_code == 0
    [listed] = terminal.type("keys", "list", "--json").document["keys"]

    assert made["token"].startswith(f"tf_{made['key_id']}_")
    assert listed["scopes"] == ["read", "runs:write"]
    assert listed["project"] == "team"
    assert listed["revoked_at"] >= listed["created_at"]
    assert (listed["last_used_at"], "token" in listed) == (None, False)


def test_id_of_a_key_stands_on_one_line_of_a_narrow_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = ("--scope", "runs:write", "--scope", "fits:write", "--scope", "read")
    created = terminal.type("keys", "create", "--name", "ci", *scopes, "--json").document
    monkeypatch.setattr(output.out, "width", 80)

    listed = terminal.type("keys", "list").out

    assert created["key_id"] in listed.split()


def test_key_without_json_prints_the_token_alone(terminal: Terminal) -> None:
    result = terminal.type("keys", "create", "--name", "ci", "--scope", "admin")

    assert result.out.startswith("tf_")
    assert len(result.out.split()) == 1
    assert "once" in result.err


def test_limits_of_a_project_are_set_listed_and_lifted(
    terminal: Terminal,
) -> None:
    result = terminal.type("projects", "limit", "default", "--runs", "5", "--fits-per-day", "2")
    assert result.exit_code == 0
    assert result.out.startswith("project  runs")
    changes = ("--lift", "runs", "--lift", "requests-per-minute", "--json")
    changed = terminal.type("projects", "limit", "default", *changes).document
    [listed] = terminal.type("projects", "list", "--json").document["projects"]

    assert listed.pop("project_id") == DEFAULT_PROJECT
    assert changed == listed
    assert (listed["project"], listed["runs"], listed["fits_per_day"]) == ("default", None, 2)
    assert terminal.type("projects", "list").out.startswith("project  project id ")
    assert terminal.type("projects", "limit", "nobody").exit_code == 1


def test_limits_that_are_only_looked_at_are_no_change_in_the_audit_log(terminal: Terminal) -> None:
    terminal.type("projects", "limit", "default", "--runs", "5")
    shown = terminal.type("projects", "limit", "default", "--json").document
    entries = terminal.type("audit", "--json").document["audit"]

    assert shown["runs"] == 5
    assert [entry["detail"] for entry in entries if entry["action"] == "project.limit"] == [
        {"runs": 5}
    ]


@pytest.mark.parametrize("name", ["fits-per-day", "fits_per_day"])
def test_limits_are_lifted_by_the_name_of_their_option(terminal: Terminal, name: str) -> None:
    terminal.type("projects", "limit", "default", "--fits-per-day", "2")

    lifted = terminal.type("projects", "limit", "default", "--lift", name, "--json").document
    unknown = terminal.type("projects", "limit", "default", "--lift", "fits")

    assert lifted["fits_per_day"] is None
    assert unknown.exit_code == 2
    assert "fits-per-day" in unknown.err


@pytest.mark.parametrize("typed", ["keys list", "projects list", "refit --all", "recount"])
def test_commands_on_a_database_that_was_not_migrated_say_so(
    terminal: Terminal, tmp_path: Path, typed: str
) -> None:
    terminal.set(database_url=f"sqlite:///{tmp_path / 'empty.db'}")

    result = terminal.type(*typed.split())

    assert result.exit_code == 1
    assert "trainfare migrate" in result.err


def test_no_keys_is_said(terminal: Terminal) -> None:
    assert "Nothing there" in terminal.type("keys", "list").err


def test_unknown_key_is_refused(terminal: Terminal) -> None:
    result = terminal.type("keys", "revoke", "nothing")

    assert result.exit_code == 1
    assert "no key 'nothing'" in result.err
    assert "Remedy: `trainfare keys list` shows all." in result.err


def test_whole_key_is_revoked_without_its_secret_being_told(terminal: Terminal) -> None:
    made = terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--json").document
    secret = made["token"].rpartition("_")[2]

    said = [
        terminal.type("keys", "revoke", *words)
        for words in (
            (made["token"],),
            (f"Bearer {made['token']}",),
            (secret,),
            (f"tf_{secret}",),
            (f"tf_000000000000_{secret}",),
        )
    ]

    assert [result.exit_code for result in said] == [0, 0, 1, 1, 1]
    assert said[0].err == f"Key {made['key_id']} is revoked.\n"
    assert "no key '000000000000'" in said[4].err
    assert not any(secret in result.out + result.err for result in said)
    [listed] = terminal.type("keys", "list", "--json").document["keys"]
    assert listed["revoked_at"] is not None


def test_limit_is_not_set_and_lifted_at_once(terminal: Terminal) -> None:
    terminal.type("projects", "limit", "default", "--runs", "9", "--queued-fits", "2")

    result = terminal.type(
        "projects", "limit", "default", "--runs", "5", "--lift", "runs", "--lift", "queued-fits"
    )

    assert result.exit_code == 2
    assert "runs: set it or lift it, not both" in result.err
    [project] = terminal.type("projects", "list", "--json").document["projects"]
    assert (project["runs"], project["queued_fits"]) == (9, 2)


@pytest.mark.parametrize("command", ["audit --project visoin", "projects limit visoin --runs 1"])
def test_unknown_project_names_the_list_of_projects(terminal: Terminal, command: str) -> None:
    result = terminal.type(*command.split())

    assert result.exit_code == 1
    assert "There is no project 'visoin'." in result.err
    assert "Remedy: `trainfare projects list` shows all." in result.err


def test_doctor_finds_a_missing_fitter(terminal: Terminal) -> None:
    result = terminal.type("doctor")
    checks = {
        check["name"]: check for check in terminal.type("doctor", "--json").document["checks"]
    }

    assert result.exit_code == 1
    assert "1 finding: fitter" in result.err
    assert checks["integrity"]["is_ok"]
    assert not checks["fitter"]["is_ok"]


@pytest.mark.parametrize(
    "command",
    [
        ("doctor",),
        ("prune", "--forecasts-older-than", "90d"),
        ("backup", "all.tfb"),
        ("keys", "list"),
        ("refit", "--all"),
    ],
)
def test_database_that_is_missing_is_said_and_not_made(
    terminal: Terminal, tmp_path: Path, command: tuple[str, ...]
) -> None:
    folder = tmp_path / "typo"
    terminal.set(database_url="", data_dir=folder)

    result = terminal.type(*command)

    assert result.exit_code == 1
    assert f"There is no database at {folder / 'trainfare.db'}" in result.err
    assert "TRAINFARE_DATA_DIR" in result.err
    assert not folder.exists()


def test_doctor_finds_an_outdated_schema(terminal: Terminal) -> None:
    terminal.type("migrate", "--to", "0003")

    result = terminal.type("doctor")

    assert result.exit_code == 1
    assert "schema" in result.err


def test_recount_mends_the_counts_that_doctor_finds_wrong(
    terminal: Terminal, sqlite_url: str
) -> None:
    database = Database(sqlite_url)
    with database.transaction() as stores:
        stores.workloads.claim(DEFAULT_PROJECT, [Slug("resnet")], datetime.now(UTC))
        workload = stores.workloads.find_many(DEFAULT_PROJECT, [Slug("resnet")])[Slug("resnet")]
        none: dict[RunStatus, int] = {}
        wrong = {workload.workload_id: {RunStatus.SUCCEEDED: 3}}
        stores.run_counts.change({workload.workload_id: none}, wrong)
    database.close()

    result = terminal.type("doctor")
    mended = terminal.type("recount")
    repeated = terminal.type("recount")

    assert "counts" in result.err
    assert "1 workload counted again: resnet" in mended.out
    assert "0 workloads counted again." in repeated.out


@pytest.mark.parametrize(
    "arguments", [["--help"], ["keys", "--help"], ["serve", "-h"], ["--version"]]
)
def test_help_and_version_end_well(terminal: Terminal, arguments: list[str]) -> None:
    result = terminal.type(*arguments)

    assert result.exit_code == 0
    assert result.out


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["serve", "--port", "70000"], ["keys", "create", "--name", "x"], ["upload"]],
)
def test_wrong_usage_is_exit_code_2(terminal: Terminal, arguments: list[str]) -> None:
    assert terminal.type(*arguments).exit_code == 2


def test_every_command_has_help(terminal: Terminal) -> None:
    listed = terminal.type("--help").out
    for command in ("serve", "fitter", "migrate", "doctor", "recount", "demo", "upload", "fit",
                    "forecast", "recommend", "workloads", "keys"):  # fmt: skip
        assert f"  {command} " in listed
        assert terminal.type(command, "--help").exit_code == 0


def test_audit_tells_who_changed_what(terminal: Terminal) -> None:
    made = terminal.type(
        "keys", "create", "--name", "ci", "--scope", "read", "--project", "team", "--json"
    ).document
    terminal.type("keys", "revoke", made["key_id"])

    entries = terminal.type("audit", "--project", "team", "--json").document["audit"]
    last = terminal.type("audit", "--project", "team", "--limit", "1").out
    table = terminal.type("audit", "--project", "team").out

    assert [entry["action"] for entry in entries] == ["key.revoke", "key.create"]
    assert entries[0]["at"] >= entries[1]["at"] >= made["created_at"]
    assert [entry["key_id"] for entry in entries] == [None, None]
    assert {entry["subject"] for entry in entries} == {made["key_id"]}
    assert "key.revoke" in last
    assert "key.create" not in last
    assert "scopes: read" in table
    assert "{" not in table
    assert terminal.type("audit", "--project", "nobody").exit_code == 1


def test_project_is_deleted_only_when_told_so(terminal: Terminal) -> None:
    terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--project", "vision")

    shown = terminal.type("projects", "delete", "vision")
    counted = terminal.type("projects", "delete", "vision", "--json").document
    listed = terminal.type("projects", "list").out
    said = terminal.type("projects", "delete", "vision", "--yes")
    again = terminal.type("projects", "delete", "vision", "--yes")

    assert shown.exit_code == 1
    assert "runs 0" in shown.err
    assert "nothing was removed. Remedy: Pass --yes" in " ".join(shown.err.split())
    assert (counted["project"], counted["removable"]["keys"]) == ("vision", 1)
    assert "vision" in listed
    assert (said.exit_code, again.exit_code) == (0, 1)
    assert said.out.startswith("Project vision is removed: workloads 0")
    assert "vision" not in terminal.type("projects", "list").out
    assert terminal.type("keys", "list", "--json").document["keys"] == []
    terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--project", "vision")
    removed = terminal.type("projects", "delete", "vision", "--yes", "--json").document
    assert removed == {"project": "vision", "removed": counted["removable"]}
