"""Which of the two databases a session speaks to."""

from sqlalchemy.orm import Session


def is_sqlite(session: Session) -> bool:
    """Whether a session is SQLite's; otherwise it is PostgreSQL's."""
    return session.get_bind().dialect.name == "sqlite"
