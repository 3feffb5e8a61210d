"""The store of the ledger of recorded forecasts."""

from sqlalchemy.orm import Session


class ForecastStore:
    """Reads and writes the ledger of recorded forecasts in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
