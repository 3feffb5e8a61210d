"""The store of the registry of regressor versions."""

from sqlalchemy.orm import Session


class RegressorStore:
    """Reads and writes the registry of regressor versions in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
