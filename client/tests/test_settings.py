"""Settings: what is given, else the environment, else the defaults."""

import re
from pathlib import Path

import pytest
import trainfare_client
from trainfare_client import ClientSettings, read_settings
from trainfare_client.errors import SettingsError

from app.cli.client import KEY_VARIABLES
from app.cli.profiling.training import environment_of
from app.settings import unknown_variables


def test_environment_is_read_and_what_is_given_goes_first() -> None:
    environ = {
        "TRAINFARE_URL": "https://fare.example/",
        "TRAINFARE_API_KEY": "secret",
        "TRAINFARE_TIMEOUT_S": "2.5",
        "TRAINFARE_SPOOL": "here.jsonl",
    }

    read = read_settings(environ=environ)
    given = read_settings(
        url="http://other", api_key="other", timeout_s=1.5, spool="there.jsonl", environ=environ
    )

    assert (read.url, read.api_key, read.timeout_s) == ("https://fare.example", "secret", 2.5)
    assert read.spool == Path("here.jsonl")
    assert (given.url, given.api_key, given.timeout_s) == ("http://other", "other", 1.5)
    assert given.spool == Path("there.jsonl")
    assert "secret" not in repr(read)


def test_older_name_of_the_key_is_read_where_the_other_is_not_set() -> None:
    older = read_settings(environ={"TRAINFARE_KEY": "older"})
    both = read_settings(environ={"TRAINFARE_KEY": "older", "TRAINFARE_API_KEY": "newer"})

    assert (older.api_key, both.api_key) == ("older", "newer")


def test_service_takes_no_variable_of_its_clients_for_a_mistake() -> None:
    sources = Path(trainfare_client.__file__).parent.rglob("*.py")
    named = {
        name
        for source in sources
        for name in re.findall(r"TRAINFARE_[A-Z][A-Z_]*[A-Z]", source.read_text(encoding="utf-8"))
    }

    # These describe a run to what makes it, never the service.
    fields = ("workers", "dataset_size", "batch_size", "epochs", "param", "param.name")
    of_runs = environment_of(dict.fromkeys(fields, ""))
    assert {"TRAINFARE_URL", "TRAINFARE_TIMEOUT_S"} <= named
    assert not unknown_variables({*named, *KEY_VARIABLES} - of_runs.keys())


def test_spool_lies_with_the_users_state() -> None:
    named = read_settings(environ={"XDG_STATE_HOME": "/state"})
    home = read_settings(environ={})

    assert named.spool == Path("/state/trainfare/spool.jsonl")
    assert home.spool.parts[-4:] == (".local", "state", "trainfare", "spool.jsonl")
    assert home.url == "http://127.0.0.1:8000"


@pytest.mark.parametrize("seconds", ["soon", "-1", "0", "nan", "inf", "1e400"])
def test_timeout_without_meaning_is_refused(seconds: str) -> None:
    with pytest.raises(SettingsError, match="TRAINFARE_TIMEOUT_S"):
        read_settings(environ={"TRAINFARE_TIMEOUT_S": seconds})


def test_no_attempt_is_refused() -> None:
    with pytest.raises(SettingsError):
        ClientSettings(attempts=0)


def test_newlines_of_files_are_no_part_of_a_value_and_home_is_found() -> None:
    environ = {
        "TRAINFARE_URL": " HTTP://fare.example/\n",
        "TRAINFARE_API_KEY": "secret\n",
        "TRAINFARE_SPOOL": "~/spool.jsonl",
    }

    read = read_settings(environ=environ)

    assert (read.url, read.api_key) == ("HTTP://fare.example", "secret")
    assert read.spool == Path.home() / "spool.jsonl"


@pytest.mark.parametrize("url", ["http://", "http://host:port", "http://[::1", "localhost:8000"])
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="TRAINFARE_URL"):
        read_settings(url=url)


def test_address_without_its_scheme_is_told_how_to_be_written() -> None:
    with pytest.raises(SettingsError, match="such as http://localhost:8000"):
        read_settings(url="localhost:8000", environ={})


@pytest.mark.parametrize("key", ["two words", "schl\u00fcssel", "line\nline"])
def test_key_that_is_none_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingsError, match="TRAINFARE_API_KEY") as caught:
        read_settings(api_key=key)

    assert key not in str(caught.value)


def test_spool_that_is_no_file_is_refused() -> None:
    with pytest.raises(SettingsError, match="TRAINFARE_SPOOL"):
        read_settings(spool="/")
