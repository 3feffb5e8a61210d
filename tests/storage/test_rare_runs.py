"""Lists of runs that few others are like do not read the others."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import RunId, Slug, new_identifiers
from app.domain.runs import NewRuns, RunContent, RunFilter, RunStatus
from app.domain.workloads import Workload
from app.storage.database import Database

_NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
_DAY = timedelta(days=1)
_SUCCEEDED, _FAILED = RunStatus.SUCCEEDED, RunStatus.FAILED
_OUT_OF_MEMORY = RunStatus.OUT_OF_MEMORY


def _store(database: Database, *statuses: str) -> Workload:
    """Store one run of each status, in this order, all at the same instant."""
    count = len(statuses)
    with database.transaction() as stores:
        stores.workloads.claim(DEFAULT_PROJECT, [Slug("a")], _NOW)
        workload = stores.workloads.get(DEFAULT_PROJECT, Slug("a"))
        assert workload is not None
        content = RunContent(
            status=list(statuses), duration_seconds=[1.5] * count, workers=[2] * count
        )
        run_ids = [RunId(key) for key in new_identifiers("run", count, now=_NOW)]
        runs = NewRuns(
            run_id=run_ids,
            workload_id=[workload.workload_id] * count,
            external_id=None,
            content_sha256=["0" * 64] * count,
            content=content,
            created_at=_NOW,
        )
        with stores.runs.adding() as add:
            add(runs)
    return workload


def _exclude(database: Database, run_id: RunId) -> None:
    with database.transaction() as stores:
        stores.runs.update(run_id, excluded=True, reason=None, labels={})


def _listed(database: Database, workload: Workload, wanted: RunFilter) -> list[RunStatus]:
    with database.reading() as stores:
        return [run.status for run in stores.runs.page(workload, wanted, limit=10).items]


def test_filters_find_unusable_runs_whatever_makes_them_so(database: Database) -> None:
    workload = _store(database, _SUCCEEDED, _FAILED, _OUT_OF_MEMORY, _SUCCEEDED, _FAILED)
    with database.reading() as stores:
        newest = stores.runs.page(workload, RunFilter(), limit=2).items
    for run in newest:
        _exclude(database, run.run_id)

    def listed(**wanted: Any) -> list[RunStatus]:
        return _listed(database, workload, RunFilter(**wanted))

    assert listed(status=_FAILED) == [_FAILED, _FAILED]
    assert listed(status=_FAILED, excluded=False) == [_FAILED]
    assert listed(status=_OUT_OF_MEMORY) == [_OUT_OF_MEMORY]
    assert listed(excluded=True) == [_FAILED, _SUCCEEDED]
    assert listed(status=_SUCCEEDED, excluded=True) == [_SUCCEEDED]
    assert listed(status=_SUCCEEDED) == [_SUCCEEDED, _SUCCEEDED]
    assert listed(excluded=False) == [_OUT_OF_MEMORY, _FAILED, _SUCCEEDED]


def test_runs_out_of_memory_are_those_among_the_newest(database: Database) -> None:
    workload = _store(
        database, _OUT_OF_MEMORY, _SUCCEEDED, _OUT_OF_MEMORY, _OUT_OF_MEMORY, _SUCCEEDED
    )
    with database.reading() as stores:
        runs = stores.runs.page(workload, RunFilter(), limit=10).items
    _exclude(database, runs[1].run_id)

    def found(among: int, since: datetime | None = None) -> int:
        with database.reading() as stores:
            found = stores.runs.out_of_memory(workload.workload_id, since, among=among)
        return len(found.duration_seconds)

    assert [found(among) for among in (1, 2, 3, 4, 5, 6)] == [0, 0, 1, 1, 2, 2]
    assert found(6, _NOW) == 2
    assert found(6, _NOW + _DAY) == 0


@pytest.mark.parametrize(
    "wanted",
    [
        RunFilter(status=_FAILED),
        RunFilter(status=_OUT_OF_MEMORY, excluded=False),
        RunFilter(excluded=True),
    ],
)
def test_unusable_runs_have_an_index_of_their_own(
    database: Database, plans: Sequence[str], wanted: RunFilter
) -> None:
    workload = _store(database, _SUCCEEDED, _FAILED)

    _listed(database, workload, wanted)

    assert [plan for plan in plans if "ix_run_unusable" in plan]


def test_runs_out_of_memory_are_found_without_reading_the_others(
    database: Database, plans: Sequence[str]
) -> None:
    workload = _store(database, _SUCCEEDED, _OUT_OF_MEMORY)

    with database.reading() as stores:
        stores.runs.out_of_memory(workload.workload_id, None, among=100)

    assert "SEARCH run USING INDEX ix_run_unusable (workload_id=? AND id>?)" in plans
    assert "SEARCH run USING COVERING INDEX ix_run_workload_id_id (workload_id=?)" in plans
