"""Plans for targets on hardware that neither a run nor a candidate has."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor

TARGET = {
    "configuration": {"gpu_type": "H100", "workers": 8},
    "work": {"dataset_size": 2000},
    "parameters": {"precision": "fp16"},
}
WARNING = {
    "code": "never_measured",
    "message": "No run and no candidate has gpu_type H100, a target has: no run of this plan shows"
    " what it changes.",
    "remedy": "Include gpu_type H100 in candidates or search.",
}


def warnings(client: TestClient, workload: str, **changes: Any) -> list[dict[str, str]]:
    answer = client.post(
        f"/v1/workloads/{workload}/profiling-plans", json={"target": TARGET, "runs": 2} | changes
    )
    assert answer.status_code == 200, answer.text
    return [each for each in answer.json()["warnings"] if each["code"] == "never_measured"]


@pytest.fixture
def measured(client: TestClient, services: Services) -> None:
    publish_regressor(services)
    run = {"workload": "unfitted", "duration_seconds": 5.0, "configuration": {"gpu_type": "T4"}}
    assert client.post("/v1/runs", json=run).status_code == 201


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("workload", ["fitted", "unfitted"])
def test_a_target_whose_gpu_no_candidate_has_is_warned_of(
    client: TestClient, workload: str
) -> None:
    assert warnings(client, workload) == [WARNING]


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("workload", ["fitted", "unfitted"])
def test_a_search_that_names_the_gpu_is_not_warned_of(client: TestClient, workload: str) -> None:
    search = {"gpu_types": ["T4", "h100"], "workers": [1, 8]}

    assert warnings(client, workload, search=search) == []


def test_what_runs_varied_is_known_even_where_no_candidate_varies_it(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    target = TARGET | {"configuration": {"gpu_type": "T4", "workers": 8}}
    candidate = target | {"work": {"dataset_size": 1000}}

    body = {"target": target, "candidates": [candidate], "repeat": True}
    answer = client.post("/v1/workloads/fitted/profiling-plans", json=body)

    assert answer.json()["considered"] == 1
    assert [each["code"] for each in answer.json()["warnings"]] == []
