"""The store of what workloads contribute to the priors of others."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from app.domain.identifiers import Slug, WorkloadId
from app.domain.runs import RunStatus
from app.storage.count_tables import RunCountRow
from app.storage.regressors import IS_PUBLISHED
from app.storage.tables import (
    Json,
    PublicationRow,
    RegressorRow,
    WorkloadParameterRow,
    WorkloadRow,
)

FEW_RUNS: Final = 12
"""A workload with fewer successful runs tells others little."""

MANY_RUNS: Final = 150
"""More successful runs than this make no summary better (`models.pooling.MAX_SUMMARISED`)."""


class SummaryStore:
    """Reads the summaries of published versions; versions older than summaries have none."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of_others(self, workload_id: WorkloadId, *, limit: int) -> list[tuple[Slug, Json]]:
        """Return the summaries of other workloads of the same project, one each, by name.

        Of more than `limit` workloads, those with `FEW_RUNS` successful runs or more take
        precedence; among these, those that share the most parameters with the workload, then those
        with the most runs (more than `MANY_RUNS` count as so many), then the last published.
        """
        chosen = self._session.scalars(_ranked(workload_id).limit(limit)).all()
        rows = self._session.execute(
            sa.select(WorkloadRow.slug, RegressorRow.summary)
            .join(PublicationRow, PublicationRow.workload_id == WorkloadRow.id)
            .join(RegressorRow, IS_PUBLISHED)
            .where(WorkloadRow.id.in_(chosen))
            .order_by(WorkloadRow.slug)
        )
        # A version without a summary may have been published since.
        return [(Slug(slug), summary) for slug, summary in rows if summary is not None]


def _ranked(workload_id: WorkloadId) -> sa.Select[int]:
    """Select the other workloads of the project that have a summary, the most telling first."""
    target = aliased(WorkloadRow)
    project = sa.select(target.project_id).where(target.id == workload_id).scalar_subquery()
    shared = _shared_parameters(workload_id)
    succeeded = RunCountRow.by_status[RunStatus.SUCCEEDED.value].as_integer()
    n_runs = sa.func.coalesce(succeeded, 0)
    return (
        sa.select(WorkloadRow.id)
        .join(PublicationRow, PublicationRow.workload_id == WorkloadRow.id)
        .join(RegressorRow, IS_PUBLISHED)
        .outerjoin(RunCountRow, RunCountRow.workload_id == WorkloadRow.id)
        .outerjoin(shared, shared.c.workload_id == WorkloadRow.id)
        .where(
            WorkloadRow.project_id == project,
            WorkloadRow.id != workload_id,
            RegressorRow.summary.is_not(None),
        )
        .order_by(
            sa.case((n_runs >= FEW_RUNS, 0), else_=1),
            sa.func.coalesce(shared.c.number, 0).desc(),
            sa.case((n_runs > MANY_RUNS, MANY_RUNS), else_=n_runs).desc(),
            PublicationRow.published_at.desc(),
            WorkloadRow.id,
        )
    )


def _shared_parameters(workload_id: WorkloadId) -> sa.Subquery:
    """Count, by workload, the parameters that it shares with the given one."""
    own = aliased(WorkloadParameterRow)
    return (
        sa.select(WorkloadParameterRow.workload_id, sa.func.count().label("number"))
        .join(own, own.name == WorkloadParameterRow.name)
        .where(own.workload_id == workload_id)
        .group_by(WorkloadParameterRow.workload_id)
        .subquery()
    )
