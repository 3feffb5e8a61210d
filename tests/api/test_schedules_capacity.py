"""Demand for GPUs through the door: what is needed, what may be switched off."""

import re
from datetime import datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor

HOUR_LONG = 14_000.0
"""The dataset size that takes two workers about an hour."""


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def job(ref: str, size: float = HOUR_LONG, workers: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "ref": ref,
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": size},
        "parameters": {"precision": "fp16"},
        **changes,
    }


def view(client: TestClient, **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/schedules:capacity", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def seconds_until_end(answer: dict[str, Any]) -> float:
    [demand] = answer["demand"]
    begins_at = datetime.fromisoformat(demand["hours"][0]["begins_at"])
    return (datetime.fromisoformat(demand["ends_at"]) - begins_at).total_seconds()


def test_running_job_holds_its_gpus_until_it_ends(client: TestClient, published: Services) -> None:
    answer = view(client, running=[job("a")], capacity={"T4": 8}, hours=6)

    [demand] = answer["demand"]
    hours = demand["hours"]
    assert demand["gpu_type"] == "T4"
    assert [hours[0]["upper_gpus"], hours[0]["may_switch_off"]] == [2, 6]
    assert hours[0]["expected_gpus"] == pytest.approx(2.0, rel=0.2)
    assert [hours[5]["upper_gpus"], hours[5]["may_switch_off"]] == [0, 8]
    assert demand["ends_at"] is not None


def test_progress_frees_gpus_earlier(client: TestClient, published: Services) -> None:
    whole = view(client, running=[job("a")], hours=2)
    nearly = view(client, running=[job("a", progress=0.9)], hours=2)

    expected = [each["demand"][0]["hours"][0]["expected_gpus"] for each in (whole, nearly)]
    assert expected[1] == pytest.approx(expected[0] / 10, rel=0.2)


def test_queued_jobs_wait_for_their_turn_where_the_capacity_is_told(
    client: TestClient, published: Services
) -> None:
    queued = [job("b", workers=2), job("c", workers=2)]

    limited = view(client, queued=queued, capacity={"T4": 2}, hours=4)
    free = view(client, queued=queued, hours=4)

    first = [each["demand"][0]["hours"][0] for each in (limited, free)]
    assert [each["upper_gpus"] for each in first] == [2, 4]
    assert first[1]["may_switch_off"] is None
    assert limited["demand"][0]["hours"][1]["upper_gpus"] == 2


def test_queue_of_one_workload_is_late_as_a_whole(client: TestClient, published: Services) -> None:
    one, many = (
        view(
            client, queued=[job(str(row)) for row in range(n)], capacity={"T4": 2}, confidence=0.95
        )
        for n in (1, 16)
    )

    ends_s = [seconds_until_end(answer) for answer in (one, many)]
    assert ends_s[1] == pytest.approx(16 * ends_s[0], rel=0.05)


def test_each_type_has_its_own_demand_and_idle_ones_are_told(
    client: TestClient, published: Services
) -> None:
    other = job("b", configuration={"gpu_type": "L4", "workers": 1})

    answer = view(client, running=[job("a"), other], capacity={"t4": 4, "A100-40GB": 3}, hours=1)

    demands = {entry["gpu_type"]: entry for entry in answer["demand"]}
    assert set(demands) == {"t4", "A100-40GB", "L4"}
    assert demands["A100-40GB"]["hours"][0]["may_switch_off"] == 3
    assert demands["L4"]["capacity"] is None


def test_jobs_that_are_not_counted_say_why(client: TestClient, published: Services) -> None:
    answer = view(
        client,
        queued=[job("new", workload="nobody"), job("huge", workers=16)],
        capacity={"T4": 8},
    )

    assert {entry["ref"]: entry["reason"] for entry in answer["left_out"]} == {
        "new": "no_forecast",
        "huge": "too_large",
    }


def test_queued_job_on_a_type_without_gpus_is_not_counted(
    client: TestClient, published: Services
) -> None:
    answer = view(client, queued=[job("a")], capacity={"T4": 0, "L4": 4})

    demands = {entry["gpu_type"]: entry for entry in answer["demand"]}
    assert demands["T4"]["hours"][0]["may_switch_off"] == 0
    assert demands["L4"]["hours"][0]["may_switch_off"] == 4
    assert [(entry["ref"], entry["reason"]) for entry in answer["left_out"]] == [("a", "too_large")]


def test_running_job_without_a_forecast_holds_its_gpus_throughout(
    client: TestClient, published: Services
) -> None:
    answer = view(
        client,
        running=[job("a"), job("new", workers=3, workload="nobody")],
        queued=[job("b", workers=2), job("c", workers=6)],
        capacity={"T4": 8},
        hours=6,
    )

    [demand] = answer["demand"]
    hours = demand["hours"]
    assert [hours[0]["upper_gpus"], hours[0]["may_switch_off"]] == [7, 1]
    assert [hours[5]["lower_gpus"], hours[5]["expected_gpus"]] == [3, 3.0]
    assert demand["ends_at"] is None
    assert [(entry["ref"], entry["reason"]) for entry in answer["left_out"]] == [
        ("new", "no_forecast")
    ]


def test_running_jobs_hold_their_gpus_even_beyond_the_capacity(
    client: TestClient, published: Services
) -> None:
    running = [job("a", workers=3), job("b", workers=3), job("wide", size=2 * HOUR_LONG, workers=8)]

    both = view(client, running=running[:2], queued=[job("c")], capacity={"T4": 4}, hours=1)
    wide = view(client, running=running[2:], queued=[job("c")], capacity={"T4": 4}, hours=1)

    [first], [second] = (answer["demand"][0]["hours"] for answer in (both, wide))
    assert [first["lower_gpus"], first["upper_gpus"], first["may_switch_off"]] == [6, 6, 0]
    assert [second["lower_gpus"], second["upper_gpus"], second["may_switch_off"]] == [8, 8, 0]
    assert both["left_out"] == wide["left_out"] == []


def test_same_seed_gives_the_same_answer(client: TestClient, published: Services) -> None:
    body = {"queued": [job("a"), job("b")], "capacity": {"T4": 2}, "seed": 7}

    assert view(client, **body) == view(client, **body)


def test_ref_of_a_running_job_is_not_queued_again(client: TestClient, published: Services) -> None:
    body = {"running": [job("a")], "queued": [job("b"), job("a")]}

    answer = client.post("/v1/schedules:capacity", json=body)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/queued/1/ref"


def test_table_joins_equal_hours(client: TestClient, published: Services) -> None:
    text = {"Accept": "text/plain"}
    body = {
        "running": [job("a")],
        "queued": [job("new", workload="nobody"), job("huge", workers=99)],
        "capacity": {"T4": 8},
    }

    answer = client.post("/v1/schedules:capacity", json=body, headers=text)
    empty = client.post("/v1/schedules:capacity", json={}, headers=text)

    lines = answer.text.splitlines()
    assert lines[0].startswith("T4, 8 GPUs; all ended by 20")
    assert lines[2].split()[:2] == ["from", "expected"]
    assert re.match(r"\d\d-\d\d \d\d:\d\dZ ", lines[3])
    assert len(lines) < 12
    assert "huge is not counted: it never fits." in lines
    assert empty.text == "No jobs.\n"


def test_job_that_is_resized_holds_its_new_gpus_while_it_restarts(
    client: TestClient, published: Services
) -> None:
    moved: dict[str, Any] = {"current": {"gpu_type": "T4", "workers": 4}, "progress": 0.5}

    kept = view(client, running=[job("a", progress=0.5)], hours=3)
    same = view(
        client,
        running=[job("a", current={"gpu_type": "t4", "workers": 2}, progress=0.5)],
        hours=3,
    )
    resized = view(client, running=[job("a", restart_s=1800, **moved)], hours=3)
    elsewhere = view(client, running=[job("a", restart_s=1800, elapsed_s=9000, **moved)], hours=3)

    def gpu_hours(answer: dict[str, Any]) -> float:
        return sum(float(hour["expected_gpus"]) for hour in answer["demand"][0]["hours"])

    assert gpu_hours(same) == gpu_hours(kept)
    assert gpu_hours(resized) == pytest.approx(gpu_hours(kept) + 2 * 0.5, rel=1e-6)
    assert gpu_hours(elsewhere) == gpu_hours(resized)


@pytest.mark.parametrize("path", ["/v1/schedules:capacity", "/v1/schedules:allocate"])
def test_gpu_type_in_two_spellings_is_refused(client: TestClient, path: str) -> None:
    body: dict[str, Any] = {"capacity": {"T4": 8, "t4": 8}}
    body |= {"jobs": []} if path.endswith("allocate") else {"running": [], "queued": []}

    problem = client.post(path, json=body).json()

    assert "are one GPU type" in problem["errors"][0]["message"]


def test_jobs_on_other_spellings_of_a_gpu_need_its_capacity(
    client: TestClient, published: Services
) -> None:
    other = {"gpu_type": "Tesla T4", "workers": 2}

    answer = view(
        client, running=[job("a"), job("b", configuration=other)], capacity={"T4": 8}, hours=2
    )
    untold = view(client, running=[job("a"), job("b", configuration=other)], hours=2)

    [demand] = answer["demand"]
    assert (demand["gpu_type"], demand["hours"][0]["upper_gpus"]) == ("T4", 4)
    assert len(untold["demand"]) == 1


def test_job_on_a_machine_of_known_gpu_holds_gpus_of_that_type(
    client: TestClient, published: Services
) -> None:
    machine = {"instance_type": "g4dn.xlarge", "workers": 2}
    body = {"queued": [job("b", workers=4)], "capacity": {"T4": 4}, "hours": 1}

    alone = view(client, running=[job("a", configuration=machine)], capacity={"T4": 4}, hours=1)
    shared = view(client, running=[job("a", configuration=machine)], **body)

    [demand] = alone["demand"]
    assert (demand["gpu_type"], demand["hours"][0]["may_switch_off"]) == ("T4", 2)
    [demand] = shared["demand"]
    assert demand["hours"][0]["expected_gpus"] < 3


@pytest.mark.parametrize(
    ("current", "restarts"), [("Tesla T4", False), ("any", False), ("A100-40GB", True)]
)
def test_job_on_a_machine_of_known_gpu_restarts_where_it_stood_on_another(
    client: TestClient, published: Services, current: str, *, restarts: bool
) -> None:
    machine = {"instance_type": "g4dn.xlarge", "workers": 2}
    placed: dict[str, Any] = {"current": {"gpu_type": current, "workers": 2}, "restart_s": 7200}

    kept = view(client, running=[job("a", configuration=machine)], hours=4)
    moved = view(client, running=[job("a", configuration=machine, **placed)], hours=4)

    assert (moved != kept) is restarts


def test_past_of_a_moved_job_does_not_count_even_if_moving_takes_no_time(
    client: TestClient, published: Services
) -> None:
    moved: dict[str, Any] = {"current": {"gpu_type": "T4", "workers": 8}, "restart_s": 0}

    known, unknown = (
        view(client, running=[job("a", progress=0.5, elapsed_s=elapsed_s, **moved)], hours=3)
        for elapsed_s in (20_000, None)
    )

    expected = [
        [hour["expected_gpus"] for hour in answer["demand"][0]["hours"]]
        for answer in (known, unknown)
    ]
    assert expected[0] == expected[1]
