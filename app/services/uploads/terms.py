"""The options and results of an upload, independent of how it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.errors import Fault
from app.domain.idempotency import IdempotencyTicket, Replay
from app.domain.identifiers import RunId, Slug
from app.domain.runs import Assessment
from app.storage.stores import Stores

_MAX_NAMED_ROWS: Final = 10


class UploadFormat(StrEnum):
    """The notation of an upload's runs."""

    JSON = "application/json"
    NDJSON = "application/x-ndjson"
    CSV = "text/csv"


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """How an upload is stored.

    `dry_run` writes nothing; `skip_invalid` leaves bad rows out instead of refusing them all, and
    `offers_skipping` is whether the caller could have asked for that; `exclusion` is the reason why
    the new runs are kept out of fits, None where they are not.
    """

    dry_run: bool = False
    skip_invalid: bool = False
    offers_skipping: bool = True
    exclusion: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptedRow:
    """A row stored now, or earlier (a duplicate); a dry run's identifier is None."""

    row: int
    run_id: RunId | None
    workload: Slug
    external_id: str | None
    is_duplicate: bool


@dataclass(slots=True)
class Oddity:
    """Something about stored rows that the sender should look at."""

    code: str
    message: str
    remedy: str
    count: int = 0
    rows: tuple[int, ...] = ()

    def add(self, rows: list[int]) -> None:
        """Count rows and keep the first row numbers."""
        self.count += len(rows)
        self.rows = (*self.rows, *rows)[:_MAX_NAMED_ROWS]


@dataclass(frozen=True, slots=True)
class UploadedRun:
    """An accepted row of an upload with its verdict."""

    accepted: AcceptedRow
    assessment: Assessment


@dataclass(frozen=True, slots=True)
class UploadResult:
    """What became of an upload; `runs` is None where the rows are too many to list."""

    created: int
    duplicates: int
    runs: tuple[UploadedRun, ...] | None
    invalid: tuple[Fault, ...]
    invalid_count: int
    oddities: tuple[Oddity, ...]
    dry_run: bool


Finish = Callable[[Stores, UploadResult], None]
"""Further writes that belong in the transaction that stores the runs."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """Keeps the answer to an upload for retries: its key and its form.

    It is stored in the transaction that stores the runs, so that a crash leaves both or none.
    """

    ticket: IdempotencyTicket
    render: Callable[[UploadResult], Replay]

    def __call__(self, stores: Stores, result: UploadResult) -> None:
        """Store the answer."""
        keep(stores, self.ticket, self.render(result))


def keep(stores: Stores, ticket: IdempotencyTicket, answer: Replay) -> None:
    """Store the first answer to a request."""
    stores.idempotency.finish(ticket, answer.status, answer.headers, answer.body)
