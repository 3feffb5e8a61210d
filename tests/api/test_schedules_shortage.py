"""GPUs shared out through the door where the minimum demands of the jobs do not fit."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def job(ref: str, **changes: Any) -> dict[str, Any]:
    parameters = {"precision": "fp16"}
    work = {"dataset_size": 2000.0}
    return {"ref": ref, "workload": "fitted", "work": work, "parameters": parameters, **changes}


def send(client: TestClient, *jobs: dict[str, Any], **changes: Any) -> Any:
    body = {"capacity": {"T4": 8}, "jobs": jobs, **changes}
    return client.post("/v1/schedules:allocate", json=body)


def refs_of(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["ref"] for entry in entries}


def test_minimums_that_do_not_fit_name_what_would(client: TestClient, published: Services) -> None:
    jobs = [job("a", min_workers=5), job("b", min_workers=4, weight=2), job("c", min_workers=3)]

    refused = send(client, *jobs)
    granted = send(client, *jobs, on_shortage="leave_out").json()

    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (422, "insufficient_capacity")
    assert "need at least 12 GPUs together; 8 are offered" in problem["detail"]
    assert "These would fit: b, c." in problem["detail"]
    assert [fault["value"] for fault in problem["errors"]] == ["a"]
    [left_out] = granted["left_out"]
    assert (left_out["ref"], left_out["reason"]) == ("a", "capacity")
    assert refs_of(granted["allocated"]) == {"b", "c"}


def test_single_gpu_is_told_in_the_singular(client: TestClient, published: Services) -> None:
    problem = send(client, job("a"), job("b"), capacity={"T4": 1}).json()

    assert "need at least 2 GPUs together; 1 is offered." in problem["detail"]


def test_shortage_of_one_type_is_told_where_there_are_enough_gpus_of_all(
    client: TestClient, published: Services
) -> None:
    jobs = [job("a", gpu_types=["T4"]), job("b", gpu_types=["T4"])]

    problem = send(client, *jobs, capacity={"T4": 1, "L4": 10}).json()

    assert problem["code"] == "insufficient_capacity"
    assert problem["detail"].startswith(
        "The jobs need at least 2 GPUs together; 11 are offered, but each job needs its GPUs of one"
        " type. These would fit: "
    )
    [fault] = problem["errors"]
    assert fault["message"] == "Needs at least 1 GPU besides the jobs that fit."


def test_shortage_leaves_out_for_every_objective(client: TestClient, published: Services) -> None:
    jobs = [job("a", min_workers=5), job("b", min_workers=5, weight=2)]

    answer = send(client, *jobs, on_shortage="leave_out", objective="makespan").json()

    assert refs_of(answer["allocated"]) == {"b"}
