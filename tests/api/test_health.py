"""Life, readiness and metrics tell the truth, also while something is away."""

import asyncio
import resource
from contextlib import ExitStack
from dataclasses import replace
from threading import Event, Semaphore

from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.api.watching import OneReading
from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug
from app.services.fitting import FittingService
from app.services.health import HealthService
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import migrate, missing_parts
from tests.support.clock import FakeClock
from tests.support.outage import make_available, make_unavailable
from tests.support.regressors import QUICK, publish_regressor, store_runs


def _fitter_seen(database: Database, clock: FakeClock) -> None:
    with database.transaction() as stores:
        stores.leases.fitter_seen("host-1", started_at=clock(), now=clock())


def test_life_needs_nothing_but_the_process(client: TestClient, database: Database) -> None:
    make_unavailable(database)

    answer = client.get("/healthz")

    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert answer.json()["version"]


def test_process_that_can_open_no_file_is_alive(client: TestClient) -> None:
    before = client.get("/healthz").json()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        answer = client.get("/healthz")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert answer.status_code == 200
    assert answer.json() == before


def test_service_with_a_living_fitter_is_ready(
    client: TestClient, database: Database, clock: FakeClock
) -> None:
    _fitter_seen(database, clock)

    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert [check["name"] for check in answer.json()["checks"]] == ["database", "schema", "fitter"]


def test_service_whose_database_was_emptied_names_the_schema(
    client: TestClient, database: Database
) -> None:
    migrate(database, "base")

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    [fault] = answer.json()["errors"]
    assert (fault["field"], fault["message"][:13]) == ("schema", "revision none")


def test_service_without_a_living_fitter_is_not_ready(
    client: TestClient, database: Database, clock: FakeClock, services: Services
) -> None:
    _fitter_seen(database, clock)
    clock.advance(services.context.settings.lease_s + 1)

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    [fault] = answer.json()["errors"]
    assert fault["field"] == "fitter"
    assert "trainfare fitter" in fault["remedy"]


def test_service_whose_fitters_all_wait_for_ray_is_not_ready(
    client: TestClient, database: Database, clock: FakeClock, services: Services
) -> None:
    reason = "ray://head:10001: Connection refused"
    with database.transaction() as stores:
        for owner in ("host-1", "host-2"):
            stores.leases.fitter_seen(owner, started_at=clock(), now=clock(), waits_for=reason)

    answer, figures = client.get("/readyz"), client.get("/metrics").text
    told = {check.name: check.detail for check in services.diagnosis.diagnose()}
    _fitter_seen(database, clock)
    connected = client.get("/readyz")

    [fault] = answer.json()["errors"]
    assert (answer.status_code, fault["field"]) == (503, "fitter")
    assert fault["message"] == "2 fitters alive, 2 of them waiting for Ray, 0 fits waiting"
    assert "TRAINFARE_RAY_ADDRESS" in fault["remedy"]
    assert reason in told["fitter"]
    assert "trainfare_fitters_waiting 2.0" in figures
    assert connected.status_code == 200


def test_service_without_its_database_is_not_ready(client: TestClient, database: Database) -> None:
    make_unavailable(database)

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert [fault["field"] for fault in answer.json()["errors"]] == ["database"]


def test_service_on_an_older_schema_is_not_ready(client: TestClient, database: Database) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0003'")

    answer = client.get("/readyz")

    faults = {fault["field"]: fault for fault in answer.json()["errors"]}
    assert "trainfare migrate" in faults["schema"]["remedy"]


def test_metrics_count_by_route_template_and_status(client: TestClient) -> None:
    client.get("/problems/not_found")
    client.get("/problems/internal")
    client.get("/problems/nonsense")
    client.get("/v1/nothing")
    client.get("/v1/fits/fit_none")

    text = client.get("/metrics").text

    counted = (
        'trainfare_http_requests_total{method="GET",route="/problems/{code}",status="200"} 2.0'
    )
    assert counted in text
    assert 'route="/v1/fits/{fit}",status="404"' in text
    assert 'route="/problems/{code}",status="404"} 1.0' in text
    assert 'route="(none)",status="404"} 1.0' in text
    assert "trainfare_build_info{version=" in text
    assert "trainfare_database_up 1.0" in text


