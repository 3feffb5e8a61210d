"""The store of workloads and their parameters' types."""

from sqlalchemy.orm import Session


class WorkloadStore:
    """Reads and writes workloads and their parameters' types in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
