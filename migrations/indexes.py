"""Builds indexes of large tables without locking out writers."""

from collections.abc import Sequence

import sqlalchemy as sa

_IS_UNFINISHED = sa.text(
    "SELECT EXISTS (SELECT FROM pg_index WHERE NOT indisvalid AND indexrelid = to_regclass(:name))"
)


def build_index(
    connection: sa.Connection,
    name: str,
    table: str,
    columns: Sequence[str],
    *,
    where: str | None = None,
) -> None:
    """Build an index while others write, on PostgreSQL and outside of a transaction.

    Parameters
    ----------
    connection
        Commits each statement by itself.
    name, table, columns
        Of the index.
    where
        The condition of a partial index.
    """
    if connection.scalar(_IS_UNFINISHED, {"name": name}):
        # What an interrupted one leaves: no query would use it.
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY {name}")
    condition = "" if where is None else f" WHERE {where}"
    connection.exec_driver_sql(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table}"
        f" ({', '.join(columns)}){condition}"
    )
