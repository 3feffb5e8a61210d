"""Sessions of PostgreSQL that are ours, and those that a pooler shares."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import count, repeat

import pytest
import sqlalchemy as sa

from app.domain.availability_errors import ForeignEncodingError, SharedSessionsError
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage import poolers
from app.storage.database import Database
from app.storage.migration import migrate
from app.storage.poolers import require_own_sessions

_PREPARED = "SELECT count(*) FROM pg_prepared_statements"
_MORE_OFTEN_THAN_IT_TAKES = 12


@pytest.fixture
def postgresql_url(database_url: str) -> str:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has no sessions that could be shared")
    return database_url


@pytest.fixture
def shared(postgresql_url: str) -> Iterator[Database]:
    url = sa.make_url(postgresql_url).update_query_dict({"pool_mode": "transaction"})
    rendered = url.render_as_string(hide_password=False)
    with closing(Database(rendered, pool_size=1, statement_timeout_s=7.0)) as database:
        yield database


@pytest.fixture
def own(postgresql_url: str) -> Iterator[Database]:
    with closing(Database(postgresql_url, pool_size=1)) as database:
        yield database


def _ask_often(database: Database) -> None:
    with database.translating_errors(), database.engine.connect() as connection:
        for _ in range(_MORE_OFTEN_THAN_IT_TAKES):
            connection.execute(sa.text("SELECT CAST(:n AS integer)"), {"n": 1}).scalar_one()
        # With a rollback the driver forgets what it prepared.
        connection.commit()


def test_each_transaction_of_a_shared_session_is_told_all(shared: Database) -> None:
    reported = []
    for _ in range(2):
        with shared.engine.connect() as connection:
            names = ("statement_timeout", "transaction_isolation", "DateStyle")
            asked = sa.select(*(sa.func.current_setting(name) for name in names))
            limit, isolation, style = connection.execute(asked).one()
            reported.append((limit, isolation, style.partition(",")[0]))
            # What a pooler does, or another client, between two transactions.
            connection.exec_driver_sql("SET DateStyle = 'German'")
            connection.exec_driver_sql("SET default_transaction_isolation = 'serializable'")
            connection.exec_driver_sql("SET statement_timeout = 0")
            connection.commit()

    assert reported == [("7s", "read committed", "ISO")] * 2


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("query", [{}, {"pool_mode": "transaction"}], ids=["own", "shared"])
def test_all_instants_are_read_whatever_the_zone_of_the_server(
    postgresql_url: str, zone: str, query: dict[str, str]
) -> None:
    url = sa.make_url(postgresql_url).update_query_dict({"options": f"-c timezone={zone}", **query})
    instants = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    literals = ", ".join(f"'{instant.isoformat()}'::timestamptz" for instant in instants)

    with (
        closing(Database(url.render_as_string(hide_password=False), pool_size=1)) as database,
        database.engine.connect() as connection,
    ):
        read = connection.exec_driver_sql(f"SELECT {literals}").one()

    assert list(read) == instants


def test_nothing_is_prepared_in_a_shared_session(shared: Database) -> None:
    _ask_often(shared)

    with shared.engine.connect() as connection:
        assert connection.exec_driver_sql(_PREPARED).scalar_one() == 0


def test_connection_beside_shares_its_session_too(shared: Database) -> None:
    with closing(shared.with_own_connection(3.0)) as beside:
        assert beside.shares_sessions
        _ask_often(beside)


def test_statement_that_another_session_prepared_is_no_error_of_ours(own: Database) -> None:
    _ask_often(own)
    with own.engine.connect() as connection:
        # So that the driver does not see it, as with another session.
        connection.exec_driver_sql("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
        connection.commit()

    with pytest.raises(SharedSessionsError, match="cannot be used") as refused:
        _ask_often(own)

    assert "does not exist" in refused.value.reason


@pytest.mark.parametrize("make", [lambda: repeat(7), count], ids=["one of two", "another each"])
def test_pooler_that_shares_sessions_is_refused(
    own: Database, make: Callable[[], Iterator[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = make()
    monkeypatch.setattr(poolers, "_backend_pid", lambda _: next(numbers))

    with pytest.raises(SharedSessionsError) as refused:
        require_own_sessions(own)

    assert "?pool_mode=transaction" in str(refused.value.remedy)


def test_pooler_that_keeps_sessions_and_no_pooler_are_served(
    own: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_own_sessions(own)
    monkeypatch.setattr(poolers, "_is_direct", lambda _: False)
    require_own_sessions(own)


def test_shared_sessions_that_the_url_tells_are_served(
    shared: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poolers, "_backend_pid", lambda _: 7)

    require_own_sessions(shared)


def test_doctor_names_sessions_that_are_shared(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite has no sessions that could be shared")
    services: Services = Services(ServiceContext(database, settings))
    monkeypatch.setattr(poolers, "_backend_pid", lambda _: 7)

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert not checks["sessions"].is_ok
    assert "pool_mode" in checks["sessions"].remedy


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def encoding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def foreign(own: Database, encoding: str) -> Iterator[Database]:
    """An empty database beside ours, with another encoding."""
    url = own.engine.url.set(database=f"{own.engine.url.database}_{encoding.lower()}")
    with own.engine.connect() as ours:
        server = ours.execution_options(isolation_level="AUTOCOMMIT")
        create = f"CREATE DATABASE {url.database} TEMPLATE template0 ENCODING '{encoding}'"
        server.exec_driver_sql(f"{create} LOCALE 'C'")
        with closing(Database(url.render_as_string(hide_password=False))) as database:
            yield database
        server.exec_driver_sql(f"DROP DATABASE {url.database}")


def test_database_of_another_encoding_is_refused(foreign: Database, encoding: str) -> None:
    for _ in range(2):
        with pytest.raises(ForeignEncodingError, match="cannot be used") as refused:
            migrate(foreign)

        assert refused.value.reason == f"its encoding is {encoding}, not UTF8"
        assert "ENCODING 'UTF8'" in refused.value.remedy


def test_readiness_says_how_a_database_of_another_encoding_is_replaced(
    foreign: Database, settings: Settings, encoding: str
) -> None:
    services = Services(ServiceContext(foreign, settings))

    (check,) = services.health.check_readiness(reveal=True)

    assert encoding in check.detail
    assert "ENCODING 'UTF8'" in check.remedy
