"""The store of projects' limits and of what counts towards them."""

from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.access import FIT_REQUESTED, Project
from app.domain.fits import FitReason, FitState
from app.domain.identifiers import ProjectId
from app.domain.quotas import Quota
from app.storage.rate_tables import RateWindowRow
from app.storage.run_counts import RunCountStore
from app.storage.tables import AuditRow, FitRow, ProjectRow, RunRow, WorkloadRow
from app.storage.upserts import insert_into

_OPERATORS: Final = [reason.value for reason in FitReason if reason.is_operators]
_COUNTED: Final = (
    ProjectRow.max_runs,
    ProjectRow.max_workloads,
    ProjectRow.max_fits_per_day,
    ProjectRow.max_queued_fits,
)
_COLUMNS: Final = (*_COUNTED, ProjectRow.requests_per_minute)


def _fits_since(project_id: ProjectId, since: datetime) -> list[sa.ColumnElement[bool]]:
    # In index order: no older entries are read.
    earlier = (
        sa.select(AuditRow.id)
        .where(AuditRow.project_id == project_id, AuditRow.at <= since)
        .order_by(AuditRow.id.desc())
        .limit(1)
    )
    reason = AuditRow.detail["reason"].as_string()
    return [
        AuditRow.project_id == project_id,
        AuditRow.id > sa.func.coalesce(earlier.scalar_subquery(), 0),
        AuditRow.action == FIT_REQUESTED,
        AuditRow.at > since,
        sa.or_(reason.is_(None), reason.not_in(_OPERATORS)),
    ]


