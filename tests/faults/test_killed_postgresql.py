"""PostgreSQL dies by kill -9: problems meanwhile, forecasts from memory, recovery by itself."""

from collections.abc import Iterator

import httpx2
import psycopg
import pytest
import stamina

from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import migrate
from tests.conftest import POSTGRESQL_URL
from tests.support import patient_http
from tests.support.postgresql import PostgreSQLServer, running_postgresql
from tests.support.regressors import publish_regressor
from tests.support.server import running_fitter, running_service

_FORECAST = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 2},
    "work": {"dataset_size": 1000},
    "record": False,
}
_RUNS = [{"workload": "acknowledged", "duration_seconds": 100 + row} for row in range(50)]
_FINAL = {"succeeded", "failed", "cancelled"}


@pytest.fixture
def server() -> Iterator[PostgreSQLServer]:
    if POSTGRESQL_URL is None:
        pytest.skip("TRAINFARE_TEST_POSTGRESQL_URL is not set: `make test` runs PostgreSQL too")
    with running_postgresql(synchronous_commit=True) as server:
        yield server


@stamina.retry(on=AssertionError, attempts=60, timeout=60, wait_initial=0.2, wait_max=1.0)
def _wait_until_ready(url: str) -> None:
    answer = patient_http.get(f"{url}/readyz")
    assert answer.is_success, answer.text


@stamina.retry(on=AssertionError, attempts=60, timeout=60, wait_initial=0.2, wait_max=1.0)
def _wait_for_end(url: str, fit_id: str) -> str:
    answer = patient_http.get(f"{url}/v1/fits/{fit_id}").json()
    assert answer["state"] in _FINAL, answer
    return str(answer["state"])


def _prepare(url: str) -> None:
    database = Database(url)
    migrate(database)
    services = Services(ServiceContext(database, Settings(database_url=url)))
    publish_regressor(services, workload="fitted")
    services.close()


@pytest.mark.postgresql
def test_service_and_fitter_live_through_the_death_of_postgresql(
    server: PostgreSQLServer,
) -> None:
    _prepare(server.url)

    with (
        running_service(server.url) as running,
        running_fitter(server.url),
        httpx2.Client(base_url=running.url, timeout=30.0) as client,
    ):
        _wait_until_ready(running.url)
        uploaded = client.post("/v1/runs", json=_RUNS)
        warm = client.post("/v1/forecasts", json=_FORECAST)
        requested = client.post("/v1/workloads/acknowledged/fits").json()
        server.kill()
        refused = [
            client.get("/v1/workloads"),
            client.post("/v1/runs", json=_RUNS),
            client.get("/readyz"),
        ]
        cached = client.post("/v1/forecasts", json=_FORECAST)
        server.start()
        _wait_until_ready(running.url)
        state = _wait_for_end(running.url, requested["fit_id"])
        recovered = client.post("/v1/forecasts", json=_FORECAST)

    assert uploaded.json()["created"] == len(_RUNS)
    assert warm.is_success, warm.text
    for answer in refused:
        assert answer.status_code == httpx2.codes.SERVICE_UNAVAILABLE, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
    assert refused[0].json()["code"] == "database_unavailable"
    assert cached.is_success, cached.text
    assert recovered.json()["duration_seconds"] == warm.json()["duration_seconds"]
    assert state == "succeeded"
    with psycopg.connect(server.url) as connection:
        stored = connection.execute(
            "SELECT count(*) FROM run JOIN workload ON workload.id = run.workload_id"
            " WHERE workload.slug = 'acknowledged'"
        )
        assert stored.fetchone() == (len(_RUNS),)
