"""Allocations through the door in which no job gets anything: an answer that says why."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.allocations import Goal
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor


def allocate(client: TestClient, goal: Goal, *jobs: dict[str, Any], **changes: Any) -> Any:
    body = {"capacity": {"T4": 8}, "jobs": jobs, "objective": goal, **changes}
    answer = client.post("/v1/schedules:allocate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def job(ref: str, **changes: Any) -> dict[str, Any]:
    return {"ref": ref, "workload": "fitted", "work": {"dataset_size": 2000.0}, **changes}


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize("capacity", [{"T4": 8}, {"T4": 4, "L4": 2}])
def test_where_nothing_can_be_placed_every_job_says_why(
    client: TestClient, services: Services, clock: FakeClock, goal: Goal, capacity: dict[str, int]
) -> None:
    publish_regressor(services)
    soon = (clock() + timedelta(seconds=1)).isoformat()
    past = (clock() - timedelta(days=1)).isoformat()

    answer = allocate(
        client,
        goal,
        job("late", deadline=soon, parameters={"precision": "fp16"}),
        job("past", deadline=past, parameters={"precision": "fp16"}),
        job("new", workload="nobody"),
        job("huge", min_workers=9, parameters={"precision": "fp16"}),
        capacity=capacity,
    )

    assert answer["allocated"] == []
    assert {entry["ref"]: entry["reason"] for entry in answer["left_out"]} == {
        "late": "deadline",
        "past": "deadline",
        "new": "no_forecast",
        "huge": "too_large",
    }
    assert (answer["exact"], answer["gap"]) == (True, 0.0)


def test_job_that_cannot_end_on_spot_capacity_says_so(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    terms = {"interruptions_per_hour": 600, "restart_s": 600}
    pricing = {"purchase": "spot", "price_per_hour": "1.00", "spot": terms}
    asked = job("spot", parameters={"precision": "fp16"})

    answer = allocate(client, Goal.THROUGHPUT, asked, pricing=pricing)

    [left_out] = answer["left_out"]
    assert (left_out["reason"], left_out["problem"]["code"]) == ("no_forecast", "spot_infeasible")


@pytest.mark.parametrize(
    ("limits", "reason", "words"),
    [
        ({"gpu_types": ["H100"]}, "no_such_gpu", "the capacity has none of its GPU types"),
        ({"gpu_types": ["H100"], "min_workers": 9}, "no_such_gpu", "none of its GPU types"),
        ({"worker_counts": [2], "min_workers": 4}, "no_worker_count", "none of its worker counts"),
        ({"worker_counts": [6], "max_workers": 4}, "no_worker_count", "none of its worker counts"),
        ({"worker_counts": [2, 16], "min_workers": 4}, "too_large", "its minimum of workers"),
        ({"gpu_types": ["H100", "t4"], "min_workers": 9}, "too_large", "its minimum of workers"),
    ],
)
def test_job_that_no_forecast_could_place_says_what_keeps_it_out(
    client: TestClient, services: Services, limits: dict[str, Any], reason: str, words: str
) -> None:
    publish_regressor(services)
    body = {"capacity": {"T4": 8}, "jobs": [job("out", **limits)]}

    answer = client.post("/v1/schedules:allocate", json=body)
    said = client.post("/v1/schedules:allocate", json=body, headers={"Accept": "text/plain"}).text

    assert [entry["reason"] for entry in answer.json()["left_out"]] == [reason]
    assert words in said


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize("capacity", [{"T4": 6}, {"T4": 6, "L4": 0}, {"T4": 6, "L4": 2}])
def test_running_job_without_a_forecast_keeps_its_gpus(
    client: TestClient, services: Services, goal: Goal, capacity: dict[str, int]
) -> None:
    publish_regressor(services)
    running = job("running", workload="nobody", current={"gpu_type": "tesla t4", "workers": 4})

    answer = allocate(
        client, goal, job("a", parameters={"precision": "fp16"}), running, capacity=capacity
    )

    (left_out,) = answer["left_out"]
    assert left_out["reason"] == "no_forecast"
    assert left_out["keeps"] == {"gpu_type": "T4", "workers": 4, "batch_size": None}
    assert [entry["ref"] for entry in answer["allocated"]] == ["a"]
    given = sum(e["workers"] for e in answer["allocated"] if e["gpu_type"] == "T4")
    assert answer["used"]["T4"] == 4 + given <= 6


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"deadline": "2020-01-01T00:00:00Z"}, "deadline"),
        ({"worker_counts": [2], "min_workers": 4}, "no_worker_count"),
        ({"gpu_types": ["H100"]}, "no_such_gpu"),
    ],
)
def test_running_job_without_an_option_keeps_its_gpus(
    client: TestClient, services: Services, changes: dict[str, Any], reason: str
) -> None:
    publish_regressor(services)
    fp16 = {"parameters": {"precision": "fp16"}}
    running = job("running", current={"gpu_type": "T4", "workers": 5}, **fp16, **changes)
    body = {"capacity": {"T4": 8}, "jobs": [running, job("a", **fp16), job("b", **fp16)]}

    answer = client.post("/v1/schedules:allocate", json=body).json()
    said = client.post("/v1/schedules:allocate", json=body, headers={"Accept": "text/plain"}).text

    assert [(e["reason"], e["keeps"]["workers"]) for e in answer["left_out"]] == [(reason, 5)]
    assert sum(entry["workers"] for entry in answer["allocated"]) <= 3
    assert said.startswith(f"3 jobs on {answer['used']['T4']} of 8 x T4.")
    assert "\nrunning keeps 5 x T4: " in said


def test_shortage_beside_kept_gpus_names_them(client: TestClient, services: Services) -> None:
    publish_regressor(services)
    running = job("running", workload="nobody", current={"gpu_type": "T4", "workers": 6})
    wide = job("wide", min_workers=3, parameters={"precision": "fp16"})
    body = {"capacity": {"T4": 8}, "jobs": [running, wide]}

    answer = client.post("/v1/schedules:allocate", json=body)
    left_out = allocate(client, Goal.THROUGHPUT, running, wide, on_shortage="leave_out")

    assert (answer.status_code, answer.json()["code"]) == (422, "insufficient_capacity")
    assert "2 are offered besides the 6 that running jobs keep." in answer.json()["detail"]
    reasons = {entry["ref"]: entry["reason"] for entry in left_out["left_out"]}
    assert reasons == {"running": "no_forecast", "wide": "capacity"}


def test_more_gpus_held_than_there_are_leave_none(client: TestClient, services: Services) -> None:
    publish_regressor(services)
    running = job("running", workload="nobody", current={"gpu_type": "T4", "workers": 12})
    elsewhere = job("elsewhere", workload="nobody", current={"gpu_type": "H100", "workers": 2})
    new = job("new", parameters={"precision": "fp16"})

    answer = allocate(client, Goal.MAKESPAN, running, elsewhere, new, on_shortage="leave_out")

    assert (answer["used"], answer["allocated"]) == ({"T4": 8}, [])
    keeps = {entry["ref"]: entry["keeps"] for entry in answer["left_out"]}
    assert keeps["new"] is None
    assert keeps["elsewhere"]["gpu_type"] == "H100"


@pytest.mark.parametrize("goal", Goal)
@pytest.mark.parametrize("capacity", [{"T4": 0}, {"T4": 0, "L4": 0}])
def test_where_no_gpu_is_free_every_job_is_too_large(
    client: TestClient, services: Services, goal: Goal, capacity: dict[str, int]
) -> None:
    publish_regressor(services)
    fp16 = {"parameters": {"precision": "fp16"}}

    answer = allocate(client, goal, job("a", **fp16), job("b", **fp16), capacity=capacity)

    assert [entry["reason"] for entry in answer["left_out"]] == ["too_large", "too_large"]
    assert (answer["allocated"], answer["used"]) == ([], capacity)
    assert (answer["exact"], answer["gap"]) == (True, 0.0)


def test_gpu_type_on_which_nothing_can_be_forecast_is_named(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    fp16 = {"parameters": {"precision": "fp16"}}
    capacity = {"T4": 2, "V100": 4, "A100-40GB": 2}
    body = {"capacity": capacity, "jobs": [job("a", **fp16), job("new", workload="nobody")]}

    answer = client.post("/v1/schedules:allocate", json=body).json()
    said = client.post("/v1/schedules:allocate", json=body, headers={"Accept": "text/plain"}).text

    (left_out,) = answer["left_out_types"]
    assert (left_out["gpu_type"], left_out["reason"]) == ("V100", "no_forecast")
    assert left_out["problem"]["code"] == "ambiguous_gpu"
    assert "\nNo job gets V100: it cannot be forecast (GPU type 'V100' is ambiguous: " in said


def test_gpu_type_without_a_price_is_named_where_costs_decide(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    price = {"provider": "lab", "region": "here", "currency": "USD", "source": "invoice"}
    price |= {"gpu_type": "T4", "price_per_hour": "0.5", "valid_from": "2020-01-01"}
    assert client.post("/v1/prices", json=[price]).status_code == 201
    changes = {"capacity": {"T4": 2, "L4": 2}, "pricing": {"provider": "lab"}}
    only = job("a", parameters={"precision": "fp16"})

    cheapest, fastest = (
        allocate(client, goal, only, **changes) for goal in (Goal.COST, Goal.MEAN_COMPLETION)
    )

    assert cheapest["left_out_types"] == [
        {"gpu_type": "L4", "reason": "price_unknown", "problem": None}
    ]
    assert fastest["left_out_types"] == []


def test_types_on_which_no_job_at_all_can_be_forecast_are_not_named_again(
    client: TestClient,
) -> None:
    answer = allocate(client, Goal.COST, job("new", workload="nobody"))

    assert [entry["reason"] for entry in answer["left_out"]] == ["no_forecast"]
    assert answer["left_out_types"] == []


@pytest.mark.parametrize("goal", Goal)
def test_no_job_is_an_allocation_of_nothing(
    client: TestClient, services: Services, goal: Goal
) -> None:
    answer = allocate(client, goal)

    assert (answer["allocated"], answer["left_out"], answer["exact"]) == ([], [], True)
