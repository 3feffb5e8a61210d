"""Bodies that the OpenAPI document allows or shows are those that the service takes."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema_rs import Draft202012Validator

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


@pytest.mark.parametrize("name", ["setup", "_seconds", "a b_seconds"])
def test_phase_that_is_refused_is_not_allowed_by_the_schema(client: TestClient, name: str) -> None:
    document = _document(client)
    body = {**_MEASURED, "phases": {name: 3}}

    assert client.post("/v1/runs", json=body).status_code == 422
    assert not _validator(document, _body_of(document, "/v1/runs")).is_valid(body)
