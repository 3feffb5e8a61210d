"""Makes a database really unavailable."""

import os

import psycopg
import sqlalchemy as sa

from app.storage.database import Database


def make_unavailable(database: Database) -> None:
    """Make a test's database fail for everyone, including open connections."""
    if database.is_sqlite:
        with database.engine.begin() as connection:
            # Without the revision it would look like an empty database.
            tables = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
            for table in sorted(tables):
                connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO gone_{table}")
        return
    name = database.engine.url.database
    with psycopg.connect(os.environ["TRAINFARE_TEST_POSTGRESQL_URL"], autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false".encode())
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )


def make_available(database: Database) -> None:
    """Undo `make_unavailable`; does nothing if the database is available."""
    if database.is_sqlite:
        with database.engine.begin() as connection:
            for table in sa.inspect(connection).get_table_names():
                if table.startswith("gone_"):
                    original = table.removeprefix("gone_")
                    connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {original}")
        return
    name = database.engine.url.database
    with psycopg.connect(os.environ["TRAINFARE_TEST_POSTGRESQL_URL"], autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true".encode())
