"""A regressor that somebody made up: every operation answers, none with a bare 500."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from app.storage.database import Database
from tests.api.test_isolation import _QUERIES, BODIES
from tests.support.forged import put_forged
from tests.support.regressors import publish_regressor

_FORECAST: dict[str, Any] = BODIES["POST /v1/forecasts"]
_REFUSED = (
    "POST /v1/forecasts",
    "POST /v1/forecasts:remaining",
    "POST /v1/recommendations",
    "POST /v1/workloads/{workload}/profiling-plans",
    "GET /v1/workloads/{workload}/curve",
    "GET /v1/workloads/{workload}/forecast",
)
_TOLD_INSIDE = (
    "POST /v1/forecasts:batch",
    "POST /v1/schedules:rank",
    "POST /v1/schedules:allocate",
    "POST /v1/schedules:capacity",
)


@pytest.fixture
def forged(services: Services, database: Database) -> Services:
    publish_regressor(services, "theirs")
    put_forged(database)
    return services


def _send(client: TestClient, operation: str) -> Any:
    method, path = operation.split(" ")
    return client.request(
        method,
        path.format(workload="theirs"),
        json=BODIES.get(operation),
        params=_QUERIES.get(operation),
    )


@pytest.mark.parametrize("operation", _REFUSED)
def test_forged_regressor_is_refused_with_the_remedy(
    client: TestClient, forged: Services, operation: str
) -> None:
    answer = _send(client, operation)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "regressor_unavailable"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "version 1 of workload 'theirs'" in problem["detail"]
    assert "trainfare doctor" in problem["remedy"]


@pytest.mark.parametrize("operation", _TOLD_INSIDE)
def test_forged_regressor_spoils_only_its_own_part_of_an_answer(
    client: TestClient, forged: Services, operation: str
) -> None:
    answer = _send(client, operation)

    assert "regressor_unavailable" in answer.text
    assert answer.status_code in {200, 422, 503}


def test_batch_answers_for_the_other_workloads(
    client: TestClient, forged: Services, database: Database
) -> None:
    publish_regressor(forged, "sound")
    theirs = {name: value for name, value in _FORECAST.items() if name != "record"}

    answer = client.post(
        "/v1/forecasts:batch", json={"requests": [theirs, {**theirs, "workload": "sound"}]}
    ).json()

    assert answer["failed"] == 1
    assert answer["forecasts"][0]["problem"]["code"] == "regressor_unavailable"
    assert answer["forecasts"][1]["forecast"]["duration_seconds"]["median"] > 0


def test_runs_are_stored_although_nobody_can_judge_them(
    client: TestClient, forged: Services
) -> None:
    answer = _send(client, "POST /v1/runs")
    judged = client.get(f"/v1/runs/{answer.json()['runs'][0]['run_id']}/assessment").json()
    accuracy = client.get("/v1/workloads/theirs/accuracy")
    report = client.post("/v1/ci/reports", json=BODIES["POST /v1/ci/reports"])

    assert answer.status_code == 201
    assert judged["verdict"] == "unknown"
    assert "unusable" in judged["reason"]
    assert accuracy.status_code == 200
    assert report.status_code == 201, report.text
    assert report.json()["verdict"] == "insufficient_data"


def test_diagnosis_names_a_forged_regressor_and_the_remedy(
    services: Services, database: Database
) -> None:
    publish_regressor(services, "theirs")
    sound = {check.name: check for check in services.diagnosis.diagnose()}
    put_forged(database)

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert sound["regressors"].is_ok, sound["regressors"].detail
    assert checks["artefacts"].is_ok
    assert not checks["regressors"].is_ok
    assert "theirs version 1" in checks["regressors"].detail
    assert "fit them again" in checks["regressors"].remedy
