"""Which of the two databases a session uses."""

from sqlalchemy.orm import Session


def is_sqlite(session: Session) -> bool:
    """Whether a session is on SQLite; otherwise it is on PostgreSQL."""
    return session.get_bind().dialect.name == "sqlite"
