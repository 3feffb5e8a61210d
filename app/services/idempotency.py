"""The use cases of replaying first answers by idempotency key."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from app.domain.idempotency import IdempotencyTicket, Replay
from app.domain.instants import elapsed
from app.services.context import ServiceContext
from app.services.projects import project_id_of

if TYPE_CHECKING:
    from app.domain.identifiers import ProjectId

_PURGE_EVERY: Final = timedelta(minutes=1)
_AT_ONCE: Final = 500
"""Answers may have megabytes, and the request that removes them waits."""


class IdempotencyService:
    """Use cases of replaying first answers by idempotency key.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    at_once
        How many lapsed answers are removed in one transaction.
    """

    def __init__(self, context: ServiceContext, *, at_once: int = _AT_ONCE) -> None:
        self._context = context
        self._at_once = at_once
        self.lock_s = context.settings.idempotency_lock_s
        self._purged_at: datetime | None = None
        self._kept: dict[ProjectId, int] = {}
        """Bytes of kept answers by project, reset at each purge."""

    def begin(self, ticket: IdempotencyTicket, body_sha256: str) -> Replay | IdempotencyTicket:
        """Return the first answer, or the ticket to hold while the request runs.

        Raises
        ------
        IdempotencyKeyReusedError
            If the key was used with another body.
        InProgressError
            If the first request is still running.
        """
        now = self._context.now()
        self._purge_sometimes(now)
        with self._context.database.transaction() as stores:
            return stores.idempotency.begin(ticket, body_sha256, now, self.lock_s)

    def _purge_sometimes(self, now: datetime) -> None:
        """Remove some lapsed answers, in a transaction of its own.

        Two requests that did so in theirs could wait for each other, each for a key that the other
        one removed; and what was removed by one that is then refused would be back.
        """
        if self._purged_at is not None and elapsed(self._purged_at, now) < _PURGE_EVERY:
            return
        with self._context.database.transaction() as stores:
            purged = stores.idempotency.purge(self._lapsed_before(), limit=self._at_once)
        # The next request continues a long purge.
        if purged < self._at_once:
            self._purged_at = now
            self._kept.clear()

    def renew(self, ticket: IdempotencyTicket) -> None:
        """Renew the lock of a request that is still running."""
        until = self._context.now() + timedelta(seconds=self.lock_s)
        with self._context.database.transaction() as stores:
            stores.idempotency.renew(ticket, until)

    def finish(
        self, ticket: IdempotencyTicket, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Store the first answer.

        Raises
        ------
        InProgressError
            If the answer is already stored, or another process took the request over.
        """
        with self._context.database.transaction() as stores:
            stores.idempotency.finish(ticket, status, headers, body)

    def keep(
        self, ticket: IdempotencyTicket, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Store the first answer to a question if its project has room; otherwise release the key.

        Raises
        ------
        InProgressError
            If another process took the request over.
        """
        with self._context.database.transaction() as stores:
            kept_bytes = self._kept.get(ticket.project_id)
            if kept_bytes is None:
                kept_bytes = stores.idempotency.kept_bytes(ticket.project_id)
            if kept_bytes + len(body) > self._context.settings.idempotency_bytes:
                stores.idempotency.renew(ticket, self._context.now())
            else:
                stores.idempotency.finish(ticket, status, headers, body)
                kept_bytes += len(body)
            self._kept[ticket.project_id] = kept_bytes

    def purge(self, *, project: str | None = None) -> int:
        """Remove the answers that are no longer replayed; return how many.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        before, total, purged = self._lapsed_before(), 0, self._at_once
        while purged >= self._at_once:
            with self._context.database.transaction() as stores:
                project_id = project_id_of(stores, project)
                purged = stores.idempotency.purge(before, project_id, limit=self._at_once)
            total += purged
        return total

    def count_lapsed(self, *, project: str | None = None) -> int:
        """Return how many answers `purge` would remove.

        Raises
        ------
        NotFoundError
            If there is no such project.
        """
        with self._context.database.reading() as stores:
            return stores.idempotency.count(self._lapsed_before(), project_id_of(stores, project))

    def _lapsed_before(self) -> datetime:
        """Return the instant of request before which answers are no longer replayed."""
        return self._context.now() - timedelta(hours=self._context.settings.idempotency_hours)

    def forget(self, ticket: IdempotencyTicket) -> None:
        """Release the key after an answer that is not kept."""
        with self._context.database.transaction() as stores:
            stores.idempotency.forget(ticket)
