"""`trainfare refit --all` queues fits and says how many."""

from pathlib import Path

import pytest

from app.services.context import ServiceContext
from app.settings import Settings
from app.storage.database import Database
from tests.support.regressors import store_runs
from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def database_set(terminal: Terminal, sqlite_url: str, tmp_path: Path) -> None:
    terminal.set(database_url=sqlite_url, data_dir=tmp_path)


def test_refit_queues_a_fit_for_each_workload(terminal: Terminal, sqlite_url: str) -> None:
    database = Database(sqlite_url)
    context = ServiceContext(database, Settings(database_url=sqlite_url))
    store_runs(context, "resnet")
    store_runs(context, "bert")
    database.close()

    first = terminal.type("refit", "--all", "--older-than", "7d", "--at-most", "1", "--json")
    result = terminal.type("refit", "--all", "--older-than", "7d", "--json")

    assert (first.exit_code, first.document) == (0, {"queued": 1})
    assert (result.exit_code, result.document) == (0, {"queued": 1})
    assert terminal.type("refit", "--all").out == "0 fits queued.\n"


def test_refit_wants_to_be_told_all(terminal: Terminal) -> None:
    result = terminal.type("refit")

    assert result.exit_code == 2
    assert "--all" in result.err


@pytest.mark.parametrize("age", ["7", "soon", "-1d", "7 days", "999999w"])
def test_age_that_cannot_be_read_is_refused(terminal: Terminal, age: str) -> None:
    result = terminal.type("refit", "--all", f"--older-than={age}")

    assert result.exit_code == 2
    assert "7d" in result.err


def test_unknown_project_is_refused(terminal: Terminal) -> None:
    result = terminal.type("refit", "--all", "--project", "nobody")

    assert result.exit_code == 1
    assert "nobody" in result.err
