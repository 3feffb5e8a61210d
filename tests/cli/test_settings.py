"""Settings that cannot be meant stop the start, by their name and in one line."""

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from app.cli.processes.supervisor import environment_of
from app.domain.access import Scope
from app.settings import Settings
from app.storage.database import Database, make_engine
from app.storage.migration import migrate
from tests.support.terminal import Terminal


def _refusal(terminal: Terminal, command: str, **settings: object) -> str:
    """Return what is said of settings that are wrong usage of a command."""
    terminal.set(**settings)
    result = terminal.type(command)
    assert result.exit_code == 2
    return result.err


def test_bad_setting_is_wrong_usage_and_named(terminal: Terminal) -> None:
    assert "TRAINFARE_LEASE_S" in _refusal(terminal, "doctor", lease_s=-1)


@pytest.mark.parametrize(
    "address", ["head", "http://head:10001", "ray://head", "head:", "auto", "h:99999"]
)
def test_address_that_can_never_be_one_of_ray_is_refused_at_once(
    terminal: Terminal, address: str
) -> None:
    result = _refusal(terminal, "fitter", ray_address=address)

    assert "TRAINFARE_RAY_ADDRESS" in result
    assert "ray://HOST:PORT" in result
    assert "Value error" not in result


def test_settings_that_do_not_go_together_are_told_without_a_name(terminal: Terminal) -> None:
    result = _refusal(terminal, "doctor", oidc_issuer="https://issuer.example")

    assert "TRAINFARE_OIDC_AUDIENCE" in result
    assert "TRAINFARE_:" not in result


def test_wrong_part_of_a_setting_is_told_once(terminal: Terminal) -> None:
    result = _refusal(terminal, "doctor", oidc_algorithms='["HS256", "none"]', port=-1)

    assert result.count("TRAINFARE_OIDC_ALGORITHMS: Input should be 'RS256'") == 1
    assert result.count("TRAINFARE_OIDC_ALGORITHMS") == 1
    assert "TRAINFARE_PORT: Input should be" in result


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("oidc_scope_map", "{bad", "TRAINFARE_OIDC_SCOPE_MAP is not JSON."),
        ("oidc_algorithms", "RS256", "TRAINFARE_OIDC_ALGORITHMS is not JSON."),
        ("database_url", "sqlite://", "TRAINFARE_DATABASE_URL: is neither"),
        ("database_url", "postgresql://h/t?pool_mode=statement", "TRAINFARE_DATABASE_URL: has a"),
        ("database_url", "postgresql://a:p@w@h/t", "TRAINFARE_DATABASE_URL: has a login with an @"),
        ("database_url", "postgresql://a:p@w@h,i/t", "TRAINFARE_DATABASE_URL: has a login with"),
        ("host", "", "TRAINFARE_HOST: String should have at least 1 character"),
        ("lease_s", "inf", "TRAINFARE_LEASE_S: Input should be less"),
        ("fitter_poll_s", "nan", "TRAINFARE_FITTER_POLL_S: Input should be"),
        ("idempotency_hours", "1e9", "TRAINFARE_IDEMPOTENCY_HOURS: Input should be less"),
        ("otlp_endpoint", "foo", "TRAINFARE_OTLP_ENDPOINT: 'foo' is neither http://"),
        ("otlp_endpoint", "http://h:99999", "TRAINFARE_OTLP_ENDPOINT: 'http://h:99999' is neither"),
        ("otlp_endpoint", "http://[::1", "TRAINFARE_OTLP_ENDPOINT: 'http://[::1' is neither"),
        ("otlp_endpoint", "ftp://ada:pw@h", "TRAINFARE_OTLP_ENDPOINT: 'ftp://h' is neither"),
        ("ray_address", "ray://ada:pw@h:1", "TRAINFARE_RAY_ADDRESS: 'ray://h:1' is neither"),
    ],
)
def test_setting_that_would_break_the_service_is_refused_by_name(
    terminal: Terminal, name: str, value: str, said: str
) -> None:
    assert f"Error: {said}" in _refusal(terminal, "migrate", **{name: value})


