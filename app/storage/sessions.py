"""Settings of PostgreSQL's sessions: set once, or per transaction if a pooler shares sessions."""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event

from app.domain.availability_errors import ForeignEncodingError

POOL_MODE: Final = "pool_mode"
"""The URL's option for the mode of a pooler, named as PgBouncer names it."""
_SESSION: Final = {
    "DateStyle": "ISO",
    "default_transaction_isolation": "read committed",
    "extra_float_digits": "1",
    "TimeZone": "UTC",
}
"""The defaults of a server, database or user may differ, so that instants would be unreadable (in
another zone the driver cannot read those of the first or last hours that Python knows), numbers
lose digits, or concurrent uploads be refused."""
_TRANSACTION: Final = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL DateStyle = 'ISO';"
    " SET LOCAL extra_float_digits = 1; SET LOCAL TimeZone = 'UTC';"
    " SET LOCAL statement_timeout = {}"
)


def is_shared(url: sa.URL) -> bool:
    """Return whether a URL says that a pooler gives each transaction another session."""
    return url.query.get(POOL_MODE) == "transaction"


def require_encoding(engine: sa.Engine) -> None:
    """Refuse connections to a PostgreSQL database that does not store text as UTF-8.

    Others would refuse, change or no longer compare characters of workloads' names.
    """

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in {"UTF8", None}:
            connection.close()
            raise ForeignEncodingError(encoding)


def prepare_sessions(engine: sa.Engine, limit_ms: int) -> None:
    """Make PostgreSQL end long statements (0: none) and answer in our formats.

    Connection poolers do not accept such settings at the start of a connection.
    """
    settings = {**_SESSION, "statement_timeout": str(limit_ms)}
    calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        connection.execute(f"SELECT {calls}")
        # The settings would be rolled back with the transaction.
        connection.commit()


def prepare_transactions(engine: sa.Engine, limit_ms: int) -> None:
    """Set the same in each transaction: the next one may have another session."""
    statements = _TRANSACTION.format(limit_ms)

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(statements)
