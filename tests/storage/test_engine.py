"""How connections to the database are made."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.availability_errors import (
    OldSqliteError,
    StorageUnavailableError,
    StorageUnusableError,
)
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import PAGE_BYTES, Database
from app.storage.migration import migrate, require_head


def _parameters(url: str) -> dict[str, str]:
    database = Database(url, pool_size=1)
    try:
        with database.engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            told: dict[str, str] = driver.info.get_parameters()
            return told
    finally:
        database.close()


@pytest.fixture
def postgresql_url(database_url: str) -> str:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite is reached without a network")
    return database_url


def test_server_that_vanished_is_not_waited_for_long(postgresql_url: str) -> None:
    parameters = _parameters(postgresql_url)

    idle_s = int(parameters["keepalives_idle"])
    tries_s = int(parameters["keepalives_interval"]) * int(parameters["keepalives_count"])
    assert idle_s + tries_s <= 30
    assert int(parameters["tcp_user_timeout"]) <= 30_000
    assert int(parameters["connect_timeout"]) <= 10


def test_what_the_url_says_of_patience_goes_first(postgresql_url: str) -> None:
    url = sa.make_url(postgresql_url).update_query_dict({"tcp_user_timeout": "4000"})

    parameters = _parameters(url.render_as_string(hide_password=False))

    assert parameters["tcp_user_timeout"] == "4000"
    assert parameters["connect_timeout"] == "5"


def test_limit_on_statements_is_set_without_a_parameter_of_the_start(postgresql_url: str) -> None:
    with closing(Database(postgresql_url, pool_size=1, statement_timeout_s=7.0)) as database:
        shown = []
        for _ in range(2):
            with database.engine.connect() as connection:
                driver = connection.connection.driver_connection
                assert driver is not None
                assert not driver.info.get_parameters().get("options")
                shown.append(connection.exec_driver_sql("SHOW statement_timeout").scalar_one())
                connection.rollback()

    assert shown == ["7s", "7s"]


def test_work_without_a_limit_has_none_of_the_server_either(postgresql_url: str) -> None:
    url = sa.make_url(postgresql_url).update_query_dict({"options": "-c statement_timeout=9s"})

    with (
        closing(Database(url.render_as_string(hide_password=False), pool_size=1)) as database,
        database.engine.connect() as connection,
    ):
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == "0"


def test_defaults_of_a_server_do_not_change_what_is_read(postgresql_url: str) -> None:
    defaults = (
        "-c DateStyle=German -c TimeZone=Asia/Kolkata -c IntervalStyle=sql_standard"
        " -c extra_float_digits=0 -c default_transaction_isolation=serializable"
    )
    url = sa.make_url(postgresql_url).update_query_dict({"options": defaults})
    moment, number = datetime(2026, 11, 5, 23, 59, 59, 123456, tzinfo=UTC), 0.1 + 0.2

    with (
        closing(Database(url.render_as_string(hide_password=False), pool_size=1)) as database,
        database.engine.connect() as connection,
    ):
        told = connection.execute(
            sa.select(sa.cast(moment, sa.DateTime(timezone=True)), sa.cast(number, sa.Double))
        ).one()
        isolation = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()

    assert tuple(told) == (moment, number)
    assert isolation == "read committed"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"nonsense": "1"}, 'invalid connection option "nonsense"'),
        ({"options": "-c default_transaction_read_only=on"}, "in a read-only transaction"),
        ({"options": "-c role=pg_monitor"}, "permission denied"),
    ],
)
def test_postgresql_that_does_not_take_what_is_written_cannot_be_used(
    postgresql_url: str, options: dict[str, str], reason: str
) -> None:
    url = sa.make_url(postgresql_url).update_query_dict(options)
    rendered = url.render_as_string(hide_password=False)

    with (
        closing(Database(rendered, pool_size=1)) as database,
        pytest.raises(StorageUnusableError) as refused,
    ):
        _write(database)

    assert reason in refused.value.reason


def _write(database: Database) -> None:
    with database.transaction() as stores:
        stores.leases.purge_fitters(datetime.now(UTC))


def test_errors_of_statements_tell_no_values(database: Database) -> None:
    wrong = sa.text("SELECT 1 FROM nowhere WHERE name = :name")

    with database.engine.connect() as connection, pytest.raises(sa.exc.DBAPIError) as told:
        connection.execute(wrong, {"name": "confidential"})

    assert "nowhere" in str(told.value)
    assert "confidential" not in str(told.value)


def _page_bytes(database: Database) -> int:
    with database.engine.connect() as connection:
        found: int = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        return found


def test_new_file_has_large_pages_and_an_old_one_stays_as_it_is(tmp_path: Path) -> None:
    new, old = (f"sqlite:///{tmp_path}/{name}.db" for name in ("new", "old"))
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("CREATE TABLE kept (n INTEGER)")

    for url, expected in ((new, PAGE_BYTES), (old, 4096)):
        with closing(Database(url)) as database:
            migrate(database)
            require_head(database)
            assert _page_bytes(database) == expected


def test_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    with closing(Database(f"sqlite:///{tmp_path}/new.db")) as database:
        migrate(database)

        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}

    assert modes["new.db"] == 0o600
    assert set(modes.values()) == {0o600}, modes


def test_no_file_is_made_where_none_can_be(tmp_path: Path) -> None:
    with (
        closing(Database(f"sqlite:///{tmp_path}/missing/new.db")) as database,
        pytest.raises(StorageUnavailableError),
    ):
        migrate(database)

    assert list(tmp_path.iterdir()) == []


def test_library_of_sqlite_that_lacks_statements_is_refused_before_there_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.34.1")
    settings = Settings(data_dir=tmp_path)

    with closing(Database(settings.url)) as database:
        with pytest.raises(OldSqliteError) as refused:
            migrate(database)
        (check,) = Services(ServiceContext(database, settings)).health.check_readiness(reveal=True)

    assert refused.value.reason == "this Python's SQLite is 3.34.1, 3.35 or newer is needed"
    assert refused.value.reason in check.detail
    assert "PostgreSQL" in check.remedy
    assert not list(tmp_path.iterdir())


def test_oldest_sufficient_library_of_sqlite_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 35, 0))

    with closing(Database(Settings(data_dir=tmp_path).url)) as database:
        migrate(database)
        require_head(database)
