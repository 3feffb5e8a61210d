"""A forecast tells what its duration is made of."""

import pytest
from fastapi.testclient import TestClient

from app.domain.fits import FitRequest
from app.services.wiring import Services
from tests.support.regressors import fit, publish_regressor
from tests.support.uploads import make_json_run, post_json

pytestmark = pytest.mark.lengthy


def test_shares_of_the_terms_add_up_and_follow_the_workers(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "fitted", FitRequest(regressors=("scaling_law",)))

    def shares(workers: int) -> dict[str, float]:
        question = {
            "workload": "fitted",
            "configuration": {"gpu_type": "T4", "workers": workers},
            "work": {"dataset_size": 4000},
            "parameters": {"precision": "fp16"},
        }
        explanation = client.post("/v1/forecasts", json=question).json()["explanation"]
        return {part["term"]: part["share"] for part in explanation}

    few, many = shares(1), shares(8)

    assert sum(few.values()) == pytest.approx(1.0, abs=1e-3)
    assert sum(many.values()) == pytest.approx(1.0, abs=1e-3)
    assert few["computation"] > many["computation"]


def test_runs_that_taught_a_forecast_are_named_when_asked_for(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "fitted", FitRequest(regressors=("scaling_law",)))
    question = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": 4},
        "work": {"dataset_size": 2000},
        "parameters": {"precision": "fp16"},
    }

    silent = client.post("/v1/forecasts", json=question).json()
    answer = client.post("/v1/forecasts", json={**question, "explain": True}).json()

    stored = {run["run_id"] for run in client.get("/v1/workloads/fitted/runs").json()["runs"]}
    assert silent["taught_by"] is None
    assert silent["duration_seconds"] == answer["duration_seconds"]
    assert 1 <= len(answer["taught_by"]) <= 5
    for lesson in answer["taught_by"]:
        assert set(lesson["run_ids"]) <= stored
        assert lesson["about"] in {"computation", "overhead", "communication", "fixed", "category"}


def test_query_batch_and_text_explain_too(client: TestClient, services: Services) -> None:
    publish_regressor(services, "fitted", FitRequest(regressors=("scaling_law",)))
    path = "/v1/workloads/fitted/forecast?gpu_type=T4&workers=3&dataset_size=2000"

    single = client.get(f"{path}&explain=true").json()
    text = client.get(path, headers={"Accept": "text/plain"}).text
    batch = client.post(
        "/v1/forecasts:batch",
        json={
            "defaults": {"workload": "fitted", "explain": True},
            "requests": [{"configuration": {"workers": workers}} for workers in (1, 8)],
            "fields": ["taught_by"],
        },
    ).json()

    assert single["taught_by"]
    assert client.get(path).json()["taught_by"] is None
    assert "Where the time goes: " in text
    assert f"Most influential runs: {single['taught_by'][0]['run_ids'][0]} (" in text
    assert all(entry["forecast"]["taught_by"] for entry in batch["forecasts"])


def test_text_of_a_posted_forecast_names_the_runs_that_taught_it(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "fitted", FitRequest(regressors=("scaling_law",)))

    answer = client.post(
        "/v1/forecasts",
        json={"workload": "fitted", "configuration": {"workers": 2}},
        headers={"Accept": "text/plain"},
    )

    assert "Most influential runs: run_" in answer.text


def test_phases_of_the_runs_explain_instead_of_terms(
    client: TestClient, services: Services
) -> None:
    runs = [
        make_json_run(
            workload="phased",
            duration_seconds=5.0 + 80.0 / workers,
            configuration={"gpu_type": "T4", "workers": workers},
            work={"dataset_size": 1000},
            phases={"setup_seconds": 5.0, "compute_seconds": 80.0 / workers},
        )
        for workers in (1, 2, 4, 8)
    ]
    post_json(client, runs)
    fit(services, "phased", FitRequest(regressors=("scaling_law",)))

    def shares(workers: int) -> dict[str, float]:
        answer = client.post(
            "/v1/forecasts",
            json={
                "workload": "phased",
                "configuration": {"gpu_type": "T4", "workers": workers},
                "work": {"dataset_size": 1000},
            },
        ).json()
        assert answer["explained_by"] == "phases"
        return {part["term"]: part["share"] for part in answer["explanation"]}

    assert shares(1)["compute"] == pytest.approx(80 / 85, abs=0.05)
    assert shares(8)["setup"] == pytest.approx(5 / 15, abs=0.1)


def test_explanation_says_that_it_is_by_terms(client: TestClient, services: Services) -> None:
    publish_regressor(services, "fitted", FitRequest(regressors=("scaling_law",)))

    answer = client.post("/v1/forecasts", json={"workload": "fitted"}).json()

    assert answer["explained_by"] == "terms"
