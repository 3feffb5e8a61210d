"""A workload is removed in portions, and what processes remember of it answers for no new one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from typing_extensions import override

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.identifiers import Slug, WorkloadId
from app.services.fitting import FittingService
from app.services.wiring import Services
from app.services.workloads import WorkloadService
from app.storage.database import Database
from app.storage.stores import Stores
from app.storage.tables import Base
from tests.support.clock import FakeClock
from tests.support.kills import Killed, killed_after
from tests.support.ledger import record_forecasts
from tests.support.queries import recorded_queries
from tests.support.regressors import QUICK, fit, publish_regressor, store_runs

_QUESTION = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 2},
    "work": {"dataset_size": 1000},
}


def test_new_workload_under_a_removed_name_is_not_answered_from_memory(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services, workload="fitted")
    before = client.post("/v1/forecasts", json=_QUESTION)

    removed = client.delete("/v1/workloads/fitted")
    clock.advance(10)
    client.post("/v1/runs", json={"workload": "fitted", "duration_seconds": 9})
    unfitted = client.post("/v1/forecasts", json=_QUESTION)
    client.post("/v1/runs", json={**_QUESTION, "duration_seconds": 9999})
    fit(services, "fitted")
    clock.advance(10)
    after = client.post("/v1/forecasts", json=_QUESTION)

    assert before.is_success
    assert removed.status_code == 204
    assert unfitted.json()["code"] == "no_regressor"
    assert after.json()["regressor_version"] == 1
    assert after.json()["duration_seconds"] != before.json()["duration_seconds"]


_CALLER = Principal(DEFAULT_PROJECT, frozenset({Scope.ADMIN}), None)


def _rows_of(database: Database, workload_id: WorkloadId) -> dict[str, int]:
    """Return how many rows of each table belong to a workload."""
    tables = [table for table in Base.metadata.tables.values() if "workload_id" in table.c]
    with database.engine.connect() as connection:
        return {
            table.name: connection.scalar(
                sa.select(sa.func.count()).where(table.c.workload_id == workload_id)
            )
            or 0
            for table in tables
        }


def _filled(services: Services) -> WorkloadId:
    """Return a workload with 12 runs, 5 forecasts and 3 versions, next to another one."""
    context = services.context
    workload_id = store_runs(context, "fitted")
    store_runs(context, "other")
    for _ in range(3):
        fit(services, "fitted")
    record_forecasts(context, workload_id, *[context.now()] * 5)
    return workload_id


def _removed_runs(services: Services) -> list[object]:
    entries = services.access.list_audit("default", limit=100)
    return [entry.detail for entry in entries if entry.action == "workload.delete"]


@pytest.mark.parametrize("at_once", [1, 2, 5, 2000])
def test_workload_is_removed_in_portions(services: Services, at_once: int) -> None:
    workload_id, database = _filled(services), services.context.database
    transactions: list[int] = []

    class Counting(Database):
        @override
        @contextmanager
        def transaction(self) -> Iterator[Stores]:
            before = sum(_rows_of(database, workload_id).values())
            with super().transaction() as stores:
                yield stores
            transactions.append(before - sum(_rows_of(database, workload_id).values()))

    context = replace(services.context, database=Counting(services.context.settings.url))
    WorkloadService(context, at_once=at_once).delete(_CALLER, Slug("fitted"))
    context.database.close()

    assert not any(_rows_of(database, workload_id).values())
    assert _removed_runs(services) == [{"runs": 12}]
    assert [run.workload for run in services.runs.list_page(DEFAULT_PROJECT, Slug("other")).items]
    if at_once < 12:
        # A regressor takes its publication with it; the last takes counts and parameters.
        assert max(transactions[:-1]) <= at_once + 1
    else:
        assert len(transactions) == 1


def test_interrupted_removal_of_a_workload_is_continued(services: Services) -> None:
    workload_id, database = _filled(services), services.context.database
    left = [sum(_rows_of(database, workload_id).values())]

    for transactions in (0, 2, 3):
        dying = killed_after(services.context, transactions)
        with suppress(Killed):
            WorkloadService(dying, at_once=2).delete(_CALLER, Slug("fitted"))
        dying.database.close()
        left.append(sum(_rows_of(database, workload_id).values()))
        with database.reading() as stores:
            assert stores.run_counts.wrong() == []
    WorkloadService(services.context).delete(_CALLER, Slug("fitted"))

    assert left == [left[0], left[0], left[0] - 2, left[0] - 6]
    assert _removed_runs(services) == [{"runs": 6}, {"runs": 10}, {"runs": 12}]
    assert not any(_rows_of(database, workload_id).values())


def test_publications_are_removed_before_the_regressors_that_they_refer_to(
    services: Services,
) -> None:
    workload_id = _filled(services)

    with recorded_queries(services.context.database) as queries:
        WorkloadService(services.context, at_once=2).delete(_CALLER, Slug("fitted"))

    removals = [query.split()[2] for query in queries if query.startswith("DELETE FROM")]
    order = list(dict.fromkeys(removals))
    assert order == ["run", "forecast", "publication_event", "regressor", "fit", "workload"]
    assert not any(_rows_of(services.context.database, workload_id).values())


def test_reports_on_a_removed_workload_alone_are_removed_together(
    client: TestClient, services: Services
) -> None:
    run = {"workload": "fitted", "duration_seconds": 9, "workers": 1}
    other = {**run, "workload": "other"}
    for runs in ([run], [run], [run, other], [run]):
        client.post("/v1/ci/reports", json={"runs": runs}).raise_for_status()

    with recorded_queries(services.context.database) as queries:
        client.delete("/v1/workloads/fitted").raise_for_status()

    assert len([query for query in queries if query.startswith("DELETE FROM ci_report")]) == 1
    [report] = client.get("/v1/ci/reports").json()["reports"]
    assert [left["workload"] for left in report["runs"]] == ["other"]


def test_fit_of_a_removed_workload_is_not_told_to_be_with_another_fitter(
    services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    fitting, slug = FittingService(services.context), Slug("w")
    store_runs(services.context, slug)
    services.fits.request_fit(DEFAULT_PROJECT, slug, QUICK)
    claim = fitting.claim("fitter")
    assert claim is not None
    services.workloads.delete(_CALLER, slug)

    with caplog.at_level(logging.INFO, "app.services.fitting"):
        fitting.leave(claim)

    assert caplog.messages == ["fit taken over or removed"]
