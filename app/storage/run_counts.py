"""The store of how many runs of each status a workload has."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.runs import RunStatus
from app.storage.count_tables import RunCountRow
from app.storage.lists import is_one_of
from app.storage.tables import RunRow, WorkloadRow
from app.storage.upserts import insert_into

StatusCounts = Mapping[RunStatus, int]


class RunCountStore:
    """Keeps the counts in step with the runs, and counts where they are unknown.

    A count is valid as long as it names the newest run of its workload: one index look-up shows
    whether runs were stored since. Only the removal of an older run by a version of the service
    that does not count goes unnoticed, until `wrong` examines all runs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def by_status(self, workload_ids: Iterable[WorkloadId]) -> dict[WorkloadId, StatusCounts]:
        """Return how many runs of each status the workloads have, for those that have any."""
        keys = list(workload_ids)
        known = self.known(keys)
        return known | self._count([key for key in keys if key not in known])

    def known(self, workload_ids: Iterable[WorkloadId]) -> dict[WorkloadId, StatusCounts]:
        """Return the counts that are still valid."""
        query = sa.select(RunCountRow.workload_id, RunCountRow.by_status).where(
            is_one_of(self._session, RunCountRow.workload_id, workload_ids),
            RunCountRow.newest_run_id.is_not_distinct_from(_newest(RunCountRow.workload_id)),
        )
        return {WorkloadId(key): _to_counts(counts) for key, counts in self._session.execute(query)}

    def total(self, project_id: ProjectId) -> int:
        """Return how many runs a project has; only those of workloads without a count are read."""
        count_row = RunCountRow
        query = (
            sa.select(WorkloadRow.id, count_row.by_status)
            .outerjoin(
                count_row,
                sa.and_(
                    count_row.workload_id == WorkloadRow.id,
                    count_row.newest_run_id.is_not_distinct_from(_newest(WorkloadRow.id)),
                ),
            )
            .where(WorkloadRow.project_id == project_id)
        )
        runs, unknown = 0, list[int]()
        for key, counts in self._session.execute(query):
            if counts is None:
                unknown.append(key)
            else:
                runs += sum(counts.values())
        if unknown:
            of_unknown = is_one_of(self._session, RunRow.workload_id, unknown)
            runs += self._session.scalars(sa.select(sa.func.count()).where(of_unknown)).one()
        return runs

    def change(
        self,
        before: Mapping[WorkloadId, StatusCounts],
        difference: Mapping[WorkloadId, Mapping[RunStatus, int]],
    ) -> None:
        """Record the runs that this transaction stored, or removed (negative numbers).

        Parameters
        ----------
        before
            The result of `known` when the workloads were locked; the others are counted.
        difference
            The change in the number of runs of each status.
        """
        changed = self._count([key for key in difference if key not in before])
        for key, known in before.items():
            if key in difference:
                counts = Counter(known)
                counts.update(difference[key])
                changed[key] = {status: number for status, number in counts.items() if number}
        self._record({key: changed.get(key, {}) for key in sorted(difference)})

    def wrong(self) -> list[tuple[ProjectId, WorkloadId, Slug]]:
        """Return the workloads whose counts look valid but are not right; examines all runs.

        A single statement, so that it sees uploads under way with their counts or not at all.
        """
        grouped = sa.select(
            RunRow.workload_id, RunRow.status, sa.func.count().label("number")
        ).group_by(RunRow.workload_id, RunRow.status)
        counted_rows = grouped.subquery()
        query = (
            sa.select(
                WorkloadRow.project_id,
                WorkloadRow.id,
                WorkloadRow.slug,
                RunCountRow.by_status,
                counted_rows.c.status,
                counted_rows.c.number,
            )
            .join(RunCountRow, RunCountRow.workload_id == WorkloadRow.id)
            .outerjoin(counted_rows, counted_rows.c.workload_id == WorkloadRow.id)
            .where(RunCountRow.newest_run_id.is_not_distinct_from(_newest(WorkloadRow.id)))
            .order_by(WorkloadRow.id)
        )
        recorded: dict[tuple[ProjectId, WorkloadId, Slug], Mapping[str, int]] = {}
        counted: dict[tuple[ProjectId, WorkloadId, Slug], dict[str, int]] = {}
        for row in self._session.execute(query):
            key = ProjectId(row.project_id), WorkloadId(row.id), Slug(row.slug)
            recorded[key] = row.by_status
            counts = counted.setdefault(key, {})
            if row.status is not None:
                counts[row.status] = row.number
        return [key for key, counts in counted.items() if counts != recorded[key]]

    def recount(self, workload_id: WorkloadId) -> None:
        """Count the runs of a locked workload, whatever was recorded before."""
        self._record({workload_id: self._count([workload_id]).get(workload_id, {})})

    def _count(self, workload_ids: list[WorkloadId]) -> dict[WorkloadId, StatusCounts]:
        if not workload_ids:
            return {}
        rows = self._session.execute(
            sa.select(RunRow.workload_id, RunRow.status, sa.func.count())
            .where(is_one_of(self._session, RunRow.workload_id, workload_ids))
            .group_by(RunRow.workload_id, RunRow.status)
        )
        counts: dict[WorkloadId, dict[RunStatus, int]] = {}
        for key, status, number in rows:
            counts.setdefault(WorkloadId(key), {})[RunStatus(status)] = number
        return dict(counts)

    def _record(self, counts: Mapping[WorkloadId, StatusCounts]) -> None:
        if not counts:
            return
        newest = sa.select(WorkloadRow.id, _newest(WorkloadRow.id)).where(
            is_one_of(self._session, WorkloadRow.id, counts)
        )
        rows = [
            {
                "workload_id": key,
                "newest_run_id": run_id,
                "by_status": {
                    status.value: number for status, number in counts[WorkloadId(key)].items()
                },
            }
            for key, run_id in sorted(self._session.execute(newest).all())
        ]
        statement = insert_into(self._session, RunCountRow)
        values = {name: statement.excluded[name] for name in ("newest_run_id", "by_status")}
        self._session.execute(
            statement.on_conflict_do_update(index_elements=[RunCountRow.workload_id], set_=values),
            rows,
        )


def _newest(workload_id: sa.orm.InstrumentedAttribute[int]) -> Any:
    """Return the id of a workload's newest run, NULL without one; found at the end of an index."""
    newest = sa.select(sa.func.max(RunRow.id)).where(RunRow.workload_id == workload_id)
    return newest.scalar_subquery()


def _to_counts(document: Mapping[str, int]) -> dict[RunStatus, int]:
    return {RunStatus(status): number for status, number in document.items()}
