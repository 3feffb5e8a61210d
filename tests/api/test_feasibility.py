"""Runs out of memory and measured peaks show in forecasts, recommendations and the registry."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

pytestmark = pytest.mark.lengthy

GIB = 2**30


def run(batch: int, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "hungry",
        "duration_seconds": 100.0 + 3200.0 / batch,
        "configuration": {"gpu_type": "T4", "workers": 1},
        "work": {"dataset_size": 1000, "batch_size": batch},
        **changes,
    }


@pytest.fixture
def fitted(client: TestClient, services: Services) -> TestClient:
    runs = [
        run(batch, resources={"peak_gpu_memory_bytes": GIB * (1 + batch / 16)})
        for batch in (16, 32, 64, 128)
    ]
    runs += [run(512, status="out_of_memory", duration_seconds=5.0)]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "hungry")
    return client


def ask(client: TestClient, batch: int, **changes: Any) -> dict[str, Any]:
    answer = client.post(
        "/v1/forecasts",
        json={
            "workload": "hungry",
            "configuration": {"gpu_type": "T4", "workers": 1},
            "work": {"dataset_size": 1000, "batch_size": batch},
            **changes,
        },
    )
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_forecast_says_whether_the_job_fits(fitted: TestClient) -> None:
    small, large = ask(fitted, 64), ask(fitted, 2048)

    assert small["feasibility"]["fits_probability"] > 0.95
    assert large["feasibility"]["fits_probability"] < 0.05
    assert large["feasibility"]["basis"] == "4 measured peaks of memory, 1 run out of memory"
    assert "may_not_fit" in {warning["code"] for warning in large["warnings"]}
    assert "may_not_fit" not in {warning["code"] for warning in small["warnings"]}


def test_a_gpu_with_more_memory_is_known_to_do(fitted: TestClient) -> None:
    tight = ask(fitted, 300)["feasibility"]["fits_probability"]
    roomy = ask(fitted, 300, configuration={"gpu_type": "A100-80GB", "workers": 1})

    assert tight < 0.2
    assert roomy["feasibility"]["fits_probability"] > 0.9


def test_recommendation_rejects_what_does_not_fit(fitted: TestClient) -> None:
    answer = fitted.post(
        "/v1/recommendations",
        json={
            "workload": "hungry",
            "work": {"dataset_size": 1000, "batch_size": 1024},
            "search": {"workers": [1, 2, 16]},
            "objective": "duration",
        },
    ).json()

    rejected = {entry["configuration"]["workers"]: entry["reason"] for entry in answer["rejected"]}
    assert rejected == {1: "out_of_memory", 2: "out_of_memory"}
    assert [entry["forecast"]["configuration"]["workers"] for entry in answer["ranked"]] == [16]


def test_registry_says_what_the_fit_took_from_other_runs(fitted: TestClient) -> None:
    version = fitted.get("/v1/workloads/hungry/regressors/1").json()

    assert version["runs_used"] == 4
    assert version["evidence"] == {
        "memory": {"measured_peaks": 4, "out_of_memory": 1, "succeeded": 0},
        "unfinished": {"as_lower_bounds": 0, "by_progress": 0, "uninformative": 0},
        "incomplete": 0,
        "change_points": [],
        "outliers": [],
        "convergence": None,
        "jitter": None,
    }


def test_profiling_plan_measures_nothing_that_would_run_out_of_memory(fitted: TestClient) -> None:
    scenarios = [
        {name: run(batch)[name] for name in ("configuration", "work")} for batch in (96, 512, 2048)
    ]

    plan = fitted.post(
        "/v1/workloads/hungry/profiling-plans",
        json={"target": scenarios[0], "candidates": scenarios, "stop": {"min_narrowing": 0}},
    ).json()

    rejected = {each["work"]["batch_size"]: each["reason"] for each in plan["rejected"]}
    assert rejected == {512: "out_of_memory", 2048: "out_of_memory"}
    assert [each["work"]["batch_size"] for each in plan["runs"]] == [96]


def allocate(client: TestClient, job: dict[str, Any], **changes: Any) -> dict[str, Any]:
    asked = {"ref": "a", "workload": "hungry", "work": {"dataset_size": 1000}, **job}
    answer = client.post(
        "/v1/schedules:allocate",
        json={"capacity": {"T4": 1}, "jobs": [asked], "objective": "throughput", **changes},
    )
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_allocation_takes_no_batch_that_would_run_out_of_memory(fitted: TestClient) -> None:
    (job,) = allocate(fitted, {"batch_sizes": [16, 64, 2048]})["allocated"]

    # Larger batches are faster, and the largest was never measured.
    assert job["batch_size"] == 64


def test_job_without_an_option_that_fits_says_so(fitted: TestClient) -> None:
    answer = allocate(fitted, {"batch_sizes": [1024, 2048]})

    assert answer["allocated"] == []
    assert [job["reason"] for job in answer["left_out"]] == ["out_of_memory"]


def test_running_job_has_shown_that_it_fits(fitted: TestClient) -> None:
    running = {"gpu_type": "t4", "workers": 1}
    same = allocate(
        fitted, {"batch_sizes": [1024, 2048], "current": {**running, "batch_size": 1024}}
    )
    only = allocate(
        fitted, {"work": {"dataset_size": 1000, "batch_size": 1024}, "current": running}
    )
    either = allocate(fitted, {"batch_sizes": [1024, 2048], "current": running})

    assert [job["batch_size"] for job in same["allocated"]] == [1024]
    assert [job["change"] for job in only["allocated"]] == ["keep"]
    # Which of the two runs is not said; it goes on with what it has.
    (left_out,) = either["left_out"]
    assert (left_out["reason"], left_out["keeps"]["workers"]) == ("out_of_memory", 1)


def test_gpu_type_on_which_no_job_fits_is_named(fitted: TestClient) -> None:
    body = {"capacity": {"T4": 1, "A100-80GB": 1}}
    job = {"work": {"dataset_size": 1000, "batch_size": 400}}
    answer = allocate(fitted, job, **body)

    assert [job["gpu_type"] for job in answer["allocated"]] == ["A100-80GB"]
    (left_out,) = answer["left_out_types"]
    assert (left_out["gpu_type"], left_out["reason"]) == ("T4", "out_of_memory")


def test_allocation_warns_of_what_was_never_measured(fitted: TestClient) -> None:
    body = {
        "capacity": {"T4": 1, "A100-80GB": 1},
        "jobs": [
            {
                "ref": ref,
                "workload": "hungry",
                "work": {"dataset_size": 1000, "batch_size": batch},
                "gpu_types": [gpu_type],
            }
            for ref, batch, gpu_type in (("small", 64, "T4"), ("large", 400, "A100-80GB"))
        ],
    }

    answer = fitted.post("/v1/schedules:allocate", json=body).json()
    text = fitted.post("/v1/schedules:allocate", json=body, headers={"Accept": "text/plain"}).text

    warnings = {job["ref"]: job["warnings"] for job in answer["allocated"]}
    assert warnings["small"] == []
    assert [warning["code"] for warning in warnings["large"]] == ["beyond_range", "unseen_level"]
    assert "large: batch_size_per_worker 400 lies outside the measured 16 to 128." in text


def test_allocation_keeps_to_the_measured_ranges_where_asked(fitted: TestClient) -> None:
    work = {"work": {"dataset_size": 1000, "batch_size": 160}}
    running = {"current": {"gpu_type": "T4", "workers": 1}}
    within = {"require_within_range": True}

    free = allocate(fitted, work)
    refused = allocate(fitted, work, **within)
    running_on_it = allocate(fitted, {**work, **running}, **within)
    chosen = allocate(fitted, {"batch_sizes": [32, 64, 160]}, **within)

    assert [job["batch_size"] for job in free["allocated"]] == [160]
    assert [job["reason"] for job in refused["left_out"]] == ["beyond_range"]
    assert [job["change"] for job in running_on_it["allocated"]] == ["keep"]
    assert [job["batch_size"] for job in chosen["allocated"]] == [64]


def test_gpu_type_beyond_the_measured_is_named_where_that_is_refused(fitted: TestClient) -> None:
    capacity = {"T4": 1, "A100-80GB": 1}
    job = {"work": {"dataset_size": 1000, "batch_size": 64}}

    answer = allocate(fitted, job, capacity=capacity, require_within_range=True)

    assert [job["gpu_type"] for job in answer["allocated"]] == ["T4"]
    (left_out,) = answer["left_out_types"]
    assert (left_out["gpu_type"], left_out["reason"]) == ("A100-80GB", "beyond_range")
