"""What the help of commands tells: defaults, fields, and the database that they open."""

import pytest

from app.api.schemas.fits import FitIn
from app.api.schemas.flat_queries import FLAT_FIELDS
from app.cli.fields import FORECAST_FIELDS, RECOMMEND_FIELDS, SEARCH
from app.settings import Settings
from tests.support.terminal import Terminal


def test_help_tells_the_defaults_that_hold(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    fields = Settings.model_fields

    serve = terminal.type("serve", "--help").out
    fit = terminal.type("fit", "--help").out

    for name in ("host", "port", "web_workers"):
        told = f"[TRAINFARE_{name.upper()}; default: {fields[name].default}]"
        assert told in " ".join(serve.split())
    assert f"TRAINFARE_FIT_TIME_BUDGET_S, {fields['fit_time_budget_s'].default:g}" in fit
    assert f"[default: {FitIn().seed}]" in fit
    assert f"[default: {FitIn().publish}]" in fit


def test_help_of_questions_lists_their_fields(terminal: Terminal) -> None:
    forecast = " ".join(terminal.type("forecast", "--help").out.split())
    recommend = " ".join(terminal.type("recommend", "--help").out.split())

    assert set(FLAT_FIELDS) <= set(FORECAST_FIELDS)
    assert ", ".join(FORECAST_FIELDS) in forecast
    others = [name for name in RECOMMEND_FIELDS if name not in SEARCH]
    assert f"comma lists of {', '.join(SEARCH)} name what may be chosen" in recommend
    assert ", ".join(others) in recommend


@pytest.mark.parametrize(
    "command",
    ["upload", "fit", "forecast", "recommend", "workloads", "profile", "flush", "ci report",
     "import csv", "import bencher"],
)  # fmt: skip
def test_every_command_of_the_service_takes_its_key_by_one_name(
    terminal: Terminal, command: str
) -> None:
    result = terminal.type(*command.split(), "--help").out

    assert "--url" in result
    assert "--api-key" in result
    assert "TRAINFARE_API_KEY" in result


@pytest.mark.parametrize("group", ["", "keys", "projects"])
def test_list_of_commands_says_all_of_each(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    listed = terminal.type(*group.split(), "--help").out.partition("Commands:")[2]

    assert listed
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize(
    "command", ["serve", "fitter", "doctor", "audit", "keys list", "projects limit", "backup"]
)
def test_help_names_the_database_that_a_command_opens(terminal: Terminal, command: str) -> None:
    said = " ".join(terminal.type(*command.split(), "--help").out.split())

    assert "the one that TRAINFARE_DATABASE_URL names" in said
    assert f"TRAINFARE_DATA_DIR ({Settings.model_fields['data_dir'].default})" in said
