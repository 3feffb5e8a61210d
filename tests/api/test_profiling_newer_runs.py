"""Profiling plans take runs that no fit has seen yet for measured."""

from typing import Any

from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor
from tests.support.uploads import make_json_run, post_json

QUESTION: dict[str, Any] = {
    "target": {
        "configuration": {"gpu_type": "T4", "workers": 32},
        "work": {"dataset_size": 64000},
        "parameters": {"precision": "fp16"},
    },
    "pricing": {"price_per_hour": "1.00"},
}


def ask(client: TestClient, **changes: Any) -> dict[str, Any]:
    path = "/v1/workloads/fitted/profiling-plans"
    document: dict[str, Any] = client.post(path, json={**QUESTION, **changes}).json()
    return document


def scenario_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [run[part] for part in ("configuration", "work", "parameters")]


def test_runs_that_no_fit_has_seen_yet_are_not_planned_again(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    first, *_ = ask(client)["runs"]
    configuration = {"gpu_type": "T4", "workers": first["configuration"]["workers"]}
    size = {"dataset_size": first["work"]["dataset_size"]}
    run = make_json_run(
        workload="fitted", configuration=configuration, work=size, parameters=first["parameters"]
    )
    stranger = make_json_run(workload="fitted", parameters={"precision": "fp16", "depth": 4})

    post_json(client, [{**run, "status": "failed"}])
    after_failure = ask(client)
    post_json(client, [run, stranger])
    after_success, repeated = ask(client), ask(client, repeat=True)

    assert scenario_of(after_failure["runs"][0]) == scenario_of(first)
    assert scenario_of(repeated["runs"][0]) == scenario_of(first)
    assert scenario_of(first) not in map(scenario_of, after_success["runs"])
    reasons = {
        str(scenario_of(rejected)): rejected["reason"] for rejected in after_success["rejected"]
    }
    assert reasons[str(scenario_of(first))] == "measured"
