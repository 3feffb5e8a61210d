"""The store of a project's own prices."""

from sqlalchemy.orm import Session


class PriceStore:
    """Reads and writes a project's own prices in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
