"""Requests that the OpenAPI document allows or shows are those that the service takes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema_rs import Draft202012Validator

from app.api.documents.forecasts import FORECAST_MEMBERS
from app.services.wiring import Services
from tests.support.engines import before_any_row
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
@before_any_row
def test_phase_that_is_refused_is_not_allowed_by_the_schema(client: TestClient, name: str) -> None:
    document = _document(client)
    body = {**_MEASURED, "phases": {name: 3}}

    assert client.post("/v1/runs", json=body).status_code == 422
    assert not _validator(document, _body_of(document, "/v1/runs")).is_valid(body)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("price_per_hour", "32.77"),
        ("confidence", "0.95"),
        ("dataset_size", "5000000000000"),
        ("workers", "1,2,4,8,12,16,24,32,48,64,96,128"),
        ("workers", "131072"),
    ],
)
def test_query_that_is_answered_is_allowed_by_its_schema(
    client: TestClient, services: Services, field: str, value: str
) -> None:
    publish_regressor(services)
    document = _document(client)
    path = "/v1/workloads/{workload}/forecast"
    [schema] = [
        parameter["schema"]
        for parameter in document["paths"][path]["get"]["parameters"]
        if parameter["name"] == field
    ]
    query = {"gpu_type": "V100-16GB", "dataset_size": "50000", "epochs": "1", field: value}

    assert client.get("/v1/workloads/fitted/forecast", params=query).status_code == 200
    assert _validator(document, schema).is_valid(value)


def test_parameters_of_a_workload_are_described_as_query_parameters(client: TestClient) -> None:
    paths = _document(client)["paths"]

    for path in ("forecast", "curve"):
        parameters = paths[f"/v1/workloads/{{workload}}/{path}"]["get"]["parameters"]
        [described] = [each for each in parameters if each["name"] == "param"]
        assert (described["style"], described["explode"]) == ("form", True)
        assert described["schema"]["type"] == "object"
        lists = [each for each in parameters if "list" in each.get("description", "")]
        assert bool(lists) == (path == "forecast")


def test_body_that_may_be_left_out_is_not_described_as_null(
    client: TestClient, services: Services
) -> None:
    body = _document(client)["paths"]["/v1/workloads/{workload}/fits"]["post"]["requestBody"]
    publish_regressor(services)
    fits = "/v1/workloads/fitted/fits"
    json_type = {"Content-Type": "application/json"}
    answers = [
        client.post(fits, content=content, headers=json_type) for content in (b"", b"null", b"{}")
    ]

    assert [answer.status_code for answer in answers] == [202, 200, 200]
    assert not body.get("required", False)
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/FitIn"}


def test_streams_are_described_without_keywords_of_later_versions(client: TestClient) -> None:
    document = _document(client)
    events = document["paths"]["/v1/fits/{fit}/events"]["get"]["responses"]["200"]

    assert document["openapi"].startswith("3.1")
    assert events["content"] == {"text/event-stream": {"schema": {"type": "string"}}}


def _examples(node: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield each example below a node with the schema that it must match."""
    if isinstance(node, dict):
        listed = node.get("examples", [])
        named = listed if isinstance(listed, list) else [each["value"] for each in listed.values()]
        for example in [*named, *([node["example"]] if "example" in node else [])]:
            yield node.get("schema", node), example
        node = [member for name, member in node.items() if name not in {"example", "examples"}]
    for member in node if isinstance(node, list) else []:
        yield from _examples(member)


def test_every_example_matches_its_schema(client: TestClient) -> None:
    document = _document(client)
    examples = list(_examples(document))

    refused = [
        (error.message, example)
        for schema, example in examples
        for error in _validator(document, schema).iter_errors(example)
    ]
    assert refused == []
    assert len(examples) > 20


def test_every_example_of_a_body_is_taken(client: TestClient, services: Services) -> None:
    document = _document(client)
    shown = [
        (method, path, media_type, example)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for media_type, media in operation.get("requestBody", {}).get("content", {}).items()
        for example in _shown(document, media)
    ]
    publish_regressor(services, workload="resnet50")

    answers = {
        (method, path, media_type): client.request(
            method.upper(),
            re.sub(r"\{\w+\}", "resnet50", path),
            content=example if isinstance(example, str) else json.dumps(example),
            headers={"content-type": media_type},
        )
        for method, path, media_type, example in shown
    }

    refused = {request for request, answer in answers.items() if answer.status_code >= 400}
    assert refused == {
        (method, path, "application/json")
        for method, path in (
            ("patch", "/v1/runs/{run}"),
            ("post", "/v1/ci/reports/{report}:acknowledge"),
        )
    }
    assert {answers[request].json()["code"] for request in refused} == {"not_found"}


def _shown(document: dict[str, Any], media: dict[str, Any]) -> list[Any]:
    if "example" in media:
        return [media["example"]]
    if "examples" in media:
        return [named["value"] for named in media["examples"].values()]
    choices = [media["schema"], *media["schema"].get("anyOf", [])]
    schemas = document["components"]["schemas"]
    referred = [schemas.get(each.get("$ref", "").rpartition("/")[2], {}) for each in choices]
    return [example for schema in referred for example in schema.get("examples", [])]
