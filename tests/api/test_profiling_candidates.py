"""Which configurations a profiling plan considers where its search names none."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.uploads import make_json_run, post_json


@pytest.fixture(autouse=True)
def _measured_on_one_node(client: TestClient) -> None:
    configuration = {"gpu_type": "T4", "nodes": 1, "workers": 4}
    work = {"dataset_size": 8000}
    run = make_json_run(workload="planned", configuration=configuration, work=work)
    assert post_json(client, [run]).status_code == 201


def candidates(client: TestClient, workers: int, **work: float) -> list[dict[str, Any]]:
    """Return every candidate of a plan for a target."""
    body = {
        "target": {"configuration": {"gpu_type": "T4", "workers": workers}, "work": work},
        "runs": 100,
        "stop": {"min_narrowing": 0},
        "pricing": {"price_per_hour": "1.00"},
    }
    answer = client.post("/v1/workloads/planned/profiling-plans", json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    found: list[dict[str, Any]] = [*plan["runs"], *plan["rejected"]]
    assert len(found) == plan["considered"]
    return found


def sizes(found: list[dict[str, Any]], part: str, name: str) -> list[float]:
    return sorted({each[part][name] for each in found})


def test_workers_are_the_powers_of_two_and_those_of_the_target(client: TestClient) -> None:
    found = candidates(client, 6, dataset_size=8000)

    assert sizes(found, "configuration", "workers") == [1, 2, 4, 6]


def test_no_more_workers_share_one_node_than_were_measured_on_one(client: TestClient) -> None:
    found = [each["configuration"] for each in candidates(client, 8, dataset_size=8000)]

    assert {each["workers"]: each["nodes"] for each in found} == {1: 1, 2: 1, 4: 1, 8: None}


@pytest.mark.parametrize(
    ("size", "shares"), [(8000, [1000, 2000, 4000, 8000]), (3, [1, 2, 3]), (0.5, [0.0625, 0.125])]
)
def test_shares_of_whole_numbers_are_whole_and_not_zero(
    client: TestClient, size: float, shares: list[float]
) -> None:
    found = candidates(client, 1, dataset_size=size)

    assert sizes(found, "work", "dataset_size")[: len(shares)] == shares


@pytest.mark.parametrize(("asked", "tried"), [(90, [1, 90]), (1, [1]), (0.5, [0.5])])
def test_a_single_epoch_is_tried_where_more_are_asked_for(
    client: TestClient, asked: float, tried: list[float]
) -> None:
    found = candidates(client, 1, dataset_size=8000, epochs=asked)

    assert sizes(found, "work", "epochs") == tried
