"""Detects a PostgreSQL database that does not sort identifiers by time."""

from typing import Final

import sqlalchemy as sa

from app.domain.availability_errors import ForeignOrderError
from app.domain.identifiers import ALPHABET
from app.storage.database import Database

_SORTS_AS_BYTES: Final = sa.text(
    "SELECT string_agg(pair, '' ORDER BY pair) = string_agg(pair, '' ORDER BY pair COLLATE \"C\")"
    " FROM (SELECT first || second AS pair FROM unnest(CAST(:characters AS text[])) AS first,"
    " unnest(CAST(:characters AS text[])) AS second) AS pairs"
)
"""Some languages have an order of their own: z before t, and pairs as a letter: aa after z."""

_NAME: Final = sa.text(
    "SELECT coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', datcollate)"
    " FROM pg_database AS d WHERE datname = current_database()"
)
"""The column for the locale of a database depends on PostgreSQL's release."""


def require_time_order(database: Database) -> None:
    """Refuse a PostgreSQL database by whose collation identifiers do not sort by creation time.

    Lists of newer runs, counts and fits would miss some of them.

    Raises
    ------
    ForeignOrderError
        If the database sorts text by the rules of such a language.
    """
    if database.is_sqlite:
        return
    with database.translating_errors(), database.engine.connect() as connection:
        require_time_order_on(connection)


def require_time_order_on(connection: sa.Connection) -> None:
    """Refuse the same on a connection to PostgreSQL."""
    if not connection.scalar(_SORTS_AS_BYTES, {"characters": list(ALPHABET)}):
        raise ForeignOrderError(str(connection.scalar(_NAME)))
