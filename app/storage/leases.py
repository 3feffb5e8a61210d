"""The store of leases: which fitter works on which fit, and how a fit ends."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from app.domain.fits import Candidate, ClaimedFit, FitProblem, FitState
from app.domain.identifiers import ProjectId, Slug, WorkloadId, earliest_identifier
from app.domain.wording import say_count
from app.storage.dialects import is_sqlite
from app.storage.fit_rows import CANCELLED_STEP, candidate_document, is_lapsed, to_fit
from app.storage.tables import FitRow, FitterRow, WorkloadRow
from app.storage.upserts import insert_into

_STEP_LENGTH: Final = 200
_WAITS_FOR_LENGTH: Final = 300
_NO_LEASE: Final = {"lease_owner": None, "lease_token": None, "lease_expires_at": None}


def _is_held(claim: ClaimedFit) -> sa.ColumnElement[bool]:
    # The token fences off a fitter that wakes up after another has taken over its fit.
    return sa.and_(
        FitRow.id == claim.fit.fit_id,
        FitRow.state == FitState.RUNNING,
        FitRow.lease_token == claim.lease_token,
    )


def _ended(state: FitState, now: datetime) -> dict[str, Any]:
    return {"state": state.value, "ended_at": now, **_NO_LEASE}


class LeaseStore:
    """Claims fits and writes what their fitters report, in one session.

    Once a lease has gone to another fitter, the former one's reports are ignored and return False.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def clock(self) -> datetime | None:
        """Return the database server's time; None for SQLite, which has none of its own."""
        if is_sqlite(self._session):
            return None
        moment: datetime = self._session.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return moment

    def has_claimable(self, now: datetime) -> bool:
        """Return whether a claim could find a fit: a cheap query for frequent polling."""
        claimable = sa.or_(FitRow.state == FitState.QUEUED, is_lapsed(FitRow, now))
        return self._session.execute(sa.select(sa.exists().where(claimable))).scalar_one()

    def claim_next(self, owner: str, *, lease_s: float, now: datetime) -> ClaimedFit | None:
        """Claim the oldest fit that is queued or whose fitter fell silent; None without one.

        Those that `end_lapsed` would end are not to be claimed.
        """
        token = uuid4().hex
        waiting = aliased(FitRow)
        oldest = (
            sa.select(waiting.id)
            .where(sa.or_(waiting.state == FitState.QUEUED, is_lapsed(waiting, now)))
            .order_by(waiting.requested_at, waiting.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        claimed = self._update(
            FitRow.id == oldest.scalar_subquery(),
            state=FitState.RUNNING.value,
            attempts=FitRow.attempts + 1,
            started_at=sa.func.coalesce(FitRow.started_at, now),
            progress=0.0,
            step="starting",
            lease_owner=owner,
            lease_token=token,
            lease_expires_at=now + timedelta(seconds=lease_s),
        )
        return self._claimed(claimed[0], token) if claimed else None

    def _claimed(self, fit_id: str, token: str) -> ClaimedFit:
        row, project_id, slug = self._session.execute(
            sa.select(FitRow, WorkloadRow.project_id, WorkloadRow.slug)
            .join(WorkloadRow, WorkloadRow.id == FitRow.workload_id)
            .where(FitRow.id == fit_id)
            .execution_options(populate_existing=True)
        ).one()
        return ClaimedFit(
            to_fit(row, slug),
            ProjectId(project_id),
            WorkloadId(row.workload_id),
            token,
            row.trace_parent,
        )

    def end_lapsed(self, now: datetime, max_attempts: int) -> list[tuple[ProjectId, Slug]]:
        """End the fits whose fitters fell silent, where no other is to take them over.

        One whose fitters fell silent `max_attempts` times fails, and one that was cancelled
        meanwhile ends as cancelled. Returns the workloads of those that failed.
        """
        is_cancelled = FitRow.cancel_requested.is_(True)
        lapsed = is_lapsed(FitRow, now)
        has_ended = sa.or_(is_cancelled, FitRow.attempts >= max_attempts)
        ending = sa.select(FitRow.id).where(lapsed, has_ended)
        # In the same order as in `FitStore.latest`, which avoids deadlocks.
        ordered = ending.order_by(FitRow.id.desc()).with_for_update(key_share=True)
        keys = self._session.scalars(ordered).all()
        if not keys:
            return []
        self._update(
            FitRow.id.in_(keys),
            is_cancelled,
            **_ended(FitState.CANCELLED, now),
            step=CANCELLED_STEP,
        )
        detail = (
            f"The fitter died or fell silent {say_count(max_attempts, 'time')} while computing this"
            " fit;"
            " its log tells why."
        )
        failed = self._update(
            FitRow.id.in_(keys),
            ~is_cancelled,
            **_ended(FitState.FAILED, now),
            problem={"code": "fitter_lost", "detail": detail},
        )
        owned = sa.select(WorkloadRow.project_id, WorkloadRow.slug).join(FitRow)
        rows = self._session.execute(owned.where(FitRow.id.in_(failed)))
        return [(ProjectId(owner), Slug(slug)) for owner, slug in rows]

    def _update(self, *conditions: sa.ColumnElement[bool], **values: Any) -> Sequence[str]:
        updated = self._session.execute(
            sa.update(FitRow)
            .where(*conditions)
            .values(**values)
            .returning(FitRow.id)
            .execution_options(synchronize_session=False)
        )
        return updated.scalars().all()

    def renew(
        self, claim: ClaimedFit, *, lease_s: float, progress: float, step: str, now: datetime
    ) -> bool:
        """Renew a lease and record the progress; False also if the fit is to be cancelled."""
        renewed = self._update(
            _is_held(claim),
            ~FitRow.cancel_requested,
            lease_expires_at=now + timedelta(seconds=lease_s),
            progress=progress,
            step=step[:_STEP_LENGTH],
        )
        return bool(renewed)

    def note_seen(self, claim: ClaimedFit, until: datetime) -> None:
        """Record that a fit has read all runs stored or included up to an instant."""
        self._update(
            _is_held(claim),
            seen_until=until,
            # Where newer runs begin in their index: SQL cannot construct identifiers.
            unseen_run_id=earliest_identifier("run", until),
        )

    def hold(self, claim: ClaimedFit) -> bool:
        """Lock the fit until the transaction ends; False also if it is to be cancelled."""
        held = self._session.execute(
            sa.select(FitRow.id).where(_is_held(claim), ~FitRow.cancel_requested).with_for_update()
        )
        return held.one_or_none() is not None

    def finish(
        self,
        claim: ClaimedFit,
        *,
        candidates: Sequence[Candidate],
        version: int,
        published: bool,
        step: str,
        now: datetime,
    ) -> bool:
        """End a fit that succeeded."""
        finished = self._update(
            _is_held(claim),
            **_ended(FitState.SUCCEEDED, now),
            progress=1.0,
            step=step[:_STEP_LENGTH],
            candidates=[candidate_document(candidate) for candidate in candidates],
            regressor_version=version,
            published=published,
        )
        return bool(finished)

    def fail(self, claim: ClaimedFit, problem: FitProblem, now: datetime) -> bool:
        """End a fit that failed."""
        document = {"code": problem.code, "detail": problem.detail}
        return bool(self._update(_is_held(claim), **_ended(FitState.FAILED, now), problem=document))

    def cancel(self, claim: ClaimedFit, now: datetime) -> bool:
        """End a fit as cancelled; False also if nobody requested that."""
        cancelled = self._update(
            _is_held(claim),
            FitRow.cancel_requested.is_(True),
            **_ended(FitState.CANCELLED, now),
            step=CANCELLED_STEP,
        )
        return bool(cancelled)

    def release(self, claim: ClaimedFit, *, is_counted: bool) -> bool:
        """Requeue a fit; False also if it is to be cancelled.

        `is_counted` is whether the attempt counts towards the limit of attempts.
        """
        released = self._update(
            _is_held(claim),
            ~FitRow.cancel_requested,
            state=FitState.QUEUED.value,
            attempts=FitRow.attempts - (0 if is_counted else 1),
            started_at=None,
            progress=0.0,
            step=None,
            **_NO_LEASE,
        )
        return bool(released)

    def fitter_seen(
        self, owner: str, *, started_at: datetime, now: datetime, waits_for: str | None = None
    ) -> None:
        """Record that a fitter is alive, and what it waits for before it can compute."""
        values = {"seen_at": now, "waits_for": waits_for and waits_for[:_WAITS_FOR_LENGTH]}
        statement = insert_into(self._session, FitterRow).values(
            id=owner, started_at=started_at, **values
        )
        self._session.execute(
            statement.on_conflict_do_update(index_elements=[FitterRow.id], set_=values)
        )

    def fitter_gone(self, owner: str) -> None:
        """Forget a fitter that stops."""
        self._session.execute(sa.delete(FitterRow).where(FitterRow.id == owner))

    def purge_fitters(self, before: datetime) -> None:
        """Forget the fitters last heard of before an instant, but for those just heard of again."""
        silent = sa.select(FitterRow.id).where(FitterRow.seen_at < before)
        ours = silent.with_for_update(skip_locked=True)
        self._session.execute(sa.delete(FitterRow).where(FitterRow.id.in_(ours)))
