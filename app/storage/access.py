"""The store of projects, API keys and the audit log."""

from sqlalchemy.orm import Session


class AccessStore:
    """Reads and writes projects, API keys and the audit log in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
