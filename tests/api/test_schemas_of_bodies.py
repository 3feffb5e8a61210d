"""Bodies that the OpenAPI document allows or shows are those that the service takes."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema_rs import Draft202012Validator

from app.api.documents.forecasts import FORECAST_MEMBERS
from app.services.wiring import Services
from tests.support.regressors import publish_regressor

_MEASURED = {"workload": "shown", "duration_seconds": 20.0}


def _document(client: TestClient) -> dict[str, Any]:
    document: dict[str, Any] = client.get("/openapi.json").json()
    return document


def _validator(document: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    whole = {**schema, "components": document["components"]}
    return Draft202012Validator(whole, validate_formats=True)


def _body_of(document: dict[str, Any], path: str, method: str = "post") -> dict[str, Any]:
    body = document["paths"][path][method]["requestBody"]["content"]["application/json"]
    schema: dict[str, Any] = body["schema"]
    return schema


@pytest.mark.parametrize(
    "run",
    [
        {"phases": {"data_loading_seconds": 3.5, "all-reduce_seconds": 1, "setup_seconds": None}},
        {
            "duration_seconds": None,
            "started_at": "2026-11-01T10:00:00Z",
            "ended_at": "2026-11-01T11:00:00Z",
        },
        {"status": None, "configuration": {"purchase": None, "workers": None}},
        {"parameters": {f"p{number}": number for number in range(200)}},
    ],
)
def test_run_that_is_taken_is_allowed_by_its_schema(
    client: TestClient, run: dict[str, Any]
) -> None:
    document = _document(client)
    body = _MEASURED | run

    assert client.post("/v1/runs?dry_run=true", json=body).status_code == 200
    assert _validator(document, _body_of(document, "/v1/runs")).is_valid(body)
    assert _validator(document, {"$ref": "#/components/schemas/CiReportIn"}).is_valid(
        {"workload": "shown", "runs": [{**body, "external_id": "ci/1"}]}
    )


def test_entries_of_batches_are_described_as_they_are(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    document = _document(client)
    body = {
        "defaults": {"workload": "fitted", "work": {"dataset_size": 50_000.0, "epochs": 1.0}},
        "requests": [
            {"ref": "a", "configuration": {"gpu_type": "V100-16GB", "workers": 2}},
            {"ref": 2, "workload": "unknown"},
        ],
    }

    for some in ({}, {"fields": ["basis", "cost"]}):
        answer = client.post("/v1/forecasts:batch", json=body | some).json()
        assert _validator(document, _body_of(document, "/v1/forecasts:batch")).is_valid(body | some)
        assert _validator(document, {"$ref": "#/components/schemas/BatchOut"}).is_valid(answer)
        assert [("forecast" in each) for each in answer["forecasts"]] == [True, False]
    misspelled = body | {"defaults": {"workload": "resnet50", "confidense": 0.9}}
    assert not _validator(document, _body_of(document, "/v1/forecasts:batch")).is_valid(misspelled)
    forecast = document["components"]["schemas"]["BatchForecastOut"]
    assert set(forecast["properties"]) == set(FORECAST_MEMBERS)
    assert "required" not in forecast


@pytest.mark.parametrize("name", ["setup", "_seconds", "a b_seconds"])
def test_phase_that_is_refused_is_not_allowed_by_the_schema(client: TestClient, name: str) -> None:
    document = _document(client)
    body = {**_MEASURED, "phases": {name: 3}}

    assert client.post("/v1/runs", json=body).status_code == 422
    assert not _validator(document, _body_of(document, "/v1/runs")).is_valid(body)
