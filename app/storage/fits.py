"""The store of fits, their leases and the fitters' heartbeats."""

from sqlalchemy.orm import Session


class FitStore:
    """Reads and writes fits, their leases and the fitters' heartbeats in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
