"""The store of runs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.curves import RunsAlong
from app.domain.energy import MeasuredPower
from app.domain.identifiers import ProjectId, RunId, WorkloadId
from app.domain.pages import Page, page_of
from app.domain.runs import (
    TARGETS,
    EvidenceColumns,
    Run,
    RunColumns,
    RunFilter,
    RunStatus,
    StoredRun,
)
from app.domain.workloads import MeasuredFeatures, Workload
from app.storage.bulk import WriteRuns, writing_runs
from app.storage.curves import lie_along
from app.storage.dialects import is_sqlite
from app.storage.fit_columns import FIT_COLUMNS, to_columns, transposed
from app.storage.inclusion_tables import InclusionRow
from app.storage.lists import is_one_of, pairs_subquery, texts_subquery
from app.storage.measured import measured_features, measured_hardware, measured_power
from app.storage.pages import newest_first
from app.storage.run_conditions import (
    IS_UNUSABLE,
    conditions_of,
    made_since,
    stored_since,
    usable,
)
from app.storage.run_rows import IS_USABLE, MEASURED, to_measured_run, to_run
from app.storage.tables import RunRow, WorkloadRow
from app.storage.upserts import insert_into

_EVIDENCE_COLUMNS = (RunRow.status, RunRow.progress, RunRow.resources, RunRow.phases)
_MICROSECOND = timedelta(microseconds=1)
_PEAK_MEMORY = "peak_gpu_memory_bytes"


RunFamily = Literal["parameters", "phases", "resources", "labels"]
"""A column of values by name."""


class RunStore:
    """Reads and writes runs in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def adding(self) -> AbstractContextManager[WriteRuns]:
        """Return a context that stores blocks of new runs; the store has no other use meanwhile."""
        return writing_runs(self._session.connection())

    def find_external(
        self, external_ids: Iterable[tuple[WorkloadId, str]]
    ) -> dict[WorkloadId, dict[str, StoredRun]]:
        """Return the runs that have one of these external ids in its workload."""
        given = pairs_subquery(self._session, external_ids)
        is_given = RunRow.workload_id == given.c.number, RunRow.external_id == given.c.text
        rows = self._session.execute(
            sa.select(
                RunRow.workload_id, RunRow.external_id, RunRow.id, RunRow.content_sha256
            ).join(given, sa.and_(*is_given))
        )
        found: dict[WorkloadId, dict[str, StoredRun]] = {}
        for key, name, run_id, content in rows:
            run = StoredRun(RunId(run_id), content)
            found.setdefault(WorkloadId(key), {})[str(name)] = run
        return found

    def having_any(self, workload_ids: Iterable[WorkloadId]) -> set[WorkloadId]:
        """Return those of the workloads that have runs."""
        query = sa.select(WorkloadRow.id).where(
            is_one_of(self._session, WorkloadRow.id, workload_ids),
            sa.exists().where(RunRow.workload_id == WorkloadRow.id),
        )
        return set(map(WorkloadId, self._session.scalars(query)))

    def get(self, project_id: ProjectId, run_id: RunId, *, lock: bool = False) -> Run | None:
        """Return a run of a project; `lock` prevents changes until the transaction ends."""
        return next(iter(self.get_many(project_id, [run_id], lock=lock)), None)

    def get_many(
        self, project_id: ProjectId, run_ids: Sequence[RunId], *, lock: bool = False
    ) -> list[Run]:
        """Return those of the named runs that exist in a project, in the order they were stored.

        `lock` prevents changes to them until the transaction ends.
        """
        query = (
            sa.select(RunRow, WorkloadRow.slug)
            .join(WorkloadRow, WorkloadRow.id == RunRow.workload_id)
            .where(
                WorkloadRow.project_id == project_id,
                RunRow.id.in_(texts_subquery(self._session, run_ids)),
            )
            .order_by(RunRow.id)
        )
        if lock:
            query = query.with_for_update(of=RunRow)
        return [to_run(row, slug) for row, slug in self._session.execute(query)]

    def page(
        self,
        workload: Workload,
        wanted: RunFilter,
        *,
        limit: int,
        before: str | None = None,
    ) -> Page[Run]:
        """Return a workload's runs, the newest first, starting after the key `before`."""
        query = sa.select(RunRow).where(
            RunRow.workload_id == workload.workload_id, *conditions_of(wanted)
        )
        to_item = partial(to_run, slug=workload.slug)
        return newest_first(self._session, query, RunRow.id, to_item, limit=limit, before=before)

    def newest_measured(self, workload: Workload, wanted: RunFilter, *, limit: int) -> Page[Run]:
        """Return a workload's newest runs, the newest first, with what tells their duration.

        Phases, resources, cost, labels and what else `page` reads are left out.
        """
        newest = _measured(workload, wanted).order_by(RunRow.id.desc()).limit(limit + 1)
        page = page_of(self._session.execute(newest).all(), limit, key=lambda row: row.id)
        return Page([to_measured_run(row, workload.slug) for row in page.items], page.next_key)

    def measured_at(
        self, workload: Workload, wanted: RunFilter, instants: Collection[datetime], *, limit: int
    ) -> list[Run]:
        """Return a workload's runs that arrived at some instants, as `newest_measured` does.

        The oldest come first. They are sought among the first `limit` since each instant: only
        where the clocks of services differ, others come before them.
        """
        if not instants:
            return []
        parts = []
        for instant in instants:
            since = replace(wanted, created_after=instant - _MICROSECOND)
            first = _measured(workload, since).order_by(RunRow.id).limit(limit).subquery()
            parts.append(sa.select(first).where(first.c.created_at == instant))
        runs = [
            to_measured_run(row, workload.slug)
            for row in self._session.execute(sa.union_all(*parts))
        ]
        return sorted(runs, key=lambda run: (run.created_at, run.run_id))

    def measured_features(self, workload_id: WorkloadId) -> MeasuredFeatures:
        """Return the feature values of the runs that a fit may use."""
        return measured_features(self._session, usable(workload_id))

    def measured_hardware(
        self, workload_id: WorkloadId
    ) -> dict[tuple[str | None, str | None], float | None]:
        """Return the pairs of GPU type and instance type of the runs that a fit may use.

        Each with the most workers on one node, None where no run states its nodes.
        """
        return measured_hardware(self._session, usable(workload_id))

    def gpu_types(self, project_id: ProjectId) -> list[str]:
        """Return the GPU names that the runs of a project have, sorted."""
        query = (
            sa.select(RunRow.gpu_type)
            .join(WorkloadRow, WorkloadRow.id == RunRow.workload_id)
            .where(WorkloadRow.project_id == project_id, RunRow.gpu_type.is_not(None))
            .distinct()
        )
        return sorted(name for name in self._session.scalars(query) if name is not None)

    def names_in(
        self, family: RunFamily, workload_id: WorkloadId, *, newest: int | None = None
    ) -> list[str]:
        """Return the names used in a family by a workload's runs, or by so many newest ones."""
        column: sa.ColumnElement[Any] = getattr(RunRow, family)
        of_workload = sa.select(column.label("members")).where(RunRow.workload_id == workload_id)
        if newest is not None:
            of_workload = of_workload.order_by(RunRow.id.desc()).limit(newest)
        runs = of_workload.subquery()
        if is_sqlite(self._session):
            members = sa.func.json_each(runs.c.members).table_valued("key")
            query = sa.select(members.c.key).select_from(sa.join(runs, members, sa.true()))
        else:
            # In the list of columns: as a table, each run's names would be written to one.
            query = sa.select(sa.func.jsonb_object_keys(runs.c.members))
        named = query.where(runs.c.members.is_not(None))
        return sorted(self._session.scalars(named.distinct()))

    def update(
        self, run_id: RunId, *, excluded: bool, reason: str | None, labels: Mapping[str, str]
    ) -> None:
        """Update the mutable fields of a stored run."""
        self._session.execute(
            sa.update(RunRow)
            .where(RunRow.id == run_id)
            .values(excluded=excluded, excluded_reason=reason, labels=dict(labels) or None)
        )

    def include(self, run_ids: Sequence[RunId], now: datetime) -> None:
        """Let fits use excluded runs; from now on these are new to fits."""
        included = self._session.execute(
            sa.update(RunRow)
            .where(RunRow.id.in_(texts_subquery(self._session, run_ids)), RunRow.excluded)
            .values(excluded=False, excluded_reason=None)
            .returning(RunRow.id, RunRow.workload_id)
            .execution_options(synchronize_session=False)
        )
        rows = [
            {"run_id": run_id, "workload_id": workload_id, "included_at": now}
            for run_id, workload_id in included
        ]
        if rows:
            statement = insert_into(self._session, InclusionRow)
            upsert = statement.on_conflict_do_update(
                index_elements=[InclusionRow.run_id], set_={"included_at": now}
            )
            self._session.execute(upsert, rows)

    def last_included_at(self, workload_id: WorkloadId) -> datetime | None:
        """Return when a run of a workload was last included in fits after it was stored."""
        query = sa.select(sa.func.max(InclusionRow.included_at))
        return self._session.scalar(query.where(InclusionRow.workload_id == workload_id))

    def delete(self, run_id: RunId) -> None:
        """Remove a run."""
        self._session.execute(sa.delete(RunRow).where(RunRow.id == run_id))

    def newest_usable(
        self, workload_id: WorkloadId, since: datetime | None, *, limit: int
    ) -> RunColumns:
        """Return the newest of the runs whose durations a fit may use, the newest first.

        They succeeded, are not excluded, and were stored at or after `since`.
        """
        query = (
            sa.select(*FIT_COLUMNS)
            .where(*usable(workload_id), *stored_since(since))
            .order_by(RunRow.id.desc())
            .limit(limit)
        )
        return self._fit_columns(query)

    def newest_along(self, workload_id: WorkloadId, wanted: RunsAlong, *, limit: int) -> RunColumns:
        """Return the newest of the runs that `newest_usable` returns which lie along an axis."""
        query = (
            sa.select(*FIT_COLUMNS)
            .where(*usable(workload_id), *lie_along(self._session, wanted))
            .order_by(RunRow.id.desc())
            .limit(limit)
        )
        return self._fit_columns(query)

    def out_of_memory(
        self, workload_id: WorkloadId, since: datetime | None, *, among: int
    ) -> RunColumns:
        """Return the runs out of memory among the newest, stored at or after `since`."""
        of_workload = RunRow.workload_id == workload_id
        newest = sa.select(RunRow.id).where(of_workload).order_by(RunRow.id.desc())
        oldest = newest.offset(among - 1).limit(1).scalar_subquery()
        query = (
            sa.select(*FIT_COLUMNS)
            .where(
                of_workload,
                IS_UNUSABLE,
                RunRow.id >= sa.func.coalesce(oldest, ""),
                RunRow.status == RunStatus.OUT_OF_MEMORY,
                ~RunRow.excluded,
                *stored_since(since),
            )
            .order_by(RunRow.id)
        )
        return self._fit_columns(query)

    def _fit_columns(self, query: sa.Select[*tuple[Any, ...]]) -> RunColumns:
        return to_columns(transposed(self._session.execute(query).all(), len(FIT_COLUMNS)))

    def evidence_for_fit(self, workload_id: WorkloadId, since: datetime | None) -> EvidenceColumns:
        """Return all runs that a fit learns from, made at or after `since`."""
        query = (
            sa.select(*FIT_COLUMNS, *_EVIDENCE_COLUMNS)
            .where(
                RunRow.workload_id == workload_id,
                RunRow.status != RunStatus.FAILED,
                ~RunRow.excluded,
                *made_since(since),
            )
            .order_by(RunRow.id)
        )
        rows = self._session.execute(query).all()
        columns = transposed(rows, len(FIT_COLUMNS) + len(_EVIDENCE_COLUMNS))
        status, progress, resources, phases = columns[len(FIT_COLUMNS) :]
        peaks, samples, epochs = (
            [(values or {}).get(name) for values in resources] for name in (_PEAK_MEMORY, *TARGETS)
        )
        return EvidenceColumns(
            runs=to_columns(columns[: len(FIT_COLUMNS)]),
            status=[RunStatus(value) for value in status],
            progress=progress,
            peak_memory_bytes=peaks,
            samples_to_target=samples,
            epochs_to_target=epochs,
            phases=[values or {} for values in phases],
        )

    def measured_power(
        self, workload_id: WorkloadId
    ) -> dict[tuple[str | None, str | None], MeasuredPower]:
        """Return the power that a workload's newest usable runs measured, by GPU type."""
        return measured_power(self._session, workload_id)

    def count_usable(
        self,
        workload_id: WorkloadId,
        since: datetime | None = None,
        *,
        at_most: int | None = None,
    ) -> int:
        """Return how many runs have a duration that a fit may use; stops counting at `at_most`.

        A small bound keeps the query cheap in workloads of millions.
        """
        return self._count_newest(*usable(workload_id), *stored_since(since), at_most=at_most)

    def count_for_fit(
        self, workload_id: WorkloadId, since: datetime | None, *, at_most: int
    ) -> int:
        """Return how many durations made at or after `since` a fit finds, as `count_usable`."""
        return self._count_newest(*usable(workload_id), *made_since(since), at_most=at_most)

    def count_usable_of(self, workload_ids: Iterable[WorkloadId]) -> dict[WorkloadId, int]:
        """Return how many runs a fit may use for durations, of the workloads that have any."""
        query = (
            sa.select(RunRow.workload_id, sa.func.count())
            .where(is_one_of(self._session, RunRow.workload_id, workload_ids), *IS_USABLE)
            .group_by(RunRow.workload_id)
        )
        return {WorkloadId(key): count for key, count in self._session.execute(query)}

    def count_new(self, workload_id: WorkloadId, since: datetime | None, *, at_most: int) -> int:
        """Return how many usable runs were stored or included from an instant on.

        None is the beginning of time. Stops counting at `at_most`.
        """
        stored = self.count_usable(workload_id, since, at_most=at_most)
        if since is None or stored >= at_most:
            return stored
        included = (
            sa.select(RunRow.id)
            .join(InclusionRow, InclusionRow.run_id == RunRow.id)
            .where(
                InclusionRow.workload_id == workload_id,
                InclusionRow.included_at >= since,
                RunRow.created_at < since,
                *IS_USABLE,
            )
            .limit(at_most - stored)
        )
        return stored + self._count(included)

    def _count_newest(self, *conditions: sa.ColumnElement[bool], at_most: int | None) -> int:
        # Starts with the newest, next to which the others of the same upload lie.
        newest = sa.select(RunRow.id).where(*conditions).order_by(RunRow.id.desc())
        return self._count(newest.limit(at_most))

    def _count(self, found: sa.Select[str]) -> int:
        query = sa.select(sa.func.count()).select_from(found.subquery())
        return self._session.execute(query).scalar_one()


def _measured(workload: Workload, wanted: RunFilter) -> sa.Select[*tuple[Any, ...]]:
    of_workload = RunRow.workload_id == workload.workload_id
    return sa.select(*MEASURED).where(of_workload, *conditions_of(wanted))
