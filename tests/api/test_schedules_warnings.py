"""Answers to schedulers warn of each job as a forecast of it would."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit, publish_regressor

pytestmark = pytest.mark.lengthy

GIB = 2**30
ON_QUESTION = {"beyond_range", "unseen_level", "unidentified", "may_not_fit"}
WITHIN = {"configuration": {"gpu_type": "T4", "workers": 2}, "work": {"dataset_size": 2000}}
FAR = {"configuration": {"gpu_type": "A100-80GB", "workers": 64}, "work": {"dataset_size": 9e5}}
OPEN = {"configuration": {"gpu_type": "T4", "workers": 2}}
HUGE = {"configuration": {"gpu_type": "T4", "workers": 1}, "work": {"batch_size": 2048}}


@pytest.fixture
def fitted(client: TestClient, services: Services) -> TestClient:
    """Two workloads: durations without memory, and one whose batches run out of memory."""
    publish_regressor(services)
    runs = [
        {
            "workload": "hungry",
            "duration_seconds": 100.0 + 3200.0 / batch,
            "configuration": {"gpu_type": "T4", "workers": 1},
            "work": {"batch_size": batch},
            "status": "succeeded" if batch < 512 else "out_of_memory",
            "resources": {"peak_gpu_memory_bytes": GIB * (1 + batch / 16)} if batch < 512 else {},
        }
        for batch in (16, 32, 64, 128, 512)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "hungry")
    return client


def job(ref: str, question: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"ref": ref, "workload": "fitted", **question, **changes}


JOBS = [
    job("within", WITHIN, parameters={"precision": "fp16"}),
    job("far", FAR, parameters={"precision": "fp16"}),
    job("huge", HUGE, workload="hungry"),
    job("unknown", WITHIN, workload="nobody"),
    job("spot", WITHIN, pricing={"purchase": "spot", "spot": {"interruptions_per_hour": 3600}}),
    job("open", OPEN),
    job("small", {**HUGE, "work": {"batch_size": 64}}, workload="hungry"),
]


def post(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def told(client: TestClient, path: str, body: dict[str, Any]) -> str:
    answer = client.post(path, json=body, headers={"Accept": "text/plain"})
    assert answer.status_code == 200, answer.text
    return answer.text


def expected(client: TestClient, question: dict[str, Any]) -> list[dict[str, str]]:
    """Return the warnings of a forecast that depend on nothing but question and runs."""
    body = {name: value for name, value in question.items() if name != "ref"}
    answer = client.post("/v1/forecasts", json={**body, "record": False}).json()
    return [entry for entry in answer.get("warnings", []) if entry["code"] in ON_QUESTION]


def codes(warnings: list[dict[str, str]]) -> list[str]:
    return [entry["code"] for entry in warnings]


def test_ranked_jobs_are_warned_of_as_forecasts_are(fitted: TestClient) -> None:
    ranked = post(fitted, "/v1/schedules:rank", {"jobs": JOBS})["ranked"]

    warnings = {entry["ref"]: entry["warnings"] for entry in ranked}
    assert warnings == {each["ref"]: expected(fitted, each) for each in JOBS}
    assert {ref: codes(own) for ref, own in warnings.items()} == {
        "within": [],
        "far": ["beyond_range", "unseen_level"],
        "huge": ["may_not_fit", "beyond_range"],
        "unknown": [],
        "spot": [],
        "open": ["unidentified"],
        "small": [],
    }
    assert {entry["ref"] for entry in ranked if entry["problem"]} == {"unknown", "spot"}


def test_table_of_a_queue_notes_the_warnings_of_its_jobs(fitted: TestClient) -> None:
    lines = told(fitted, "/v1/schedules:rank", {"jobs": JOBS}).splitlines()

    (far,) = (line for line in lines if line.startswith("far: dataset_size 900,000"))
    assert far.endswith("workers 64 lies outside the measured 1 to 8.")
    assert "far: Never measured for this workload: gpu_type 'A100-80GB'." in lines
    assert "huge: The job fits into GPU memory with a probability of under 0.01%." in lines


@pytest.mark.parametrize("progress", [{"progress": 0.2}, {"elapsed_s": 60}])
def test_job_that_has_begun_has_shown_that_it_fits(
    fitted: TestClient, progress: dict[str, float]
) -> None:
    jobs = [job("huge", HUGE, workload="hungry", **progress)]

    (ranked,) = post(fitted, "/v1/schedules:rank", {"jobs": jobs})["ranked"]
    (demand,) = post(fitted, "/v1/schedules:capacity", {"queued": jobs})["demand"]

    assert codes(ranked["warnings"]) == codes(demand["warnings"]) == ["beyond_range"]


def test_demand_names_the_jobs_on_whose_forecasts_not_to_rely(fitted: TestClient) -> None:
    body = {"running": [JOBS[0], JOBS[3]], "queued": [*JOBS[1:3], *JOBS[5:]]}

    answer = post(fitted, "/v1/schedules:capacity", {**body, "capacity": {"T4": 8}})

    demands = {entry["gpu_type"]: entry["warnings"] for entry in answer["demand"]}
    assert [(entry["ref"], entry["code"]) for entry in demands["A100-80GB"]] == [
        ("far", "beyond_range"),
        ("far", "unseen_level"),
    ]
    assert [(entry["ref"], entry["code"]) for entry in demands["T4"]] == [
        ("huge", "may_not_fit"),
        ("huge", "beyond_range"),
        ("open", "unidentified"),
    ]
    text = told(fitted, "/v1/schedules:capacity", {**body, "capacity": {"T4": 8}})
    assert "\nfar: Never measured for this workload: gpu_type 'A100-80GB'.\n" in text


def test_job_that_is_not_counted_is_not_warned_of(fitted: TestClient) -> None:
    body = {"queued": [JOBS[0], JOBS[1]], "capacity": {"A100-80GB": 8, "T4": 8}}

    answer = post(fitted, "/v1/schedules:capacity", body)

    assert [entry["reason"] for entry in answer["left_out"]] == ["too_large"]
    assert [entry["warnings"] for entry in answer["demand"]] == [[], []]


def test_running_job_fits_unless_it_is_moved(fitted: TestClient) -> None:
    stays = job("stays", HUGE, workload="hungry")
    moves = {**stays, "ref": "moves", "current": {"gpu_type": "A100-80GB", "workers": 1}}

    (demand,) = post(fitted, "/v1/schedules:capacity", {"running": [stays, moves]})["demand"]

    refs = [entry["ref"] for entry in demand["warnings"] if entry["code"] == "may_not_fit"]
    assert refs == ["moves"]


def test_remaining_time_is_warned_of_as_its_forecast_is(fitted: TestClient) -> None:
    question = {name: value for name, value in JOBS[1].items() if name != "ref"}
    under_way = {**question, "progress": 0.5, "elapsed_s": 60}

    answer = post(fitted, "/v1/forecasts:remaining", under_way)
    text = told(fitted, "/v1/forecasts:remaining", under_way)
    known = {name: value for name, value in JOBS[0].items() if name != "ref"}
    within = post(fitted, "/v1/forecasts:remaining", known)
    running = post(fitted, "/v1/forecasts:remaining", {"workload": "hungry", **HUGE})

    assert answer["warnings"] == expected(fitted, JOBS[1])
    assert codes(answer["warnings"]) == ["beyond_range", "unseen_level"]
    assert "\nWarning (unseen_level): Never measured for this workload: " in text
    assert within["warnings"] == []
    assert codes(running["warnings"]) == ["beyond_range"]


def test_remaining_time_is_judged_by_the_version_asked_for(
    fitted: TestClient, services: Services
) -> None:
    run = {"workload": "fitted", "duration_seconds": 400.0, **FAR}
    assert fitted.post("/v1/runs", json=[run | {"parameters": {"precision": "fp16"}}]).is_success
    fit(services, "fitted")
    question = {name: value for name, value in JOBS[1].items() if name != "ref"}

    old, new = (
        post(fitted, "/v1/forecasts:remaining", {**question, "regressor_version": version})
        for version in (1, 2)
    )

    assert codes(old["warnings"]) == ["beyond_range", "unseen_level"]
    assert new["warnings"] == []


@pytest.mark.parametrize("workload", ["fitted", "hungry"])
def test_nothing_is_warned_of_where_no_job_can_be_forecast(
    fitted: TestClient, workload: str
) -> None:
    never = {**JOBS[4], "workload": workload}
    elastic = {**never, "min_workers": 1}
    del elastic["configuration"], elastic["pricing"]
    body = {"jobs": [elastic], "capacity": {"T4": 2}, "pricing": never["pricing"]}

    (ranked,) = post(fitted, "/v1/schedules:rank", {"jobs": [never]})["ranked"]
    view = post(fitted, "/v1/schedules:capacity", {"queued": [never]})
    allocation = post(fitted, "/v1/schedules:allocate", {**body, "require_within_range": True})

    assert (ranked["problem"]["code"], ranked["warnings"]) == ("spot_infeasible", [])
    assert [entry["ref"] for entry in view["left_out"]] == ["spot"]
    assert [entry["reason"] for entry in allocation["left_out"]] == ["no_forecast"]


def test_allocation_warns_of_memory_that_no_run_has_tested(
    client: TestClient, services: Services
) -> None:
    runs = [
        {"workload": "calm", "duration_seconds": 100.0 + 3200.0 / batch, **HUGE}
        | {"work": {"batch_size": batch}}
        for batch in (16, 32, 64, 128)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "calm")
    asked = {"workload": "calm", "work": {"batch_size": 1e6}}
    running = {"current": {"gpu_type": "T4", "workers": 1}}

    new, known = (
        post(client, "/v1/schedules:allocate", {"capacity": {"T4": 1}, "jobs": [elastic]})
        for elastic in ({"ref": "a", **asked}, {"ref": "a", **asked, **running})
    )

    question = {**HUGE, **asked}
    assert new["allocated"][0]["warnings"] == expected(client, question)
    assert codes(new["allocated"][0]["warnings"]) == ["may_not_fit", "beyond_range"]
    assert codes(known["allocated"][0]["warnings"]) == ["beyond_range"]
