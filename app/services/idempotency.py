"""The use cases of replaying first answers by idempotency key."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from app.domain.idempotency import IdempotencyTicket, Replay
from app.services.context import ServiceContext

_PURGE_EVERY: Final = timedelta(minutes=1)


class IdempotencyService:
    """Use cases of replaying first answers by idempotency key."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self.lock_s = context.settings.idempotency_lock_s
        self._purged_at: datetime | None = None

    def begin(self, ticket: IdempotencyTicket, body_sha256: str) -> Replay | IdempotencyTicket:
        """Return the first answer, or the ticket to hold while the request runs.

        Raises
        ------
        IdempotencyKeyReusedError
            If the key was used with another body.
        InProgressError
            If the first request has not ended.
        """
        now = self._context.now()
        with self._context.database.transaction() as stores:
            if self._purged_at is None or now - self._purged_at >= _PURGE_EVERY:
                hours = self._context.settings.idempotency_hours
                stores.idempotency.purge(now - timedelta(hours=hours))
                self._purged_at = now
            return stores.idempotency.begin(ticket, body_sha256, now, self.lock_s)

    def renew(self, ticket: IdempotencyTicket) -> None:
        """Keep the lock of a request that still runs."""
        until = self._context.now() + timedelta(seconds=self.lock_s)
        with self._context.database.transaction() as stores:
            stores.idempotency.renew(ticket, until)

    def finish(
        self, ticket: IdempotencyTicket, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Keep the first answer.

        Raises
        ------
        InProgressError
            If the answer is kept already, or another process took the request over.
        """
        with self._context.database.transaction() as stores:
            stores.idempotency.finish(ticket, status, headers, body)

    def forget(self, ticket: IdempotencyTicket) -> None:
        """Let the key be used again after an answer that is not kept."""
        with self._context.database.transaction() as stores:
            stores.idempotency.forget(ticket)