class QuotaStore:
    """Reads and writes limits in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, project_id: ProjectId) -> Quota:
        """Return the limits of a project; no limits for one that does not exist."""
        row = self._session.execute(
            sa.select(*_COLUMNS).where(ProjectRow.id == project_id)
        ).one_or_none()
        return Quota() if row is None else Quota(*row)

    def list_all(self) -> list[tuple[Project, Quota]]:
        """Return all projects with their limits, by name."""
        query = sa.select(ProjectRow.id, ProjectRow.name, *_COLUMNS).order_by(ProjectRow.name)
        return [
            (Project(ProjectId(key), name), Quota(*limits))
            for key, name, *limits in self._session.execute(query)
        ]

    def put(self, project_id: ProjectId, quota: Quota) -> None:
        """Replace the limits of a project, and count its runs if they are limited from now on.

        The row is locked first: uploads with a shared lock have ended when the runs are counted.
        What is already counted by workload is added up, since further uploads wait meanwhile.
        """
        self._set(
            project_id,
            max_runs=quota.runs,
            max_workloads=quota.workloads,
            max_fits_per_day=quota.fits_per_day,
            max_queued_fits=quota.queued_fits,
            requests_per_minute=quota.requests_per_minute,
        )
        stored = None if quota.runs is None else RunCountStore(self._session).total(project_id)
        self._set(project_id, runs_stored=stored)

    def lock_for_upload(self, project_id: ProjectId) -> Quota | None:
        """Lock the limits until the transaction ends; None if nothing limits uploads or fits.

        Without a limit the lock is shared: uploads do not wait for each other, but a limit that is
        set meanwhile waits for them, so that it counts them all. Limits of fits count too: uploads
        may request fits, and with a shared lock they would wait for each other in `lock_for_fit`.
        """
        is_free = (column.is_(None) for column in _COUNTED)
        query = sa.select(ProjectRow.id).where(ProjectRow.id == project_id, *is_free)
        with self._session.begin_nested() as savepoint:
            if self._session.execute(query.with_for_update(read=True)).first():
                return None
            # PostgreSQL has locked the row even so if a limit was set while this waited. Two such
            # uploads would wait for each other below.
            savepoint.rollback()
        return self.lock(project_id)

    def lock_for_fit(self, project_id: ProjectId) -> Quota | None:
        """Lock the limits until the transaction ends; None if nothing limits fits."""
        quota = self.get(project_id)
        if quota.fits_per_day is None and quota.queued_fits is None:
            return None
        return self.lock(project_id)

    def lock(self, project_id: ProjectId) -> Quota:
        """Return the limits of a project, locked against changes until the transaction ends."""
        # FOR NO KEY UPDATE: new workloads can reference the project without waiting.
        query = sa.select(*_COLUMNS).where(ProjectRow.id == project_id)
        row = self._session.execute(query.with_for_update(key_share=True)).one_or_none()
        return Quota() if row is None else Quota(*row)

    def add_runs(self, project_id: ProjectId, count: int) -> int:
        """Change the number of stored runs, if it is kept, and return it."""
        changed = self._session.execute(
            sa.update(ProjectRow)
            .where(ProjectRow.id == project_id, ProjectRow.runs_stored.is_not(None))
            .values(runs_stored=ProjectRow.runs_stored + count)
            .returning(ProjectRow.runs_stored)
            .execution_options(synchronize_session=False)
        ).scalar_one_or_none()
        return changed or 0

    def wrong(self) -> list[Project]:
        """Return the projects whose number of stored runs is kept and wrong; examines all runs."""
        stored = (
            sa.select(sa.func.count())
            .select_from(RunRow)
            .join(WorkloadRow, WorkloadRow.id == RunRow.workload_id)
            .where(WorkloadRow.project_id == ProjectRow.id)
            .scalar_subquery()
        )
        query = sa.select(ProjectRow.id, ProjectRow.name).where(
            ProjectRow.runs_stored.is_not(None), ProjectRow.runs_stored != stored
        )
        return [Project(ProjectId(row.id), row.name) for row in self._session.execute(query)]

    def count_workloads(self, project_id: ProjectId) -> int:
        """Return how many workloads a project has."""
        query = sa.select(sa.func.count()).where(WorkloadRow.project_id == project_id)
        return self._session.execute(query).scalar_one()

    def count_fits(self, project_id: ProjectId, since: datetime) -> int:
        """Return how many fits a project requested since an instant.

        The audit log is counted, so that fits of removed workloads are included; those that an
        operator requested are not.
        """
        return self._session.scalars(
            sa.select(sa.func.count()).where(*_fits_since(project_id, since))
        ).one()

    def instant_of_fit(self, project_id: ProjectId, since: datetime, place: int) -> datetime:
        """Return when the fit at a place among those that `count_fits` counts was requested.

        Place 0 is that of the earliest.
        """
        return self._session.scalars(
            sa.select(AuditRow.at)
            .where(*_fits_since(project_id, since))
            .order_by(AuditRow.at)
            .offset(place)
            .limit(1)
        ).one()

    def count_queued(self, project_id: ProjectId) -> int:
        """Return how many fits of a project are queued."""
        query = (
            sa.select(sa.func.count())
            .select_from(FitRow)
            .join(WorkloadRow, WorkloadRow.id == FitRow.workload_id)
            .where(WorkloadRow.project_id == project_id, FitRow.state == FitState.QUEUED)
        )
        return self._session.execute(query).scalar_one()

    def take_requests(
        self, project_id: ProjectId, minute: int, *, wanted: int, limit: int
    ) -> tuple[int, int]:
        """Take up to `wanted` requests of a minute; return how many, and how many are left.

        A caller overtaken at the turn of a minute takes from the next. A minute further ahead was
        written by a clock since set back; it is reset.
        """
        fresh = insert_into(self._session, RateWindowRow).values(
            project_id=project_id, minute=minute, taken=0
        )
        window = sa.select(RateWindowRow).where(RateWindowRow.project_id == project_id)
        row: RateWindowRow | None = None
        # One that exists may go with its project; then no other can be added.
        while row is None:
            self._session.execute(fresh.on_conflict_do_nothing())
            row = self._session.scalars(window.with_for_update()).one_or_none()
        if not minute <= row.minute <= minute + 1:
            row.minute, row.taken = minute, 0
        granted = min(wanted, max(0, limit - row.taken))
        row.taken += granted
        return granted, max(0, limit - row.taken)

    def _set(self, project_id: ProjectId, **values: int | None) -> None:
        self._session.execute(
            sa.update(ProjectRow).where(ProjectRow.id == project_id).values(values)
        )
