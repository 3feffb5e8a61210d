"""The store of first answers by idempotency key."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.errors import IdempotencyKeyReusedError, InProgressError
from app.domain.idempotency import IdempotencyTicket, Replay
from app.domain.identifiers import ProjectId
from app.storage.tables import IdempotencyRow
from app.storage.upserts import insert_into

_LONGEST_LOCK: Final = timedelta(hours=1)
"""A lock that ends later was written by a clock that was ahead."""


def _matches(ticket: IdempotencyTicket) -> sa.ColumnElement[bool]:
    return sa.and_(
        IdempotencyRow.project_id == ticket.project_id,
        IdempotencyRow.path == ticket.path,
        IdempotencyRow.key == ticket.key,
    )


def _is_held(ticket: IdempotencyTicket) -> sa.ColumnElement[bool]:
    return sa.and_(
        _matches(ticket), IdempotencyRow.fence == ticket.fence, IdempotencyRow.status.is_(None)
    )


class IdempotencyStore:
    """Reads and writes first answers by idempotency key in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(
        self, ticket: IdempotencyTicket, body_sha256: str, now: datetime, lock_s: float
    ) -> Replay | IdempotencyTicket:
        """Return the first answer, or the ticket with its fence if the request may run.

        Raises
        ------
        IdempotencyKeyReusedError
            If the key was used with another body.
        InProgressError
            If the first request has neither ended nor been silent for `lock_s`.
        """
        held = replace(ticket, fence=uuid4().hex)
        lock = {"fence": held.fence, "locked_until": now + timedelta(seconds=lock_s)}
        if self._insert(ticket, body_sha256, {"created_at": now, **lock}):
            return held
        # The row lock makes a second caller wait for a first one that is committing.
        row = self._session.scalars(
            sa.select(IdempotencyRow).where(_matches(ticket)).with_for_update()
        ).one_or_none()
        if row is None:
            raise InProgressError(ticket.key)
        if row.body_sha256 != body_sha256:
            raise IdempotencyKeyReusedError(ticket.key)
        if row.status is not None:
            return Replay(row.status, row.headers or {}, row.body or b"")
        if now < row.locked_until <= now + _LONGEST_LOCK:
            raise InProgressError(ticket.key)
        self._session.execute(sa.update(IdempotencyRow).where(_matches(ticket)).values(**lock))
        return held

    def _insert(
        self, ticket: IdempotencyTicket, body_sha256: str, values: Mapping[str, object]
    ) -> bool:
        row = {"project_id": ticket.project_id, "path": ticket.path, "key": ticket.key, **values}
        statement = insert_into(self._session, IdempotencyRow).values(
            **row, body_sha256=body_sha256
        )
        inserted = self._session.execute(
            statement.on_conflict_do_nothing().returning(IdempotencyRow.key)
        )
        return inserted.one_or_none() is not None

    def renew(self, ticket: IdempotencyTicket, until: datetime) -> None:
        """Renew the lock of a request that is still running."""
        self._session.execute(
            sa.update(IdempotencyRow).where(_is_held(ticket)).values(locked_until=until)
        )

    def finish(
        self, ticket: IdempotencyTicket, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Store the first answer, in the transaction that does what the answer says.

        Raises
        ------
        InProgressError
            If another process took the request over; roll back what this one did.
        """
        finished = self._session.execute(
            sa.update(IdempotencyRow)
            .where(_is_held(ticket))
            .values(status=status, headers=dict(headers), body=body)
            .returning(IdempotencyRow.key)
        )
        if finished.one_or_none() is None:
            raise InProgressError(ticket.key)

    def forget(self, ticket: IdempotencyTicket) -> None:
        """Release the key after an answer that is not kept."""
        self._session.execute(sa.delete(IdempotencyRow).where(_is_held(ticket)))

    def kept_bytes(self, project_id: ProjectId) -> int:
        """Return the total size of a project's kept answers in bytes."""
        lengths = sa.func.coalesce(sa.func.sum(sa.func.length(IdempotencyRow.body)), 0)
        return int(
            self._session.scalars(
                sa.select(lengths).where(IdempotencyRow.project_id == project_id)
            ).one()
        )

    def count(self, before: datetime, project_id: ProjectId | None) -> int:
        """Return how many requests began before an instant, in one project or in all."""
        rows = sa.select(sa.func.count()).where(*_began(before, project_id))
        return self._session.scalars(rows).one()

    def purge(self, before: datetime, project_id: ProjectId | None = None, *, limit: int) -> int:
        """Delete up to `limit` answers that `count` counts, except those that others delete.

        Return the number of those deleted here.
        """
        columns = IdempotencyRow.project_id, IdempotencyRow.path, IdempotencyRow.key
        lapsed = sa.select(*columns).where(*_began(before, project_id))
        oldest = lapsed.order_by(IdempotencyRow.created_at).limit(limit)
        ours = oldest.with_for_update(skip_locked=True)
        deleted = self._session.execute(
            sa.delete(IdempotencyRow)
            .where(sa.tuple_(*columns).in_(ours))
            .returning(IdempotencyRow.key)
        )
        return len(deleted.all())


def _began(before: datetime, project_id: ProjectId | None) -> list[sa.ColumnElement[bool]]:
    of_project = [] if project_id is None else [IdempotencyRow.project_id == project_id]
    return [IdempotencyRow.created_at < before, *of_project]
