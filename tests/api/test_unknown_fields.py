"""A field that is not known is refused with what was meant: a typo, another name, its place."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import publish_regressor
from tests.support.uploads import faults, post_csv

FORECAST = {"workload": "fitted"}


def _named(client: TestClient, path: str, body: object) -> dict[str, dict[str, Any]]:
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_field")
    return {fault["field"]: fault for fault in answer.json()["errors"]}


def test_all_unknown_fields_of_an_object_are_named_with_their_places(client: TestClient) -> None:
    question = {**FORECAST, "workers": 2, "dataset_size": 3, "restart_s": 1, "confidense": 0.5}

    named = _named(client, "/v1/forecasts", question)

    assert {name: fault["remedy"] for name, fault in named.items()} == {
        "workers": "Use 'configuration.workers'.",
        "dataset_size": "Use 'work.dataset_size'.",
        "restart_s": "Use 'pricing.spot.restart_s'.",
        "confidense": "Use 'confidence'.",
    }
    assert named["workers"]["pointer"] == "/workers"
    assert named["workers"]["message"] == (
        "Unknown field 'workers': did you mean 'configuration.workers'?"
    )


def test_parameter_beside_the_parameters_is_told_its_place(client: TestClient) -> None:
    named = _named(client, "/v1/forecasts", {**FORECAST, "precision": "fp16", "gpus": 8})

    assert "'parameters.precision'" in named["precision"]["remedy"]
    assert named["gpus"]["remedy"] == "Use 'configuration.workers'."


def test_member_of_an_object_written_with_a_point_is_shown_in_its_object(
    client: TestClient,
) -> None:
    named = _named(client, "/v1/forecasts", {**FORECAST, "pricing.spot.restart_s": 1})

    assert named["pricing.spot.restart_s"]["remedy"] == (
        'Nest it: {"pricing": {"spot": {"restart_s": ...}}}.'
    )


def test_member_of_an_object_in_a_query_is_told_its_field(client: TestClient) -> None:
    answer = client.get("/v1/workloads/any/forecast", params={"pricing.price_per_hour": "1"})

    [fault] = answer.json()["errors"]
    assert fault["remedy"].startswith("Did you mean 'price_per_hour'? ")


def test_endlessly_many_unknown_fields_are_not_all_told(client: TestClient) -> None:
    named = _named(client, "/v1/forecasts", {**FORECAST, **{f"x{i}": 1 for i in range(500)}})

    assert len(named) == 20


@pytest.mark.parametrize(
    ("column", "remedy"),
    [
        ("precision", "A parameter of your own is param.precision, a label label.precision."),
        ("model", "A parameter of your own is param.model, a label label.model."),
        ("samples", "Did you mean 'dataset_size'?"),
        ("gpus", "Did you mean 'workers'?"),
        ("num_gpus", "Did you mean 'workers'?"),
        ("gpu", "Did you mean 'gpu_type'?"),
        ("time", "Did you mean 'duration_seconds'?"),
        ("duraton", "Did you mean 'duration_seconds'?"),
        ("duration_ms", "Convert to seconds and send 'duration_seconds'."),
        ("energy_kwh", "Convert to joules and send 'resource.energy_joules'."),
        ("resource.energy_wh", "Convert to joules and send 'resource.energy_joules'."),
        ("energy_joules", "Did you mean 'resource.energy_joules'?"),
        ("resource.peak_gpu_memory_gb", "Convert to bytes and send 'resource.peak_gpu_memory_b"),
        ("peak_memory_GiB", "Convert to bytes and send 'resource.peak_memory_bytes'."),
        ("cost_eur", "Send the amount as cost_amount, and EUR as cost_currency."),
        ("batch", "Did you mean 'batch_size'?"),
        ("cost", "Did you mean 'cost_usd'?"),
        ("param", "A parameter of your own is param.NAME"),
    ],
)
def test_unknown_column_is_told_what_it_means(client: TestClient, column: str, remedy: str) -> None:
    answer = post_csv(client, f"workload,{column}", "a,5")

    fault = faults(answer)[0]
    assert fault["field"] == column
    assert fault["remedy"].startswith(remedy)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("precision", "A parameter of the workload is param.precision."),
        ("gpus", "Did you mean 'workers'? A parameter of the workload is param.NAME."),
    ],
)
def test_unknown_field_of_a_what_if_is_told_what_it_means(
    client: TestClient, name: str, remedy: str
) -> None:
    answer = client.get(f"/v1/workloads/fitted/forecast?{name}=2")

    [fault] = answer.json()["errors"]
    assert (fault["field"], fault["remedy"]) == (name, remedy)


def test_unknown_fields_come_in_one_order_wherever_they_were_written(client: TestClient) -> None:
    shared, own = {"zeta": 1, "beta": 2}, {"gamma": 3, "alpha": 4}

    single = client.post("/v1/forecasts", json={**FORECAST, **own, **shared})
    batch = client.post(
        "/v1/forecasts:batch", json={"defaults": {**FORECAST, **shared}, "requests": [own]}
    )

    faults = single.json()["errors"]
    assert [fault["field"] for fault in faults] == ["alpha", "beta", "gamma", "zeta"]
    assert batch.json()["forecasts"][0]["problem"]["errors"] == faults


def test_all_parameters_that_a_workload_has_not_are_named(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services)
    question = {**FORECAST, "work": {"dataset_size": 1000}}

    named = _named(client, "/v1/forecasts", {**question, "parameters": {"deep": 2, "batch": 1}})

    assert list(named) == ["param.batch", "param.deep"]
