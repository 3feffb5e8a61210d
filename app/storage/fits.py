"""The store of fits as users see them: requested, listed, cancelled."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from app.domain.fits import AgingFit, Fit, FitRequest, FitState
from app.domain.health import Fitters
from app.domain.identifiers import (
    TIME_CHARACTERS,
    FitId,
    ProjectId,
    Slug,
    WorkloadId,
    new_identifier,
)
from app.domain.pages import Page, page_of
from app.domain.workloads import RefitMode, RefitPolicy
from app.storage.fit_rows import (
    CANCELLED_STEP,
    is_lapsed,
    request_document,
    seen_until,
    to_fit,
)
from app.storage.inclusion_tables import InclusionRow
from app.storage.lists import is_one_of
from app.storage.regressors import IS_PUBLISHED
from app.storage.run_rows import IS_USABLE
from app.storage.tables import (
    FitRow,
    FitterRow,
    PublicationRow,
    RegressorRow,
    RunRow,
    WorkloadRow,
)
from app.storage.tracing import current_trace_parent
from app.storage.upserts import insert_into

_ACTIVE: Final = (FitState.QUEUED, FitState.RUNNING)
_UNSUCCESSFUL: Final = (FitState.FAILED, FitState.CANCELLED)
_CAN_BE_RENEWED: Final = (
    sa.exists().where(RunRow.workload_id == WorkloadRow.id, *IS_USABLE),
    ~sa.exists().where(FitRow.workload_id == WorkloadRow.id, FitRow.state.in_(_ACTIVE)),
)


def _is_published(fit: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a fit's regressor is published, or was when the fit ended."""
    answering = sa.select(PublicationRow.version).where(
        PublicationRow.workload_id == fit.workload_id
    )
    return sa.or_(fit.published.is_(True), fit.regressor_version == answering.scalar_subquery())


def _newest_fit(*conditions: Callable[[Any], sa.ColumnElement[bool]]) -> sa.ScalarSelect[str]:
    """Return the id of the newest such fit of the query's workload; found by an index."""
    fit = aliased(FitRow)
    return (
        sa.select(fit.id)
        .where(fit.workload_id == WorkloadRow.id, *(condition(fit) for condition in conditions))
        .order_by(fit.id.desc())
        .limit(1)
        .correlate(WorkloadRow)
        .scalar_subquery()
    )


def _has_newer_runs(fit: Any) -> Iterator[sa.ColumnElement[bool]]:
    """Yield conditions for a run, stored or included since, that a fit has not seen."""
    until = seen_until(fit)
    # Identifiers sort by creation: the index of the workload's runs finds the new ones.
    moment = sa.func.substr(fit.id, len("fit_") + 1, TIME_CHARACTERS)
    first = sa.func.coalesce(fit.unseen_run_id, sa.literal("run_").concat(moment))
    yield sa.exists().where(
        RunRow.workload_id == fit.workload_id,
        RunRow.id >= first,
        RunRow.created_at > until,
        *IS_USABLE,
    )
    yield sa.exists().where(
        InclusionRow.workload_id == fit.workload_id,
        InclusionRow.included_at > until,
        RunRow.id == InclusionRow.run_id,
        *IS_USABLE,
    )


