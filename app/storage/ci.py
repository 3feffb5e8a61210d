"""The store of CI reports and acknowledged baselines."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.ci import Acknowledgement, Baseline, StoredReport
from app.domain.identifiers import CiReportId, ProjectId, Slug, WorkloadId
from app.domain.pages import Page
from app.storage.dialects import is_sqlite
from app.storage.pages import newest_first
from app.storage.tables import BaselineRow, CiReportRow


class CiStore:
    """Reads and writes CI reports in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, project_id: ProjectId, report: StoredReport) -> None:
        """Store a new report."""
        self._session.add(
            CiReportRow(
                id=report.report_id,
                project_id=project_id,
                created_at=report.created_at,
                document=dict(report.document),
            )
        )

    def get(
        self, project_id: ProjectId, report_id: CiReportId, *, lock: bool = False
    ) -> StoredReport | None:
        """Return a report of a project; `lock` prevents changes until the transaction ends."""
        query = sa.select(CiReportRow).where(
            CiReportRow.project_id == project_id, CiReportRow.id == report_id
        )
        # What was read before waiting for the lock may be outdated.
        locked = query.with_for_update().execution_options(populate_existing=True)
        row = self._session.scalar(locked if lock else query)
        return None if row is None else _to_report(row)

    def page(
        self, project_id: ProjectId, *, limit: int, before: str | None = None
    ) -> Page[StoredReport]:
        """Return a project's reports, the newest first, starting after the key `before`."""
        query = sa.select(CiReportRow).where(CiReportRow.project_id == project_id)
        return newest_first(
            self._session, query, CiReportRow.id, _to_report, limit=limit, before=before
        )

    def lock_of_workload(
        self, project_id: ProjectId, slug: Slug, *, after: CiReportId, limit: int
    ) -> list[StoredReport]:
        """Return the next reports with runs of a workload, locked until the transaction ends.

        They are those beyond `after`, locked in the order of their identifiers.
        """
        query = (
            sa.select(CiReportRow)
            .where(
                CiReportRow.project_id == project_id,
                CiReportRow.id > after,
                self._has_runs_of(slug),
            )
            .order_by(CiReportRow.id)
            .limit(limit)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        return [_to_report(row) for row in self._session.scalars(query)]

    def _has_runs_of(self, slug: Slug) -> sa.ColumnElement[bool]:
        if is_sqlite(self._session):
            run = sa.func.json_each(CiReportRow.document, "$.runs").table_valued("value")
            workload = sa.func.json_extract(run.c.value, "$.workload")
            return sa.exists(sa.select(1).select_from(run).where(workload == slug))
        # Imported where it is used: processes on SQLite do not need it.
        from sqlalchemy.dialects.postgresql import JSONB  # noqa: PLC0415

        wanted = {"runs": [{"workload": slug}]}
        return sa.type_coerce(CiReportRow.document, JSONB).contains(wanted)

    def rewrite(self, report_id: CiReportId, document: Mapping[str, Any]) -> None:
        """Replace a report's document."""
        self._change(CiReportRow.id == report_id, document=dict(document))

    def remove(self, report_ids: Sequence[CiReportId]) -> None:
        """Remove reports; their runs stay."""
        self._session.execute(sa.delete(CiReportRow).where(CiReportRow.id.in_(report_ids)))

    def remove_old(self, before: datetime, project_id: ProjectId | None, *, limit: int) -> int:
        """Remove up to `limit` reports made before an instant; return how many.

        Parameters
        ----------
        before
            Later ones are kept.
        project_id
            Restricts the removal to one project; None: all projects.
        limit
            The most that are removed.
        """
        first = (
            sa.select(CiReportRow.id)
            .where(*_old(before, project_id))
            .order_by(CiReportRow.id)
            .limit(limit)
            .with_for_update()
        )
        keys = [CiReportId(key) for key in self._session.scalars(first)]
        self.remove(keys)
        return len(keys)

    def count_old(self, before: datetime, project_id: ProjectId | None) -> int:
        """Return how many reports were made before an instant."""
        query = sa.select(sa.func.count()).select_from(CiReportRow)
        return self._session.scalars(query.where(*_old(before, project_id))).one()

    def note_promotion(self, report_id: CiReportId, at: datetime) -> None:
        """Record that a report's runs were included in fits; the first instant is kept."""
        self._change(CiReportRow.id == report_id, CiReportRow.promoted_at.is_(None), promoted_at=at)

    def note_acknowledgement(self, report_id: CiReportId, acknowledgement: Acknowledgement) -> None:
        """Record who accepted a report's durations as the new normal; the last one is kept."""
        self._change(
            CiReportRow.id == report_id,
            acknowledged_at=acknowledgement.at,
            acknowledged_by=acknowledgement.author,
            acknowledged_reason=acknowledgement.reason,
        )

    def _change(self, *conditions: sa.ColumnElement[bool], **values: object) -> None:
        self._session.execute(sa.update(CiReportRow).where(*conditions).values(**values))

    def add_baseline(self, baseline: Baseline) -> None:
        """Store that the durations of the runs of one instant count as normal."""
        self._session.add(
            BaselineRow(
                workload_id=baseline.workload_id,
                since=baseline.since,
                author=baseline.author,
                reason=baseline.reason,
                report_id=baseline.report_id,
                created_at=baseline.created_at,
            )
        )

    def baselines(self, workload_id: WorkloadId, *, limit: int) -> list[Baseline]:
        """Return the latest baselines of a workload, the latest one last."""
        latest = (
            sa.select(BaselineRow)
            .where(BaselineRow.workload_id == workload_id)
            .order_by(BaselineRow.id.desc())
            .limit(limit)
        )
        return [_to_baseline(row) for row in reversed(self._session.scalars(latest).all())]


def _old(before: datetime, project_id: ProjectId | None) -> list[sa.ColumnElement[bool]]:
    of_project = [] if project_id is None else [CiReportRow.project_id == project_id]
    return [CiReportRow.created_at < before, *of_project]


def _to_baseline(row: BaselineRow) -> Baseline:
    return Baseline(
        workload_id=WorkloadId(row.workload_id),
        since=row.since,
        author=row.author,
        reason=row.reason,
        report_id=CiReportId(row.report_id),
        created_at=row.created_at,
    )


def _to_report(row: CiReportRow) -> StoredReport:
    acknowledgement = None
    if row.acknowledged_at is not None:
        acknowledgement = Acknowledgement(
            row.acknowledged_by or "", row.acknowledged_reason or "", row.acknowledged_at
        )
    return StoredReport(
        CiReportId(row.id), row.created_at, row.document, acknowledgement, row.promoted_at
    )
