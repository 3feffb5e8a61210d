"""Profiling plans take runs that no fit has seen yet for measured."""

from typing import Any

from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.queries import recorded_queries
from tests.support.regressors import fit, publish_regressor, store_runs
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


def test_plan_before_any_fit_reads_a_bounded_number_of_runs(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "fitted")

    with recorded_queries(services.context.database) as statements:
        plan = ask(client)

    reading = [statement for statement in statements if "run.duration_seconds" in statement]
    assert len(reading) == 2
    assert all("LIMIT" in statement for statement in reading)
    assert plan["runs"]


def sized(batch: int, workers: int = 1, **changes: Any) -> dict[str, Any]:
    configuration = {"gpu_type": "T4", "workers": workers}
    work = {"dataset_size": 1000, "batch_size": batch}
    return {"configuration": configuration, "work": work, **changes}


def out_of_memory(client: TestClient, *scenarios: dict[str, Any]) -> None:
    runs = [
        make_json_run(workload="hungry", status="out_of_memory", duration_seconds=5.0, **scenario)
        for scenario in scenarios
    ]
    assert post_json(client, runs).status_code == 201


def key_of(run: dict[str, Any]) -> tuple[Any, ...]:
    configuration, parameters = run["configuration"], run.get("parameters", {})
    return configuration.get("gpu_type"), configuration["workers"], run["work"], parameters


def too_large(client: TestClient, *candidates: dict[str, Any]) -> list[bool]:
    """Return for each candidate whether the plan refuses it as out of memory."""
    body = {"target": candidates[0], "candidates": candidates}
    plan = client.post("/v1/workloads/hungry/profiling-plans", json=body).json()
    refused = [key_of(each) for each in plan["rejected"] if each["reason"] == "out_of_memory"]
    assert not [run for run in plan["runs"] if key_of(run) in refused]
    for each in refused:
        del each[2]["epochs"]
    return [key_of(each) in refused for each in candidates]


def test_before_the_first_fit_nothing_as_large_as_a_run_out_of_memory_is_planned(
    client: TestClient,
) -> None:
    out_of_memory(client, sized(128, 2, parameters={"accumulation": 1}))
    deep = {"parameters": {"accumulation": 4}}
    same = {"parameters": {"accumulation": 1}}

    larger = sized(128, 2, **same), sized(64, 1, **same), sized(512, 2, **same)
    others = sized(32, 1, **same), sized(256, 4, **same), sized(128, 2, **deep)
    assert too_large(client, *larger) == [True] * 3
    assert too_large(client, *others) == [False] * 3
    another = sized(256, 2, **same)
    another["configuration"]["gpu_type"] = "A100-40GB"
    assert too_large(client, another) == [False]


def test_run_out_of_memory_says_nothing_where_one_as_large_succeeded(client: TestClient) -> None:
    out_of_memory(client, sized(64), sized(512))
    fitting = make_json_run(workload="hungry", duration_seconds=90.0, **sized(128))
    assert post_json(client, [fitting]).status_code == 201

    refused = too_large(client, sized(64), sized(96), sized(512), sized(600))

    assert refused == [False, False, True, True]


def test_only_a_run_that_needed_as_much_shows_that_memory_suffices(client: TestClient) -> None:
    out_of_memory(client, sized(64), sized(512, 4))
    wider = make_json_run(workload="hungry", duration_seconds=90.0, **sized(128, 2))
    same = make_json_run(workload="hungry", duration_seconds=60.0, **sized(512, 4))
    assert post_json(client, [wider, same]).status_code == 201

    assert too_large(client, sized(64), sized(512, 4)) == [True, False]


def test_runs_out_of_memory_without_a_batch_size_are_compared_by_their_workers(
    client: TestClient,
) -> None:
    unknown = [sized(64, workers) for workers in (1, 2, 4)]
    for each in unknown:
        each["work"]["batch_size"] = None
    out_of_memory(client, unknown[1])

    refused = too_large(client, *unknown, sized(512, 1))

    assert refused == [True, True, False, False]


def test_run_out_of_memory_without_a_gpu_refuses_itself_alone(client: TestClient) -> None:
    itself, larger = sized(64), sized(128)
    for each in (itself, larger):
        del each["configuration"]["gpu_type"]
    out_of_memory(client, itself)

    assert too_large(client, itself, larger) == [True, False]


def test_plan_knows_runs_out_of_memory_that_no_fit_has_seen_yet(
    client: TestClient, services: Services
) -> None:
    runs = [
        make_json_run(workload="hungry", duration_seconds=100 + 3200 / batch, **sized(batch))
        for batch in (16, 32, 64, 96)
    ]
    post_json(client, runs)
    fit(services, "hungry")
    larger = sized(512), sized(1024)
    before = too_large(client, *larger)

    out_of_memory(client, sized(512))

    assert (before, too_large(client, *larger)) == ([False, False], [True, True])
