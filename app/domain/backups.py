"""Backups: what an archive holds, and why one cannot be written or read."""

from dataclasses import dataclass
from datetime import datetime


class BackupError(Exception):
    """A backup cannot be made or restored; `remedy` says what would help."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class RefusedRowError(Exception):
    """The database does not take a row of an archive; `row` counts those of its table from 1."""

    def __init__(self, table: str, row: int, column: str | None, reason: str) -> None:
        where = "" if column is None else f", column {column!r}"
        super().__init__(f"The database rejects row {row} of table {table!r}{where}: {reason}.")
        self.table, self.row, self.column = table, row, column


@dataclass(frozen=True, slots=True)
class TableDump:
    """A table as an archive describes it: its columns, with the kind of values of each."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What an archive holds."""

    path: str
    created_at: datetime
    revision: str
    rows: int
    sha256: str
