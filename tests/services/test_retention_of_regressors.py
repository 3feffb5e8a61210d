"""Artefacts of old versions are removed; what answers, may soon, or did lately stays."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from fastapi.testclient import TestClient

from app.api.documents.ci import report_document
from app.domain.access import DEFAULT_PROJECT, Principal, Project, Scope
from app.domain.ci import CiReportRequest
from app.domain.errors import NotFoundError
from app.domain.fits import PublishMode
from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.regressors import ArtifactRemovedError
from app.services.backups import BackupService
from app.services.retention import RetentionService
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.other_formats import EARLIER, put_format
from tests.support.queries import recorded_queries
from tests.support.regressors import QUICK, fit, law_seconds, store_runs

_MONTH = timedelta(days=30)
_DAY_S = 86_400.0
_W = Slug("w")
OPERATOR = Principal(DEFAULT_PROJECT, frozenset(Scope))


@pytest.fixture
def workload_id(services: Services) -> WorkloadId:
    return store_runs(services.context, "w")


def kept_versions(services: Services, slug: Slug = _W) -> list[int]:
    page = services.regressors.list_page(DEFAULT_PROJECT, slug, page_size=100)
    return sorted(item.version for item in page.items if item.is_artifact_kept)


def fit_versions(services: Services, clock: FakeClock, count: int, slug: str = "w") -> None:
    """Fit and publish a version a day."""
    for _ in range(count):
        fit(services, slug)
        clock.advance(_DAY_S)


def prune(services: Services, age: timedelta = _MONTH, *, at_once: int = 50) -> int:
    return RetentionService(services.context, artifacts_at_once=at_once).prune_regressors(age)


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.usefixtures("workload_id")
def test_old_versions_lose_their_artefact_and_keep_their_record(
    services: Services, clock: FakeClock, at_once: int
) -> None:
    fit_versions(services, clock, 5)
    before = services.regressors.list_page(DEFAULT_PROJECT, _W).items
    clock.advance(40 * _DAY_S)

    assert RetentionService(services.context).count_regressors(_MONTH) == 4
    assert prune(services, at_once=at_once) == 4
    assert prune(services, at_once=at_once) == 0

    after = services.regressors.list_page(DEFAULT_PROJECT, _W).items
    assert [each.artifact_sha256 for each in after] == [each.artifact_sha256 for each in before]
    assert [each.artifact_bytes for each in after] == [each.artifact_bytes for each in before]
    assert kept_versions(services) == [5]
    assert fit(services, "w").regressor_version == 6


@pytest.mark.usefixtures("workload_id")
def test_version_that_answered_within_the_age_stays(services: Services, clock: FakeClock) -> None:
    fit_versions(services, clock, 2)
    clock.advance(40 * _DAY_S)
    fit_versions(services, clock, 2)

    assert prune(services) == 1

    assert kept_versions(services) == [2, 3, 4]


@pytest.mark.usefixtures("workload_id")
def test_version_that_was_rolled_back_to_stays_and_so_does_the_newest(
    services: Services, clock: FakeClock
) -> None:
    fit_versions(services, clock, 3)
    services.regressors.publish(OPERATOR, _W, 1)
    clock.advance(40 * _DAY_S)

    assert prune(services) == 1

    assert kept_versions(services) == [1, 3]


@pytest.mark.usefixtures("workload_id")
def test_newest_stays_where_none_was_ever_published(services: Services, clock: FakeClock) -> None:
    for _ in range(2):
        fit(services, "w", replace(QUICK, publish=PublishMode.NEVER))
    clock.advance(40 * _DAY_S)

    assert prune(services) == 1

    assert kept_versions(services) == [2]


@pytest.mark.usefixtures("workload_id")
def test_last_published_version_of_each_format_stays(services: Services, clock: FakeClock) -> None:
    fit_versions(services, clock, 5)
    put_format(services.context.database, "w", EARLIER, 1, 2, 3)
    clock.advance(40 * _DAY_S)

    assert prune(services) == 3

    assert kept_versions(services) == [3, 5]


def test_other_projects_keep_theirs_and_it_is_audited(services: Services, clock: FakeClock) -> None:
    other = ProjectId("prj_other")
    with services.context.database.transaction() as stores:
        stores.access.add_project(Project(other, "other"), clock())
    store_runs(services.context, "w")
    store_runs(services.context, "w", project_id=other)
    fit_versions(services, clock, 2)
    for _ in range(3):
        fit(services, "w", project_id=other)
    clock.advance(40 * _DAY_S)
    service = RetentionService(services.context)

    assert service.count_regressors(_MONTH, project="other") == 2
    assert service.prune_regressors(_MONTH, project="other") == 2

    assert kept_versions(services) == [1, 2]
    with services.context.database.reading() as stores:
        actions = [entry.action for entry in stores.access.list_audit(other)]
        mine = [entry.action for entry in stores.access.list_audit(DEFAULT_PROJECT)]
    assert "regressor.prune" in actions
    assert "regressor.prune" not in mine


@pytest.mark.usefixtures("workload_id")
def test_unknown_project_removes_nothing(services: Services, clock: FakeClock) -> None:
    fit_versions(services, clock, 2)
    clock.advance(40 * _DAY_S)

    with pytest.raises(NotFoundError, match="nobody"):
        RetentionService(services.context).prune_regressors(_MONTH, project="nobody")

    assert kept_versions(services) == [1, 2]


@pytest.mark.usefixtures("workload_id")
def test_removed_version_is_refused_and_the_others_answer(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    fit_versions(services, clock, 2)
    clock.advance(40 * _DAY_S)
    prune(services)
    question = {
        "workload": "w",
        "configuration": {"gpu_type": "T4", "workers": 2},
        "work": {"dataset_size": 1000},
        "parameters": {"precision": "fp16"},
    }

    refused = [
        client.post("/v1/workloads/w/regressors/1:publish"),
        client.post("/v1/forecasts", json={**question, "regressor_version": 1}),
    ]

    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {
        (422, "invalid_request")
    }
    assert all("was removed" in answer.json()["detail"] for answer in refused)
    assert not client.get("/v1/workloads/w/regressors/1").json()["artifact_kept"]
    assert client.get("/v1/workloads/w/regressors/2").json()["artifact_kept"]
    assert client.post("/v1/forecasts", json=question).json()["regressor_version"] == 2
    assert client.get("/v1/workloads/w/accuracy", params={"window": "90d"}).is_success
    checks = {check.name: check for check in services.diagnosis.diagnose()}
    assert checks["artefacts"].is_ok
    assert checks["regressors"].is_ok


@pytest.mark.usefixtures("workload_id")
def test_runs_of_removed_versions_are_passed_over_where_runs_are_judged(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    run = {
        "workload": "w",
        "duration_seconds": law_seconds(2, 1000),
        "configuration": {"gpu_type": "T4", "workers": 2},
        "work": {"dataset_size": 1000},
        "parameters": {"precision": "fp16"},
    }
    for _ in range(3):
        fit_versions(services, clock, 1)
        assert client.post("/v1/runs", json=run).is_success
    clock.advance(40 * _DAY_S)
    assert prune(services) == 2
    restarted = Services(services.context)

    found = restarted.accuracy.accuracy(DEFAULT_PROJECT, _W, timedelta(days=90))
    request = CiReportRequest([run], _W)
    report = restarted.ci.report(DEFAULT_PROJECT, request, report_document)

    assert found.overall is not None
    assert found.drift is not None
    assert (found.overall.runs, found.not_judged) == (1, 12 + 2)
    assert found.drift.regressor_version == 3
    assert report["verdict"] == "pass"


@pytest.mark.usefixtures("workload_id")
def test_version_in_memory_goes_on_answering(services: Services, clock: FakeClock) -> None:
    fit_versions(services, clock, 2)
    clock.advance(40 * _DAY_S)
    cache = RegressorCache(services.context)
    cache.get(DEFAULT_PROJECT, _W, 1)

    prune(services)

    assert cache.get(DEFAULT_PROJECT, _W, 1).version == 1
    with pytest.raises(ArtifactRemovedError):
        RegressorCache(services.context).get(DEFAULT_PROJECT, _W, 1)


@pytest.mark.usefixtures("workload_id")
def test_backup_brings_back_what_was_removed_as_removed(
    services: Services, clock: FakeClock, tmp_path: Path
) -> None:
    fit_versions(services, clock, 2)
    clock.advance(40 * _DAY_S)
    prune(services)
    backups = BackupService(services.context)
    backups.create(tmp_path / "all.tfb")

    backups.restore(tmp_path / "all.tfb", overwrite=True)

    assert kept_versions(services) == [2]


@pytest.mark.usefixtures("workload_id")
def test_look_for_versions_reads_no_artefact(services: Services, clock: FakeClock) -> None:
    fit_versions(services, clock, 2)

    with recorded_queries(services.context.database) as queries:
        kept_versions(services)

    assert not any("regressor.artifact," in query for query in queries)


def test_workloads_with_nothing_to_remove_are_passed_over_together(
    services: Services, clock: FakeClock
) -> None:
    def asked() -> int:
        with recorded_queries(services.context.database) as queries:
            assert RetentionService(services.context).count_regressors(_MONTH) == 0
        return len(queries)

    store_runs(services.context, "w")
    fit_versions(services, clock, 2)
    clock.advance(40 * _DAY_S)
    assert prune(services) == 1
    alone = asked()
    for slug in ("x", "y"):
        store_runs(services.context, slug)
        fit_versions(services, clock, 1, slug)
    clock.advance(40 * _DAY_S)

    assert asked() == alone


def in_threads(*steps: Callable[[], object]) -> list[BaseException | None]:
    with ThreadPoolExecutor(len(steps)) as pool:
        return [future.exception() for future in [pool.submit(step) for step in steps]]


def test_version_published_while_it_is_looked_at_keeps_its_artefact(
    services: Services, clock: FakeClock, workload_id: WorkloadId
) -> None:
    fit_versions(services, clock, 3)
    clock.advance(40 * _DAY_S)
    database, before = services.context.database, clock() - _MONTH
    is_held = Event()

    def publish() -> None:
        with database.transaction() as stores:
            stores.regressors.hold(workload_id, 1)
            stores.regressors.publish(workload_id, 1, clock())
            is_held.set()

    def remove() -> None:
        is_held.wait()
        with database.transaction() as stores:
            stores.artifacts.remove(workload_id, before, after=0, limit=10)

    assert in_threads(publish, remove) == [None, None]

    assert kept_versions(services) == [1, 3]
