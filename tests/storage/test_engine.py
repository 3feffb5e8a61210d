"""How connections to the database are made."""

import pytest
import sqlalchemy as sa

from app.storage.database import Database


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
    told = _parameters(postgresql_url)

    idle_s = int(told["keepalives_idle"])
    tries_s = int(told["keepalives_interval"]) * int(told["keepalives_count"])
    assert idle_s + tries_s <= 30
    assert int(told["tcp_user_timeout"]) <= 30_000
    assert int(told["connect_timeout"]) <= 10


def test_what_the_url_says_of_patience_goes_first(postgresql_url: str) -> None:
    url = sa.make_url(postgresql_url).update_query_dict({"tcp_user_timeout": "4000"})

    told = _parameters(url.render_as_string(hide_password=False))

    assert told["tcp_user_timeout"] == "4000"
    assert told["connect_timeout"] == "5"
