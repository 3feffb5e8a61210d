"""Databases that are created for a measurement and removed afterwards."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from app.storage.database import Database


@contextmanager
def new_sqlite() -> Iterator[str]:
    """Yield the URL of a file in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'benchmark.db'}"


@contextmanager
def new_postgresql(server_url: str) -> Iterator[str]:
    """Yield the URL of a new database on a server whose user may create them."""
    name = f"benchmark_{uuid.uuid4().hex[:8]}"
    server = Database(server_url, pool_size=1)
    with server.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
        try:
            url = server.engine.url.set(database=name)
            yield url.render_as_string(hide_password=False)
        finally:
            connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.close()
