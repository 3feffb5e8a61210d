"""Counts of runs are those of the runs, whoever stores and removes them, on two connections too."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Barrier

import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.identifiers import Slug
from app.domain.quotas import Limit, Quota
from app.domain.runs import RunStatus
from app.domain.workloads import WorkloadDeclaration
from app.services.uploads.terms import UploadFormat, UploadOptions
from app.services.wiring import Services
from app.storage.count_tables import RunCountRow
from app.storage.database import Database
from app.storage.migration import migrate
from app.storage.tables import RunRow
from tests.support.queries import recorded_queries

_SLUG = Slug("resnet")
_OWNER = Principal(DEFAULT_PROJECT, frozenset({Scope.ADMIN}))


def _upload(services: Services, *lines: str, dry_run: bool = False) -> None:
    content = "\n".join(["workload,duration_seconds,status", *lines]).encode()
    options = UploadOptions(dry_run=dry_run)
    services.uploads.upload(DEFAULT_PROJECT, BytesIO(content), UploadFormat.CSV, options)


def _counts(services: Services) -> dict[str, dict[str, int]]:
    page = services.workloads.list_page(DEFAULT_PROJECT)
    return {
        item.workload.slug: {status.value: number for status, number in item.runs.items()}
        for item in page.items
    }


def _remove_one(services: Services, *, oldest: bool = False) -> None:
    runs = services.runs.list_page(DEFAULT_PROJECT, _SLUG).items
    services.runs.delete(_OWNER, runs[-1 if oldest else 0].run_id)


def _is_sound(services: Services) -> bool:
    checks = {check.name: check.is_ok for check in services.diagnosis.diagnose()}
    return checks["counts"]


def _delete_behind_the_back(database: Database, *, newest: bool) -> None:
    """Remove a run as a version of the service does that does not count."""
    end = sa.func.max if newest else sa.func.min
    chosen = sa.select(end(RunRow.id)).scalar_subquery()
    with database.engine.begin() as connection:
        connection.execute(sa.delete(RunRow).where(RunRow.id == chosen))


def test_uploads_and_removals_are_counted(services: Services) -> None:
    _upload(services, "resnet,5,", "resnet,6,failed", "bert,7,")
    _upload(services, "resnet,8,", "bert,9,preempted")
    _remove_one(services)
    _remove_one(services, oldest=True)

    assert _counts(services) == {
        "resnet": {"failed": 1},
        "bert": {"succeeded": 1, "preempted": 1},
    }
    assert _is_sound(services)


def test_last_run_that_goes_leaves_nothing_counted(services: Services) -> None:
    _upload(services, "resnet,5,")
    _remove_one(services)

    assert _counts(services) == {"resnet": {}}
    assert _is_sound(services)


def test_dry_run_counts_nothing(services: Services) -> None:
    _upload(services, "resnet,5,")
    _upload(services, "resnet,6,", dry_run=True)

    assert _counts(services) == {"resnet": {"succeeded": 1}}


def test_list_of_workloads_reads_no_run_to_count_them(services: Services) -> None:
    _upload(services, "resnet,5,", "bert,6,")

    with recorded_queries(services.context.database) as queries:
        counts = _counts(services)

    assert counts == {"resnet": {"succeeded": 1}, "bert": {"succeeded": 1}}
    assert not any("GROUP BY run.workload_id" in query for query in queries)


def test_runs_stored_without_counting_are_seen_and_counted_by_the_next_upload(
    services: Services, database: Database
) -> None:
    _upload(services, "resnet,5,", "resnet,6,")
    with database.engine.begin() as connection:
        connection.execute(sa.update(RunCountRow).values(newest_run_id="run_0"))

    seen = _counts(services)
    is_sound = _is_sound(services)
    _upload(services, "resnet,7,failed")

    assert seen == {"resnet": {"succeeded": 2}}
    assert is_sound
    with database.engine.connect() as connection:
        kept = connection.execute(sa.select(RunCountRow.by_status)).scalar_one()
    assert kept == {"succeeded": 2, "failed": 1}


def test_newest_run_removed_without_counting_is_seen(
    services: Services, database: Database
) -> None:
    _upload(services, "resnet,5,", "resnet,6,")
    _delete_behind_the_back(database, newest=True)

    assert _counts(services) == {"resnet": {"succeeded": 1}}


def test_diagnosis_names_wrong_counts_and_recount_mends_them(
    services: Services, database: Database
) -> None:
    _upload(services, "resnet,5,", "resnet,6,")
    _delete_behind_the_back(database, newest=False)
    checks = {check.name: check for check in services.diagnosis.diagnose()}

    mended = services.diagnosis.recount()

    assert not checks["counts"].is_ok
    assert "resnet" in checks["counts"].detail
    assert "trainfare recount" in checks["counts"].remedy
    assert mended == (["resnet"], [])
    assert _is_sound(services)
    assert _counts(services) == {"resnet": {"succeeded": 1}}


def test_diagnosis_names_projects_whose_stored_runs_are_counted_wrongly(
    services: Services, database: Database
) -> None:
    services.projects.limit("default", {Limit.RUNS: 3, Limit.WORKLOADS: 7})
    _upload(services, "resnet,5,", "resnet,6,")
    with database.transaction() as stores:
        stores.quotas.add_runs(DEFAULT_PROJECT, 5)
    checks = {check.name: check for check in services.diagnosis.diagnose()}

    mended = services.diagnosis.recount()

    assert checks["counts"].detail == "counted wrongly: project default"
    assert mended == ([], ["default"])
    assert _is_sound(services)
    assert services.diagnosis.recount() == ([], [])
    with database.transaction() as stores:
        assert stores.quotas.get(DEFAULT_PROJECT) == Quota(runs=3, workloads=7)
        assert stores.quotas.add_runs(DEFAULT_PROJECT, 0) == 2


def test_limit_adds_up_what_is_counted_and_counts_the_rest(
    services: Services, database: Database
) -> None:
    _upload(services, "resnet,5,", "resnet,6,failed", "bert,7,")
    services.workloads.declare(DEFAULT_PROJECT, Slug("empty"), WorkloadDeclaration())

    with recorded_queries(services.context.database) as queries:
        services.projects.limit("default", {Limit.RUNS: 9})
    with database.transaction() as stores:
        added_up = stores.quotas.add_runs(DEFAULT_PROJECT, 0)
    with database.engine.begin() as connection:
        connection.execute(sa.update(RunCountRow).values(newest_run_id="run_removed"))
    services.projects.limit("default", {Limit.RUNS: 8})

    # Only the workload without runs, which has no count, is looked for among the runs.
    counts = [query for query in queries if "count(*)" in query and "FROM run" in query]
    assert len(counts) == 1
    assert added_up == 3
    with database.transaction() as stores:
        assert stores.quotas.add_runs(DEFAULT_PROJECT, 0) == 3


def test_project_is_recounted_after_its_workloads(services: Services, database: Database) -> None:
    services.projects.limit("default", {Limit.RUNS: 9})
    _upload(services, "resnet,5,", "resnet,6,", "bert,7,")
    _delete_behind_the_back(database, newest=False)

    mended = services.diagnosis.recount()

    assert mended == (["resnet"], ["default"])
    assert _is_sound(services)
    with database.transaction() as stores:
        assert stores.quotas.add_runs(DEFAULT_PROJECT, 0) == 2


def test_uploads_and_removals_at_once_lose_no_count(services: Services) -> None:
    _upload(services, *["resnet,5,"] * 8)
    runs = services.runs.list_page(DEFAULT_PROJECT, _SLUG).items
    steps: list[Callable[[], None]] = [
        *(lambda: _upload(services, "resnet,6,failed", "bert,7,") for _ in range(4)),
        *(lambda run=run: services.runs.delete(_OWNER, run.run_id) for run in runs[:4]),
    ]
    barrier = Barrier(len(steps))

    def take(step: Callable[[], None]) -> None:
        barrier.wait()
        step()

    with ThreadPoolExecutor(len(steps)) as pool:
        list(pool.map(take, steps))

    assert _counts(services) == {
        "resnet": {"succeeded": 4, "failed": 4},
        "bert": {"succeeded": 4},
    }
    assert _is_sound(services)


def test_removed_workload_takes_its_count_along(services: Services, database: Database) -> None:
    _upload(services, "resnet,5,")
    services.workloads.delete(_OWNER, _SLUG)

    with database.engine.connect() as connection:
        assert connection.execute(sa.select(RunCountRow.workload_id)).all() == []


def test_migration_counts_the_runs_that_are_there(services: Services, database: Database) -> None:
    _upload(services, "resnet,5,", "resnet,6,failed", "resnet,7,", "bert,8,")
    migrate(database, "0011")
    migrate(database)

    with database.reading() as stores:
        workloads = stores.workloads.find_many(DEFAULT_PROJECT, [_SLUG, Slug("bert")])
        known = stores.run_counts.known(each.workload_id for each in workloads.values())

    assert known[workloads[_SLUG].workload_id] == {RunStatus.SUCCEEDED: 2, RunStatus.FAILED: 1}
    assert known[workloads[Slug("bert")].workload_id] == {RunStatus.SUCCEEDED: 1}
    assert _is_sound(services)