def test_metrics_answer_while_the_database_is_away(client: TestClient, database: Database) -> None:
    make_unavailable(database)

    answer = client.get("/metrics")

    assert answer.status_code == 200
    assert "trainfare_database_up 0.0" in answer.text


def test_metrics_tell_of_no_fitters_before_the_database_was_read(
    client: TestClient, database: Database
) -> None:
    make_unavailable(database)
    away = client.get("/metrics").text
    make_available(database)
    back = client.get("/metrics").text
    make_unavailable(database)
    away_again = client.get("/metrics").text

    assert "trainfare_database_up 0.0" in away
    assert "trainfare_fitters_alive" not in away
    assert "trainfare_database_up 1.0" in back
    assert "trainfare_fitters_alive 0.0" in back
    assert "trainfare_database_up 0.0" in away_again
    assert "trainfare_fitters_alive 0.0" in away_again


def test_health_and_metrics_wait_shortly_for_a_database_that_hangs(
    application: FastAPI, client: TestClient
) -> None:
    read = client.get("/metrics").text
    state, may_go_on = application.state, Event()
    state.exposition().queue_reading = OneReading(may_go_on.wait, limit_s=0)
    state.readiness_reading = OneReading(may_go_on.wait, limit_s=0)

    answers = [client.get(path) for path in ("/metrics", "/metrics", "/readyz")]
    may_go_on.set()

    assert "trainfare_database_up 1.0" in read
    for figures in answers[:2]:
        assert "trainfare_database_up 0.0" in figures.text
        assert "trainfare_fitters_alive 0.0" in figures.text
    assert answers[2].status_code == 503
    assert [fault["field"] for fault in answers[2].json()["errors"]] == ["database"]


def test_health_and_metrics_need_no_connection_that_requests_hold(
    client: TestClient, database: Database, settings: Settings, clock: FakeClock
) -> None:
    _fitter_seen(database, clock)

    with ExitStack() as held:
        for _ in range(settings.database_pool_size):
            held.enter_context(database.engine.connect())
        ready, figures = client.get("/readyz"), client.get("/metrics").text

    assert ready.status_code == 200
    assert "trainfare_database_up 1.0" in figures


def test_service_is_ready_while_an_upload_writes(
    services: Services, database: Database, clock: FakeClock
) -> None:
    _fitter_seen(database, clock)
    impatient = database.with_own_connection(0.1)
    context = replace(services.context, database=impatient)

    with database.transaction() as stores:
        created = stores.workloads.claim(DEFAULT_PROJECT, [Slug("w")], clock())
        checks = HealthService(context).check_readiness()
        missing = missing_parts(impatient)
    impatient.close()

    assert created
    assert [check.is_ok for check in checks] == [True, True, True]
    assert missing == []


def test_who_asks_while_a_reading_is_late_begins_no_other() -> None:
    begun, may_go_on = Semaphore(0), Event()

    def read() -> str:
        begun.release()
        may_go_on.wait()
        return "read"

    async def run() -> list[str | None]:
        reading = OneReading(read, limit_s=0)
        late = [await reading.result(), await reading.result()]
        may_go_on.set()
        assert reading._reading is not None
        await reading._reading
        return [*late, await OneReading(read, limit_s=60).result()]

    assert asyncio.run(run()) == [None, None, "read"]
    assert begun.acquire(blocking=False)
    assert begun.acquire(blocking=False)
    assert not begun.acquire(blocking=False)


def test_diagnosis_of_a_sound_database_finds_nothing(
    services: Services, database: Database, clock: FakeClock
) -> None:
    _fitter_seen(database, clock)

    findings = {check.name: check for check in services.diagnosis.diagnose() if not check.is_ok}

    # The tests' clock stands still, so PostgreSQL's differs from it.
    assert set(findings) <= {"clock"}


