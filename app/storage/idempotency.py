"""The store of first answers by idempotency key."""

from sqlalchemy.orm import Session


class IdempotencyStore:
    """Reads and writes first answers by idempotency key in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
