"""What PostgreSQL's sessions are told: once, or in each transaction where a pooler shares them."""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event

POOL_MODE: Final = "pool_mode"
"""What a URL says of a pooler, in PgBouncer's words: that each transaction has another session."""
_SESSION: Final = {
    "DateStyle": "ISO",
    "default_transaction_isolation": "read committed",
    "extra_float_digits": "1",
}
"""What a server's, a database's or a user's defaults may say otherwise: then instants could not be
read, numbers lost digits, and uploads side by side were refused."""
_TRANSACTION: Final = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL DateStyle = 'ISO';"
    " SET LOCAL extra_float_digits = 1; SET LOCAL statement_timeout = {}"
)


def is_shared(url: sa.URL) -> bool:
    """Return whether a URL says that a pooler gives each transaction another session."""
    return url.query.get(POOL_MODE) == "transaction"


def prepare_sessions(engine: sa.Engine, limit_ms: int) -> None:
    """Let PostgreSQL end statements (0: none), and answer as we read whatever its defaults are.

    Poolers take no such settings when a connection starts.
    """
    chosen = {**_SESSION, "statement_timeout": str(limit_ms)}
    told = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in chosen.items())

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        connection.execute(f"SELECT {told}")
        # With its transaction it would be undone.
        connection.commit()


def prepare_transactions(engine: sa.Engine, limit_ms: int) -> None:
    """Tell each transaction the same: the next one may have another session."""
    told = _TRANSACTION.format(limit_ms)

    @event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(told)
