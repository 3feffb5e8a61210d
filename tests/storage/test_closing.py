"""A closed database leaves no connection open, not even one that was in use."""

import sqlite3

import psycopg
import pytest
import sqlalchemy as sa

from app.storage.database import Database

IS_CLOSED = (sqlite3.ProgrammingError, psycopg.OperationalError)


def test_a_connection_in_use_is_closed_as_it_comes_back(database_url: str) -> None:
    database = Database(database_url)
    with database.engine.connect() as in_use:
        connection = in_use.connection.driver_connection
        assert connection is not None

        database.close()

        assert in_use.execute(sa.text("SELECT 1")).scalar_one() == 1
    with pytest.raises(IS_CLOSED):
        connection.cursor()


def test_a_connection_that_nobody_uses_is_closed_at_once(database_url: str) -> None:
    database = Database(database_url)
    with database.engine.connect() as used:
        connection = used.connection.driver_connection
    assert connection is not None

    database.close()

    with pytest.raises(IS_CLOSED):
        connection.cursor()


def test_work_that_begins_after_the_end_leaves_no_connection(database_url: str) -> None:
    database = Database(database_url)
    database.close()

    with database.engine.connect() as late:
        connection = late.connection.driver_connection
    assert connection is not None

    with pytest.raises(IS_CLOSED):
        connection.cursor()
