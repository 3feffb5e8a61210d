"""The store of measured runs."""

from sqlalchemy.orm import Session


class RunStore:
    """Reads and writes measured runs in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
