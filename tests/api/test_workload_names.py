"""A misspelt workload is refused with the name that is meant."""

import sys
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug, parse_slug
from app.services.wiring import Services
from tests.support.queries import recorded_queries

_QUESTION = {"workload": "ddp-cnn-cpx", "configuration": {"workers": 1}}


@pytest.fixture(autouse=True)
def _workloads(client: TestClient) -> None:
    for name in ("resnet50", "ddp-cnn-cpu", "bert"):
        client.put(f"/v1/workloads/{name}", json={})


def _detail(answer: httpx2.Response) -> Any:
    assert answer.json()["code"] == "unknown_workload"
    return answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/runs"),
        ("POST", "/fits"),
        ("GET", "/fits"),
        ("GET", "/regressors"),
        ("GET", "/forecast"),
        ("GET", "/curve"),
    ],
)
def test_every_resource_of_a_misspelt_workload_names_the_nearest(
    client: TestClient, method: str, path: str
) -> None:
    answer = client.request(method, f"/v1/workloads/ddp-cnn-cpx{path}")

    assert _detail(answer) == (
        "There is no workload 'ddp-cnn-cpx'. The nearest name is 'ddp-cnn-cpu'."
    )


def test_batch_names_the_nearest(client: TestClient) -> None:
    answer = client.post("/v1/forecasts:batch", json={"requests": [_QUESTION]})

    problem = answer.json()["forecasts"][0]["problem"]
    assert problem["detail"].endswith("The nearest name is 'ddp-cnn-cpu'.")


def test_name_that_is_like_none_stands_alone(client: TestClient) -> None:
    answer = client.get("/v1/workloads/llama")

    assert _detail(answer) == "There is no workload 'llama'."


def test_nearest_name_is_of_the_own_project(client: TestClient, services: Services) -> None:
    services.access.create_key("other", [], project="other")
    other = next(
        project.project_id for _, project in services.access.list_keys() if project.name == "other"
    )
    assert other != DEFAULT_PROJECT
    with services.context.database.transaction() as stores:
        stores.workloads.claim(other, [Slug("vgg16")], services.context.now())

    answer = client.get("/v1/workloads/vgg19")

    assert "nearest" not in _detail(answer)


def test_nearest_of_many_names_is_found_by_one_query(
    client: TestClient, services: Services
) -> None:
    many = [Slug(f"workload-{number}") for number in range(300)]
    with services.context.database.transaction() as stores:
        stores.workloads.claim(DEFAULT_PROJECT, many, services.context.now())

    with recorded_queries(services.context.database) as queries:
        answer = client.get("/v1/workloads/ddp-cnn-cpx")

    assert "'ddp-cnn-cpu'" in _detail(answer)
    assert sum("length" in query.casefold() for query in queries) == 1


def test_report_that_makes_a_workload_tells_of_one_of_nearly_the_same_name(
    client: TestClient,
) -> None:
    run = {"workload": "ddp-cnn-cpx", "duration_seconds": 10.0}
    report = {"runs": [run], "commit": "c", "branch": "b"}

    [judged] = client.post("/v1/ci/reports", json=report).json()["runs"]

    assert judged["reason"] == (
        "These are the first runs of the workload."
        " There is a workload with nearly the same name, 'ddp-cnn-cpu'."
    )


def test_long_text_that_is_no_name_is_not_kept() -> None:
    text = "x" * 1000
    references = sys.getrefcount(text)

    assert parse_slug(text) is None

    assert sys.getrefcount(text) == references
