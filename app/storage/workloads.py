"""The store of workloads and their parameters' types."""

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.workloads import (
    ParameterDeclaration,
    ParameterType,
    Pooling,
    RefitMode,
    RefitPolicy,
    Workload,
    WorkloadDeclaration,
)
from app.storage.tables import PublicationRow, WorkloadParameterRow, WorkloadRow

_Parameters = Mapping[str, ParameterDeclaration]


def _to_workload(row: WorkloadRow, version: int | None, parameters: _Parameters) -> Workload:
    return Workload(
        workload_id=WorkloadId(row.id),
        slug=Slug(row.slug),
        declaration=WorkloadDeclaration(
            description=row.description,
            dataset_unit=row.dataset_unit,
            parameters=parameters,
            currency=row.currency,
            labels=row.labels,
            refit_policy=RefitPolicy(
                RefitMode(row.refit_mode), row.refit_min_new_runs, row.refit_max_age_s
            ),
            pooling=Pooling(row.pooling),
        ),
        published_version=version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


class WorkloadStore:
    """Reads and writes workloads and their parameters' types in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, project_id: ProjectId, slug: Slug) -> Workload | None:
        """Return a workload of a project with its parameters and published version."""
        found = self._read(sa.and_(WorkloadRow.project_id == project_id, WorkloadRow.slug == slug))
        return found[0] if found else None

    def find_many(self, project_id: ProjectId, slugs: Iterable[Slug]) -> dict[Slug, Workload]:
        """Return those of the named workloads that exist."""
        named = sorted(set(slugs))
        found = self._read(
            sa.and_(WorkloadRow.project_id == project_id, WorkloadRow.slug.in_(named))
        )
        return {workload.slug: workload for workload in found}

    def _read(self, condition: sa.ColumnElement[bool]) -> list[Workload]:
        rows = self._session.execute(
            sa.select(WorkloadRow, PublicationRow.version)
            .outerjoin(PublicationRow, PublicationRow.workload_id == WorkloadRow.id)
            .where(condition)
            .order_by(WorkloadRow.id.desc())
            .execution_options(populate_existing=True)
        ).all()
        parameters = self._parameters([row.id for row, _ in rows])
        return [_to_workload(row, version, parameters[row.id]) for row, version in rows]

    def _parameters(self, workload_ids: Sequence[int]) -> dict[int, _Parameters]:
        declared: dict[int, dict[str, ParameterDeclaration]] = {key: {} for key in workload_ids}
        rows = self._session.execute(
            sa.select(
                WorkloadParameterRow.workload_id,
                WorkloadParameterRow.name,
                WorkloadParameterRow.type,
                WorkloadParameterRow.unit,
            )
            .where(WorkloadParameterRow.workload_id.in_(workload_ids))
            .order_by(WorkloadParameterRow.name)
        )
        for workload_id, name, kind, unit in rows:
            declared[workload_id][name] = ParameterDeclaration(ParameterType(kind), unit)
        return dict(declared)
