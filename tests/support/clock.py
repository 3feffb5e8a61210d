"""A clock that tests control."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Starts at a fixed instant and moves only when told."""

    def __init__(self) -> None:
        self.instant = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.instant

    def advance(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)
