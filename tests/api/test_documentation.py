"""Pages for people are complete and load nothing from elsewhere; the OpenAPI document is whole."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.api import problem_kinds
from app.api.openapi import describe
from app.domain.errors import Fault
from app.main import build_app
from app.settings import Settings
from tests.support.openapi_document import PATH, encoded

pytestmark = pytest.mark.lengthy

_ROOT = Path(__file__).parents[2]
_GUIDE = _ROOT / "docs" / "api.md"
_ROUTE = re.compile(r"(?:(GET|POST|PUT|PATCH|DELETE) )?(?:localhost:8000)?(/v1/[\w/{}:.-]*[\w}])")
_PAGES = ["/docs", "/problems", "/problems/invalid_rows"]


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield method, path, operation


@pytest.mark.parametrize("path", _PAGES)
def test_pages_load_nothing_from_elsewhere(client: TestClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert not re.search(r"""(src|href|action)=["']?(https?:)?//""", answer.text)
    assert "<script" not in answer.text


def test_reference_shows_code_as_code_and_nothing_as_markup(client: TestClient) -> None:
    page = client.get("/docs").text

    assert "<code>application/problem+json</code>" in page
    assert "`" not in page
    assert "<if" not in page


def test_policy_allows_the_empty_icon_of_the_pages(client: TestClient) -> None:
    answer = client.get("/docs")

    assert '<link rel="icon" href="data:,">' in answer.text
    assert "img-src data:" in answer.headers["content-security-policy"]


def test_every_problem_type_resolves_to_its_page(client: TestClient) -> None:
    index = client.get("/problems").text
    for kind in problem_kinds.all_kinds():
        page = client.get(f"/problems/{kind.code}")
        assert page.status_code == 200
        assert kind.title in page.text
        assert "Remedy." in page.text
        assert f'href="/problems/{kind.code}"' in index


def test_unknown_problem_code_is_not_found(client: TestClient) -> None:
    assert client.get("/problems/nonsense").json()["code"] == "not_found"


