"""Query parameters that a route does not know are refused: a typo never becomes a default."""

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor

pytestmark = pytest.mark.lengthy

PRICE = {"gpu_type": "H100", "gpu_count": 1, "price_per_hour": "8", "source": "list"}
FORECAST = {"workload": "fitted", "configuration": {"gpu_type": "T4", "workers": 4}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/prices?dry_run=true", PRICE),
        ("/v1/workloads/fitted/fits?publish=never", None),
        ("/v1/forecasts?record=false", FORECAST),
        ("/v1/forecasts:batch?fields=cost", {"requests": [FORECAST]}),
        ("/v1/workloads/fitted/regressors/1:publish?dry_run=true", None),
    ],
)
def test_query_of_a_route_without_one_is_refused_and_does_nothing(
    client: TestClient, services: Services, path: str, body: object
) -> None:
    publish_regressor(services)
    before = client.get("/v1/workloads/fitted/fits").json()

    answer = client.post(path, json=body)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "unknown_field")
    [fault] = problem["errors"]
    assert fault["field"] == path.partition("?")[2].partition("=")[0]
    assert "there are no query parameters here" in fault["message"]
    assert client.get("/v1/prices?origin=own").json()["prices"] == []
    assert client.get("/v1/workloads/fitted/fits").json() == before


def test_typo_is_told_the_parameter_it_means(client: TestClient) -> None:
    answer = client.get("/v1/prices?page_sise=3")

    assert answer.status_code == 422
    assert "page_size" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1/runs?dry_run=true&dry_run=false", "dry_run"),
        ("GET", "/v1/workloads/fitted/runs?status=failed&status=succeeded", "status"),
        ("GET", "/v1/workloads/fitted/curve?workers=4&to=8&to=16", "to"),
    ],
)
def test_second_value_of_a_parameter_is_not_passed_over(
    client: TestClient, services: Services, method: str, path: str, name: str
) -> None:
    publish_regressor(services)
    before = client.get("/v1/workloads").json()

    answer = client.request(method, path, json={"workload": "new", "duration_seconds": 5})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert [fault["field"] for fault in answer.json()["errors"]] == [name]
    assert client.get("/v1/workloads").json() == before


def test_same_value_may_come_twice(client: TestClient) -> None:
    assert client.get("/v1/workloads?page_size=2&page_size=2").status_code == 200


def test_what_if_reads_its_own_query(client: TestClient, services: Services) -> None:
    publish_regressor(services)
    asked = "gpu_type=T4&dataset_size=2000&param.precision=fp16"

    assert client.get(f"/v1/workloads/fitted/forecast?{asked}&workers=4,8").status_code == 200
    assert client.get(f"/v1/workloads/fitted/curve?{asked}&over=workers").status_code == 200


def test_probes_take_whatever_is_sent_along(client: TestClient) -> None:
    assert client.get("/healthz?from=balancer").status_code == 200