def test_diagnosis_names_a_wrong_clock(services: Services, database: Database) -> None:
    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert checks["clock"].is_ok is database.is_sqlite


def test_diagnosis_without_the_database_names_it_alone(
    services: Services, database: Database
) -> None:
    make_unavailable(database)

    findings = [check.name for check in services.diagnosis.diagnose() if not check.is_ok]

    assert findings == ["database"]


def test_diagnosis_of_an_empty_database_says_what_is_missing(
    services: Services, database: Database
) -> None:
    migrate(database, "base")

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert set(checks) - {"disk"} == {"database", "schema"}
    assert "revision none" in checks["schema"].detail
    assert "trainfare migrate" in checks["schema"].remedy


def test_diagnosis_looks_at_the_disk_that_holds_the_file_of_the_database(
    services: Services, database: Database
) -> None:
    folders = [
        check.detail.rpartition(" in ")[2]
        for check in services.diagnosis.diagnose()
        if check.name == "disk"
    ]

    assert folders == ([] if database.file is None else [str(database.file.parent)])


def test_diagnosis_names_broken_references_of_sqlite(
    services: Services, database: Database
) -> None:
    if not database.is_sqlite:
        return
    connection = database.engine.raw_connection()
    connection.driver_connection.execute("PRAGMA foreign_keys = OFF")  # type: ignore[union-attr] # sqlite3's own
    connection.driver_connection.execute(  # type: ignore[union-attr] # sqlite3's own
        "INSERT INTO price (id, project_id, instance_type, price_per_hour, purchase, currency,"
        " valid_from, source, created_at) VALUES ('p', 'nobody', 'x', '1', 'on_demand', 'USD',"
        " '2026-01-01', 'x', '2026-01-01')"
    )
    connection.close()

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert "price row" in checks["integrity"].detail


def test_diagnosis_names_an_index_that_was_dropped(services: Services, database: Database) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP INDEX uq_fit_active_workload")
        connection.exec_driver_sql("CREATE INDEX of_the_operator ON run (created_at)")
        if not database.is_sqlite:
            connection.exec_driver_sql("ALTER TABLE fitter ALTER COLUMN seen_at DROP NOT NULL")

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert not checks["tables"].is_ok
    assert checks["tables"].detail == "missing: index uq_fit_active_workload"


def test_diagnosis_goes_on_without_what_it_cannot_look_at(
    services: Services, database: Database
) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE run_count")
        connection.exec_driver_sql("ALTER TABLE regressor DROP COLUMN artifact_sha256")

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    missing = "missing: table run_count, column regressor.artifact_sha256"
    assert checks["tables"].detail == missing
    for name, part in (("artefacts", "artifact_sha256"), ("counts", "run_count")):
        assert not checks[name].is_ok
        assert checks[name].detail.startswith("cannot be examined: ")
        assert part in checks[name].detail
    assert checks["leases"].is_ok


def test_diagnosis_names_a_damaged_artefact(services: Services, database: Database) -> None:
    publish_regressor(services, "resnet")
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE regressor SET artifact_sha256 = 'x'")

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert not checks["artefacts"].is_ok
    assert "resnet version 1" in checks["artefacts"].detail


def test_diagnosis_names_an_abandoned_fit(services: Services, clock: FakeClock) -> None:
    context = services.context
    store_runs(context, "resnet")
    fit, _ = services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), QUICK)
    FittingService(context).claim("a fitter that dies")
    held = {check.name: check for check in services.diagnosis.diagnose()}

    clock.advance(10 * context.settings.lease_s)
    abandoned = {check.name: check for check in services.diagnosis.diagnose()}

    assert held["leases"].is_ok
    assert fit.fit_id in abandoned["leases"].detail


def test_diagnosis_names_a_damaged_file_of_sqlite(services: Services, database: Database) -> None:
    if not database.is_sqlite:
        return
    with database.engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA writable_schema = ON")
        connection.exec_driver_sql(
            "UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'ix_audit_project_id_id'"
        )
    database.engine.dispose()

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert "malformed" in checks["database"].detail
    assert "restore a backup" in checks["database"].remedy
