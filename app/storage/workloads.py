"""The store of workloads and their parameters' types."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.pages import Page, page_of
from app.domain.workloads import (
    ParameterDeclaration,
    ParameterType,
    Pooling,
    RefitMode,
    RefitPolicy,
    Workload,
    WorkloadDeclaration,
)
from app.storage.lists import is_one_of
from app.storage.tables import PublicationRow, WorkloadParameterRow, WorkloadRow
from app.storage.upserts import insert_into

_MAX_LENGTH_DIFFERENCE: Final = 4
_PREFIX_LENGTH: Final = 3
_MAX_COMPARED: Final = 32
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
        workloads = self._read(
            sa.and_(WorkloadRow.project_id == project_id, WorkloadRow.slug == slug)
        )
        return workloads[0] if workloads else None

    def pooling_of(self, workload_id: WorkloadId) -> Pooling:
        """Return which sources the priors of a workload's regressor are learned from."""
        pooling = self._session.execute(
            sa.select(WorkloadRow.pooling).where(WorkloadRow.id == workload_id)
        ).scalar_one_or_none()
        return Pooling.OFF if pooling is None else Pooling(pooling)

    def find_many(self, project_id: ProjectId, slugs: Iterable[Slug]) -> dict[Slug, Workload]:
        """Return those of the named workloads that exist."""
        named = is_one_of(self._session, WorkloadRow.slug, set(slugs))
        workloads = self._read(sa.and_(WorkloadRow.project_id == project_id, named))
        return {workload.slug: workload for workload in workloads}

    def slugs_like(self, project_id: ProjectId, slug: Slug) -> list[Slug]:
        """Return names of similar length, few enough to compare them all.

        Those with the same beginning come first, the newest before the others.
        """
        length = sa.func.length(WorkloadRow.slug)
        has_same_prefix = WorkloadRow.slug.startswith(slug[:_PREFIX_LENGTH], autoescape=True)
        rows = self._session.execute(
            sa.select(WorkloadRow.slug)
            .where(
                WorkloadRow.project_id == project_id,
                length.between(
                    len(slug) - _MAX_LENGTH_DIFFERENCE, len(slug) + _MAX_LENGTH_DIFFERENCE
                ),
            )
            .order_by(sa.case((has_same_prefix, 0), else_=1), WorkloadRow.id.desc())
            .limit(_MAX_COMPARED)
        )
        return [Slug(name) for name in rows.scalars()]

    def claim(self, project_id: ProjectId, slugs: Iterable[Slug], now: datetime) -> set[Slug]:
        """Create those of the workloads that are missing, and lock all until the transaction ends.

        This serialises uploads to one workload, so that an external id or the first use of a
        parameter is never decided twice. Returns the workloads that were created.
        """
        named = sorted(set(slugs))
        created: set[Slug] | None = None
        # An existing workload may be removed before it is locked. It is then created anew without
        # holding other locks, since whoever creates the same one may wait for them.
        while created is None:
            with self._session.begin_nested() as attempt:
                created = self._try_to_claim(project_id, named, now)
                if created is None:
                    attempt.rollback()
        return created

    def _try_to_claim(
        self, project_id: ProjectId, named: Sequence[Slug], now: datetime
    ) -> set[Slug] | None:
        """Return the workloads that were created, None if one of them was removed meanwhile."""
        existing = self.find_many(project_id, named)
        missing = [slug for slug in named if slug not in existing]
        created = self._create(project_id, missing, now) if missing else set()
        return created if self._lock(project_id, named) == len(named) else None

    def lock(self, project_id: ProjectId, *slugs: Slug) -> None:
        """Wait for the uploads to workloads, and block others until the transaction ends."""
        self._lock(project_id, slugs)

    def hold(self, workload_ids: Iterable[WorkloadId]) -> set[WorkloadId]:
        """Keep the workloads from being removed until the transaction ends; return existing ones.

        Uploads to them continue meanwhile. Without this, what references a workload that was found
        before but removed since could not be stored.
        """
        named = is_one_of(self._session, WorkloadRow.id, workload_ids)
        existing = sa.select(WorkloadRow.id).where(named)
        held = self._session.scalars(existing.with_for_update(key_share=True, read=True))
        return {WorkloadId(key) for key in held}

    def _lock(self, project_id: ProjectId, named: Sequence[Slug]) -> int:
        """Lock the workloads until the transaction ends; return how many there are."""
        query = (
            sa.select(WorkloadRow.id)
            .where(
                WorkloadRow.project_id == project_id,
                is_one_of(self._session, WorkloadRow.slug, named),
            )
            .order_by(WorkloadRow.slug)
        )
        # An SQLite transaction locks the whole database; SQLite has no row locks.
        return len(self._session.execute(query.with_for_update(key_share=True)).all())

    def _create(self, project_id: ProjectId, slugs: Sequence[Slug], now: datetime) -> set[Slug]:
        """Create workloads in the given order, except for existing ones; return those created."""
        values = {
            "project_id": project_id,
            "description": "",
            "currency": "USD",
            "labels": {},
            "refit_mode": RefitMode.MANUAL,
            "refit_min_new_runs": 1,
            "pooling": Pooling.PROJECT,
            "created_at": now,
            "updated_at": now,
        }
        statement = insert_into(self._session, WorkloadRow).on_conflict_do_nothing()
        inserted = self._session.scalars(
            statement.returning(WorkloadRow.slug), [{**values, "slug": slug} for slug in slugs]
        )
        return set(map(Slug, inserted))

    def replace_declaration(
        self, workload_id: WorkloadId, declaration: WorkloadDeclaration, now: datetime
    ) -> None:
        """Replace what a user declared about a workload, except its parameters."""
        policy = declaration.refit_policy
        self._session.execute(
            sa.update(WorkloadRow)
            .where(WorkloadRow.id == workload_id)
            .values(
                description=declaration.description,
                dataset_unit=declaration.dataset_unit,
                currency=declaration.currency,
                labels=dict(declaration.labels),
                refit_mode=policy.mode,
                refit_min_new_runs=policy.min_new_runs,
                refit_max_age_s=policy.max_age_s,
                pooling=declaration.pooling,
                updated_at=now,
            )
        )

    def put_parameters(self, parameters: Mapping[WorkloadId, _Parameters]) -> None:
        """Add parameters of workloads, or give those that exist their declared type and unit."""
        statement = insert_into(self._session, WorkloadParameterRow)
        upsert = statement.on_conflict_do_update(
            index_elements=["workload_id", "name"],
            set_={"type": statement.excluded.type, "unit": statement.excluded.unit},
        )
        rows = [
            {"workload_id": workload_id, "name": name, "type": value.type, "unit": value.unit}
            for workload_id, declared in parameters.items()
            for name, value in declared.items()
        ]
        if rows:
            self._session.execute(upsert, rows)

    def remove_parameters(self, workload_id: WorkloadId, names: Iterable[str]) -> None:
        """Forget parameters that no run uses."""
        self._session.execute(
            sa.delete(WorkloadParameterRow).where(
                WorkloadParameterRow.workload_id == workload_id,
                WorkloadParameterRow.name.in_(list(names)),
            )
        )

    def page(
        self, project_id: ProjectId, *, limit: int, before: int | None = None
    ) -> Page[Workload]:
        """Return a project's workloads, the newest first, starting after the key `before`."""
        condition = WorkloadRow.project_id == project_id
        if before is not None:
            condition = sa.and_(condition, WorkloadRow.id < before)
        workloads = self._read(condition, limit=limit + 1)
        return page_of(workloads, limit, key=lambda workload: workload.workload_id)

    def delete(self, workload_id: WorkloadId) -> None:
        """Remove a workload with its runs, fits, regressors and forecasts."""
        self._session.execute(sa.delete(WorkloadRow).where(WorkloadRow.id == workload_id))

    def _read(self, condition: sa.ColumnElement[bool], limit: int | None = None) -> list[Workload]:
        # Not joined: a join with a page reads the versions of all workloads.
        published = sa.select(PublicationRow.version).where(
            PublicationRow.workload_id == WorkloadRow.id
        )
        rows = self._session.execute(
            sa.select(WorkloadRow, published.scalar_subquery())
            .where(condition)
            .order_by(WorkloadRow.id.desc())
            .limit(limit)
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
            .where(is_one_of(self._session, WorkloadParameterRow.workload_id, workload_ids))
            .order_by(WorkloadParameterRow.name)
        )
        for workload_id, name, kind, unit in rows:
            declared[workload_id][name] = ParameterDeclaration(ParameterType(kind), unit)
        return dict(declared)