class FitStore:
    """Reads and writes fits in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def request(
        self, workload_id: WorkloadId, request: FitRequest, now: datetime
    ) -> tuple[Fit, bool]:
        """Return a new queued fit and True, or the workload's active fit and False."""
        while True:
            if fit_id := self._insert(workload_id, request, now):
                [fit] = self._read(FitRow.id == fit_id)
                return fit, True
            # The active fit that blocked ours may have ended since: then there is room for ours.
            if active := self.active(workload_id):
                return active, False

    def _insert(self, workload_id: WorkloadId, request: FitRequest, now: datetime) -> str | None:
        statement = insert_into(self._session, FitRow).values(
            id=new_identifier("fit", now=now),
            workload_id=workload_id,
            state=FitState.QUEUED.value,
            request=request_document(request),
            progress=0.0,
            requested_at=now,
            attempts=0,
            cancel_requested=False,
            trace_parent=current_trace_parent(),
        )
        inserted = self._session.execute(statement.on_conflict_do_nothing().returning(FitRow.id))
        return inserted.scalar_one_or_none()

    def active(self, workload_id: WorkloadId) -> Fit | None:
        """Return the workload's queued or running fit."""
        fits = self._read(FitRow.workload_id == workload_id, FitRow.state.in_(_ACTIVE))
        return fits[0] if fits else None

    def get(self, project_id: ProjectId, fit_id: FitId) -> Fit | None:
        """Return a fit of a project."""
        fits = self._read(FitRow.id == fit_id, WorkloadRow.project_id == project_id)
        return fits[0] if fits else None

    def page(self, workload_id: WorkloadId, *, limit: int, before: str | None = None) -> Page[Fit]:
        """Return fits of a workload, the newest first, starting after the key `before`."""
        conditions = [FitRow.workload_id == workload_id]
        if before is not None:
            conditions.append(FitRow.id < before)
        fits = self._read(*conditions, limit=limit + 1)
        return page_of(fits, limit, key=lambda fit: fit.fit_id)

    def latest(
        self, workload_ids: Iterable[WorkloadId], *, lock: bool = False
    ) -> dict[WorkloadId, Fit]:
        """Return the newest fit of each of the workloads that has one.

        `lock` prevents any of these from starting or ending until the transaction ends.
        """
        newest = (
            sa.select(sa.func.max(FitRow.id))
            .where(is_one_of(self._session, FitRow.workload_id, workload_ids))
            .group_by(FitRow.workload_id)
        )
        rows = self._select(FitRow.id.in_(newest), lock=lock)
        return {WorkloadId(row.workload_id): to_fit(row, slug) for row, slug in rows}

    def latest_published(self, workload_ids: Iterable[WorkloadId]) -> dict[WorkloadId, Fit]:
        """Return each workload's newest fit whose regressor answers forecasts, or did."""
        wanted = is_one_of(self._session, WorkloadRow.id, workload_ids)
        newest = sa.select(_newest_fit(_is_published)).where(wanted)
        rows = self._select(FitRow.id.in_(newest))
        return {WorkloadId(row.workload_id): to_fit(row, slug) for row, slug in rows}

    def aging_fits(self) -> list[AgingFit]:
        """Return the last published fits of workloads with newer runs and an age in their policy.

        Left out are workloads with an active fit, and those whose runs a later fit tried in vain.
        """
        published, last = aliased(FitRow), aliased(FitRow)
        query = (
            sa.select(
                WorkloadRow.project_id,
                WorkloadRow.slug,
                sa.func.coalesce(published.started_at, published.requested_at),
                WorkloadRow.refit_min_new_runs,
                WorkloadRow.refit_max_age_s,
            )
            .join(published, published.id == _newest_fit(_is_published))
            .join(last, last.id == _newest_fit())
            .where(
                WorkloadRow.refit_mode == RefitMode.AUTO,
                WorkloadRow.refit_max_age_s.is_not(None),
                last.state.not_in(_ACTIVE),
                sa.or_(*_has_newer_runs(last)),
            )
        )
        return [
            AgingFit(
                ProjectId(owner),
                Slug(slug),
                began_at,
                RefitPolicy(RefitMode.AUTO, min_new_runs, max_age_s),
            )
            for owner, slug, began_at, min_new_runs, max_age_s in self._session.execute(query)
        ]

    def _read(self, *conditions: sa.ColumnElement[bool], limit: int | None = None) -> list[Fit]:
        return [to_fit(row, slug) for row, slug in self._select(*conditions, limit=limit)]

    def _select(
        self, *conditions: sa.ColumnElement[bool], limit: int | None = None, lock: bool = False
    ) -> Sequence[sa.Row[FitRow, str]]:
        query = (
            sa.select(FitRow, WorkloadRow.slug)
            .join(WorkloadRow, WorkloadRow.id == FitRow.workload_id)
            .where(*conditions)
            .order_by(FitRow.id.desc())
            .limit(limit)
            .execution_options(populate_existing=True)
        )
        if lock:
            query = query.with_for_update(read=True, of=FitRow)
        return self._session.execute(query).all()

    def stale_workloads(
        self, before: datetime, *, project_id: ProjectId | None, after: WorkloadId, limit: int
    ) -> list[tuple[WorkloadId, ProjectId]]:
        """Return workloads of a project, or of all, that a refit would renew, by ascending id.

        These have a run that a fit may use, no active fit, and no published regressor that was
        computed at or after `before`.
        """
        workload_id = WorkloadRow.id
        query = (
            sa.select(workload_id, WorkloadRow.project_id)
            .where(
                workload_id > after,
                *_CAN_BE_RENEWED,
                ~sa.exists().where(
                    PublicationRow.workload_id == workload_id,
                    IS_PUBLISHED,
                    RegressorRow.created_at >= before,
                ),
            )
            .order_by(workload_id)
            .limit(limit)
        )
        if project_id is not None:
            query = query.where(WorkloadRow.project_id == project_id)
        return self._owned(query)

    def outdated_workloads(
        self, format_version: int, *, tried_since: datetime, limit: int
    ) -> list[tuple[WorkloadId, ProjectId]]:
        """Return workloads whose published artefact has an earlier format, by ascending id.

        These have a run that a fit may use, no active fit, and no failed or cancelled fit that was
        requested at or after `tried_since`.
        """
        query = (
            sa.select(WorkloadRow.id, WorkloadRow.project_id)
            .join(PublicationRow, PublicationRow.workload_id == WorkloadRow.id)
            .join(RegressorRow, IS_PUBLISHED)
            .where(
                RegressorRow.format_version < format_version,
                *_CAN_BE_RENEWED,
                ~sa.exists().where(
                    FitRow.workload_id == WorkloadRow.id,
                    FitRow.state.in_(_UNSUCCESSFUL),
                    FitRow.requested_at >= tried_since,
                ),
            )
            .order_by(WorkloadRow.id)
            .limit(limit)
        )
        return self._owned(query)

    def _owned(self, query: sa.Select[int, str]) -> list[tuple[WorkloadId, ProjectId]]:
        rows = self._session.execute(query)
        return [(WorkloadId(workload_id), ProjectId(owner)) for workload_id, owner in rows]

    def request_cancel(self, fit_id: FitId, now: datetime) -> bool:
        """Cancel a queued fit at once, and tell the fitter of a running one.

        Returns False for a fit that has ended.

        A single statement decides, so that a fit being claimed or released is not missed.
        """
        is_idle = sa.or_(FitRow.state == FitState.QUEUED, is_lapsed(FitRow, now))
        cancelled = self._session.execute(
            sa.update(FitRow)
            .where(FitRow.id == fit_id, FitRow.state.in_(_ACTIVE))
            .values(
                cancel_requested=True,
                state=sa.case((is_idle, FitState.CANCELLED.value), else_=FitRow.state),
                step=sa.case((is_idle, CANCELLED_STEP), else_=FitRow.step),
                ended_at=sa.case((is_idle, sa.bindparam("now", now, FitRow.ended_at.type))),
            )
            .returning(FitRow.id)
            .execution_options(synchronize_session=False)
        )
        return cancelled.one_or_none() is not None

    def queue_length(self) -> int:
        """Return how many fits wait for a fitter."""
        query = sa.select(sa.func.count()).where(FitRow.state == FitState.QUEUED)
        return self._session.execute(query).scalar_one()

    def fitters(self, since: datetime, until: datetime) -> Fitters:
        """Return the fitters last heard of between two instants.

        One last heard of in the future had a wrong clock: whether it is alive is unknown.
        """
        waits_for = FitterRow.waits_for
        query = sa.select(sa.func.count(), sa.func.count(waits_for), sa.func.max(waits_for))
        return Fitters(
            *self._session.execute(query.where(FitterRow.seen_at.between(since, until))).one()
        )
