"""The store that removes what belongs to a workload or a project, few rows at once."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.storage.money_tables import ExchangeRateRow, GridFactorRow
from app.storage.tables import (
    ApiKeyRow,
    AuditRow,
    Base,
    CiReportRow,
    FitRow,
    ForecastRow,
    IdempotencyRow,
    PriceRow,
    ProjectRow,
    PublicationEventRow,
    RegressorRow,
    RunRow,
    WorkloadRow,
)

_LARGE_AT_ONCE: Final = 50
"""For rows of up to megabytes."""
_OF_WORKLOADS: Final[Mapping[str, type[Base]]] = {
    "runs": RunRow,
    "fits": FitRow,
    "regressors": RegressorRow,
    "forecasts": ForecastRow,
}
_OF_PROJECTS: Final[Mapping[str, type[Base]]] = {
    "workloads": WorkloadRow,
    "ci_reports": CiReportRow,
    "prices": PriceRow,
    "exchange_rates": ExchangeRateRow,
    "grid_factors": GridFactorRow,
    "stored_answers": IdempotencyRow,
    "keys": ApiKeyRow,
    "audit_entries": AuditRow,
}
OF_PROJECTS: Final = (
    "ci_reports",
    "stored_answers",
    "prices",
    "exchange_rates",
    "grid_factors",
    "audit_entries",
)
"""What of a project may be many rows, besides its workloads; in the order of removal."""


class RemovalStore:
    """Counts and removes what belongs to a workload or a project, in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def count(self, project_id: ProjectId) -> dict[str, int]:
        """Return how much of each kind belongs to a project."""
        own = sa.select(WorkloadRow.id).where(WorkloadRow.project_id == project_id)
        columns = {name: _column(row, "project_id") for name, row in _OF_PROJECTS.items()}
        conditions = {name: column == project_id for name, column in columns.items()}
        for name, row in _OF_WORKLOADS.items():
            conditions[name] = _column(row, "workload_id").in_(own)
        counts = {}
        for name, condition in conditions.items():
            query = sa.select(sa.func.count()).where(condition)
            counts[name] = self._session.execute(query).scalar_one()
        return counts

    def next_workload(
        self, project_id: ProjectId, after: WorkloadId
    ) -> tuple[WorkloadId, Slug] | None:
        """Return the workload of a project that follows another, None after the last."""
        found = self._session.execute(
            sa.select(WorkloadRow.id, WorkloadRow.slug)
            .where(WorkloadRow.project_id == project_id, WorkloadRow.id > after)
            .order_by(WorkloadRow.id)
            .limit(1)
        ).one_or_none()
        return None if found is None else (WorkloadId(found.id), Slug(found.slug))

    def remove_runs(self, workload_id: WorkloadId, limit: int) -> int:
        """Remove up to `limit` runs of a locked workload, the newest first; return how many.

        The count of runs names the newest: it is invalid from the first removal on.
        """
        return self._remove(RunRow, RunRow.workload_id == workload_id, limit)

    def remove_learned(self, workload_id: WorkloadId, limit: int) -> int:
        """Remove up to `limit` forecasts, publications, regressors or fits of a locked workload.

        Returns how many. Publications go before regressors: with each regressor, the database would
        search all publications of the workload for those of its version.
        """
        for row in (ForecastRow, PublicationEventRow, RegressorRow, FitRow):
            at_once = min(limit, _LARGE_AT_ONCE) if row is RegressorRow else limit
            removed = self._remove(row, _column(row, "workload_id") == workload_id, at_once)
            if removed:
                return removed
        return 0

    def is_beyond(self, workload_id: WorkloadId, limit: int) -> bool:
        """Whether a workload has more of a kind than one removal should take.

        Reads `limit` entries of an index at the most, however many there are.
        """
        limits = dict.fromkeys((RunRow, ForecastRow, FitRow), limit)
        limits[RegressorRow] = min(limit, _LARGE_AT_ONCE)
        queries = (
            sa.select(sa.literal(1))
            .where(_column(row, "workload_id") == workload_id)
            .offset(at_once)
            .limit(1)
            for row, at_once in limits.items()
        )
        return any(self._session.execute(query).first() for query in queries)

    def remove_own(self, kind: str, project_id: ProjectId, limit: int) -> int:
        """Remove up to `limit` of a kind of `OF_PROJECTS`; return how many."""
        row = _OF_PROJECTS[kind]
        at_once = min(limit, _LARGE_AT_ONCE) if row is IdempotencyRow else limit
        return self._remove(row, _column(row, "project_id") == project_id, at_once)

    def remove_keys(self, project_id: ProjectId) -> None:
        """Remove the keys of a project."""
        self._session.execute(sa.delete(ApiKeyRow).where(ApiKeyRow.project_id == project_id))

    def remove_project(self, project_id: ProjectId) -> None:
        """Remove a project with what still belongs to it."""
        self._session.execute(sa.delete(ProjectRow).where(ProjectRow.id == project_id))
        # Afterwards: whoever changed something of the project at the same time has ended by now.
        self._session.execute(sa.delete(AuditRow).where(AuditRow.project_id == project_id))

    def _remove(self, row: type[Base], condition: sa.ColumnElement[bool], limit: int) -> int:
        keys = sa.inspect(row).primary_key
        newest = [key.desc() for key in keys]
        some = sa.select(*keys).where(condition).order_by(*newest).limit(limit)
        removed = sa.delete(row).where(sa.tuple_(*keys).in_(some)).returning(keys[0])
        return len(self._session.execute(removed).all())


def _column(row: type[Base], name: str) -> sa.ColumnElement[Any]:
    return row.__table__.c[name]