@pytest.mark.parametrize(
    ("name", "url", "shown"),
    [
        ("issuer", "http://ada:pw@fare.example", "'http://fare.example'"),
        ("issuer", "https://[::1", "'https://[::1'"),
        ("jwks_url", "ftp://fare.example/keys", "'ftp://fare.example/keys'"),
    ],
)
def test_issuer_that_cannot_be_trusted_is_refused_by_name(
    terminal: Terminal, name: str, url: str, shown: str
) -> None:
    terminal.set(oidc_issuer="https://issuer.example", oidc_audience="trainfare")

    result = _refusal(terminal, "migrate", **{f"oidc_{name}": url})

    assert f"Error: TRAINFARE_OIDC_{name.upper()}: {shown} is neither https" in result


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.7", "h" * 70])
def test_address_of_another_machine_is_refused_as_such(
    terminal: Terminal, sqlite_url: str, host: str
) -> None:
    terminal.set(database_url=sqlite_url, host=host, require_keys="false")

    result = terminal.type("serve", "--port", 0)

    assert result.exit_code == 1
    assert f"Error: Cannot listen on {host}:0: " in result.err
    assert "Remedy: Name an address of this machine with --host (TRAINFARE_HOST)" in result.err


def test_misspelt_setting_is_told_by_commands_that_have_no_log(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.set(data_dir=tmp_path, database_ur="postgresql://nobody@nowhere/t", whatsoever=1)

    result = terminal.type("migrate")

    assert result.exit_code == 0
    assert result.err.splitlines() == [
        "Warning: There is no setting TRAINFARE_DATABASE_UR. Did you mean TRAINFARE_DATABASE_URL?",
        "Warning: There is no setting TRAINFARE_WHATSOEVER.",
    ]
    assert "The schema went from none" in result.out


def test_child_has_the_settings_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Settings(
        oidc_issuer="https://issuer.example",
        oidc_audience="trainfare",
        oidc_algorithms=("ES256",),
        oidc_scope_map={"ops": (Scope.ADMIN, Scope.READ)},
        require_keys=False,
        lease_s=2.5,
    )

    for name, value in environment_of(given).items():
        monkeypatch.setenv(name, value)

    assert Settings() == given


@pytest.mark.parametrize(
    ("given", "login"),
    [
        ("postgresql://ada:p%40w@one:5433,two/t?target_session_attrs=read-write", "ada:p%40w@"),
        ("postgres://one:5433,two/t?target_session_attrs=read-write", ""),
    ],
)
def test_url_with_several_hosts_is_read_as_libpq_does(given: str, login: str) -> None:
    read = make_url(Settings(database_url=given).url)

    assert read.query["host"] == ("one:5433", "two")
    assert read.query["target_session_attrs"] == "read-write"
    assert (read.database, read.password) == ("t", "p@w" if login else None)


def test_engine_asks_several_hosts_in_turn() -> None:
    url = Settings(database_url="postgresql://ada@one:5433,two:5434/t").url

    _, options = make_engine(url).dialect.create_connect_args(make_url(url))

    assert (options["host"], options["port"]) == ("one,two", "5433,5434")


@pytest.mark.parametrize("name", ["what?", "50%20 off", "a@b", "#1", "münchen"])
def test_data_folder_with_any_name_holds_the_database(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    settings = Settings(data_dir=folder)

    with closing(Database(settings.url)) as database:
        migrate(database)

    assert database.file == folder / "trainfare.db"
    assert (folder / "trainfare.db").exists()
    assert [*tmp_path.iterdir()] == [folder]
    assert settings.shown_database == str(folder / "trainfare.db")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:p%40w@one:5433/fare?password=hidden&passfile=x", "one:5433/fare"),
        ("postgres://eve@one,two/fare?sslpassword=hidden", "/fare?host=one&host=two"),
        ("sqlite:////srv/a%3Fb.db", "/srv/a?b.db"),
    ],
)
def test_database_is_shown_without_login_and_options(url: str, shown: str) -> None:
    assert Settings(database_url=url).shown_database == shown