def test_reference_lists_every_request_and_schema(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    page = client.get("/docs").text

    for path in document["paths"]:
        assert f"<code>{path}</code>" in page
    for name in document["components"].get("schemas", {}):
        assert f'id="{name}"' in page


def test_every_operation_declares_problems_and_a_summary(client: TestClient) -> None:
    document = client.get("/openapi.json").json()

    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            assert "application/problem+json" in operation["responses"]["500"]["content"]
            if path.startswith("/v1/"):
                assert {"401", "403", "422", "429", "503"} <= set(operation["responses"])
            if path.startswith("/v1/") and method == "post":
                names = [parameter["name"] for parameter in operation["parameters"]]
                assert "Idempotency-Key" in names
                assert "409" in operation["responses"]


def test_every_problem_of_the_document_is_the_same_schema(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    problem = {"$ref": "#/components/schemas/ProblemOut"}

    declared = [
        response["content"]["application/problem+json"]["schema"]
        for _, _, operation in _operations(document)
        for status, response in operation["responses"].items()
        if status >= "4"
    ]
    assert [schema for schema in declared if schema != problem] == []
    assert set(schemas["FaultOut"]["properties"]) == {field.name for field in fields(Fault)}
    for name in ("BatchEntryOut", "RankedJobOut", "OmittedJobOut", "OmittedOut"):
        assert problem in schemas[name]["properties"]["problem"]["anyOf"]


def test_every_operation_is_named_by_its_verb_alone(client: TestClient) -> None:
    names = [
        operation["operationId"]
        for _, _, operation in _operations(client.get("/openapi.json").json())
    ]

    assert len(set(names)) == len(names)
    assert [name for name in names if "v1" in name] == []


def test_instants_of_forecasts_are_described_as_instants(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]

    for name, member in (
        ("ForecastOut", "fitted_at"),
        ("UsedPriceOut", "valid_from"),
        ("ConversionOut", "valid_from"),
        ("UsedFactorOut", "valid_from"),
        ("LedgerOut", "created_at"),
    ):
        assert schemas[name]["properties"][member]["format"] == "date-time"


_SECURITY_HEADERS = {
    "content-security-policy",
    "cross-origin-resource-policy",
    "x-content-type-options",
    "x-frame-options",
}
_OF_EVERY_ANSWER = {"content-length", "content-type", "server-timing"} | _SECURITY_HEADERS


def test_headers_that_programs_need_are_described(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    run = {"workload": "shown", "duration_seconds": 20.0, "external_id": "ci/1"}
    key = {"Idempotency-Key": "shown"}
    requests: list[tuple[str, str, str, dict[str, Any]]] = [
        ("post", "/v1/runs", "/v1/runs", {"json": run, "headers": key}),
        ("post", "/v1/runs", "/v1/runs", {"json": run, "headers": key}),
        ("post", "/v1/runs", "/v1/runs", {"json": {**run, "duration_seconds": 9.0}}),
        ("post", "/v1/ci/reports", "/v1/ci/reports", {"json": {"runs": [run]}}),
        ("get", "/v1/prices", "/v1/prices", {"headers": {"Accept": "text/csv"}}),
        (
            "post",
            "/v1/workloads/{workload}/fits",
            "/v1/workloads/shown/fits",
            {"headers": {"Prefer": "wait=0"}},
        ),
        ("get", "/healthz", "/healthz", {}),
    ]

    for method, template, path, options in requests:
        answer = client.request(method, path, **options)
        responses = document["paths"][template][method]["responses"]
        described = {name.casefold() for name in responses[str(answer.status_code)]["headers"]}
        assert set(answer.headers) - _OF_EVERY_ANSWER <= described, (path, answer.status_code)
    assert document["paths"]["/healthz"]["get"]["security"] == []


def test_document_is_that_of_the_routes(application: FastAPI) -> None:
    assert PATH.read_text(encoding="utf-8") == encoded(describe(application)), "run make openapi"


@pytest.mark.parametrize("require_keys", [True, False])
def test_document_names_this_service_and_its_keys(
    database_url: str, tmp_path: Path, *, require_keys: bool
) -> None:
    settings = Settings(data_dir=tmp_path, database_url=database_url, require_keys=require_keys)
    with TestClient(build_app(settings)) as client:
        document = client.get("/openapi.json").json()

    assert [server["url"] for server in document["servers"]] == ["/"]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert document["security"] == [{"bearer": []}] + ([] if require_keys else [{}])
    for _, path, operation in _operations(document):
        assert operation.get("security") == (None if path.startswith("/v1/") else [])


def test_guide_lists_every_problem_code_with_its_status() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", _GUIDE.read_text(), re.MULTILINE)

    kinds = {(kind.code, str(kind.status)) for kind in problem_kinds.all_kinds()}
    assert {(code, status) for code, status, _ in listed} == kinds
    assert len(listed) == len(kinds)


def test_routes_that_documents_name_exist(client: TestClient) -> None:
    operations = [
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/:]+", path)))
        for method, path, _ in _operations(client.get("/openapi.json").json())
    ]
    documents = [_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md"), *_ROOT.glob("client/*.md")]

    unknown = {
        (path.name, method, route)
        for path in documents
        for method, route in _ROUTE.findall(path.read_text(encoding="utf-8"))
        if not any(method in {"", verb} and form.fullmatch(route) for verb, form in operations)
    }
    assert unknown == set()


def _has_example(media: dict[str, Any], schemas: dict[str, Any]) -> bool:
    schema = media["schema"]
    choices = [schema, *schema.get("anyOf", [])]
    referred = [schemas.get(each.get("$ref", "").rpartition("/")[2], {}) for each in choices]
    places = [media, schema, *referred]
    return any("example" in each or "examples" in each for each in places)


def test_every_query_parameter_is_described(client: TestClient) -> None:
    document = client.get("/openapi.json").json()

    undescribed = [
        (method, path, parameter["name"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query" and not parameter.get("description")
    ]
    assert undescribed == []


def test_every_operation_and_its_tag_are_described(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    described = {tag["name"] for tag in document["tags"] if tag["description"]}

    used = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), (method, path)
            used.update(operation["tags"])
    assert used == described


def test_every_json_body_has_an_example(client: TestClient) -> None:
    document = client.get("/openapi.json").json()

    bare = [
        (method, path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for media_type, media in operation.get("requestBody", {}).get("content", {}).items()
        if media_type == "application/json"
        and not _has_example(media, document["components"]["schemas"])
    ]
    assert bare == []


@pytest.mark.parametrize(
    "operation",
    [
        "upload_runs", "get_run", "declare_workload", "get_workload", "request_fit", "get_fit",
        "make_forecast", "ask_what_if", "make_batch", "recommend",
    ],
)  # fmt: skip
def test_answers_to_the_usual_requests_have_an_example_with_all_members(
    client: TestClient, operation: str
) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    (described,) = (
        each
        for operations in document["paths"].values()
        for each in operations.values()
        if each["operationId"] == operation
    )

    success = [answer for status, answer in described["responses"].items() if status[0] == "2"]
    for answer in success:
        media = answer["content"]["application/json"]
        assert _has_example(media, schemas)
        schema = media["schema"]
        name = schema.get("anyOf", [schema])[0]["$ref"].rpartition("/")[2]
        for example in schemas[name]["examples"]:
            assert example.keys() == schemas[name]["properties"].keys()


@pytest.mark.parametrize("model", ["WorkloadIn", "RunPatch", "FitIn", "AcknowledgeIn"])
def test_examples_of_bodies_are_taken(client: TestClient, model: str) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    requests = {
        "WorkloadIn": ("PUT", "/v1/workloads/shown", {200, 201}),
        "RunPatch": ("PATCH", "/v1/runs/run_none", {404}),
        "FitIn": ("POST", "/v1/workloads/none/fits", {404}),
        "AcknowledgeIn": ("POST", "/v1/ci/reports/ci_none:acknowledge", {404}),
    }
    method, path, taken = requests[model]

    for example in schemas[model]["examples"]:
        assert client.request(method, path, json=example).status_code in taken


def test_document_tells_of_tokens_and_of_both_origins(client: TestClient) -> None:
    document = client.get("/openapi.json").json()

    assert "OpenID Connect" in document["components"]["securitySchemes"]["bearer"]["description"]
    for path, origin in (("/v1/prices", "catalogue"), ("/v1/grid-factors", "built_in")):
        [said] = [
            parameter["description"]
            for parameter in document["paths"][path]["get"]["parameters"]
            if parameter["name"] == "origin"
        ]
        assert "own" in said
        assert origin in said


def test_no_schema_is_named_for_the_module_that_it_stands_in(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]

    assert [name for name in schemas if "__" in name] == []
