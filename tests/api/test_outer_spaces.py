"""Texts mean the same with white space around them, through every door."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

_PADDED = {
    "workload": " padded ",
    "work": {"dataset_size": 500},
    "configuration": {"gpu_type": " My GPU ", "instance_type": " m1\t"},
    "parameters": {"precision": " fp16 "},
}


@pytest.fixture
def padded(client: TestClient, services: Services) -> TestClient:
    """Return a service with runs whose texts were sent with spaces around them."""
    runs = [{**_PADDED, "duration_seconds": 5 + n} for n in range(6)]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "padded")
    return client


def _ask(client: TestClient, path: str, body: object) -> Any:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


def test_questions_are_read_as_runs_are(padded: TestClient) -> None:
    plain = {
        **_PADDED,
        "workload": "padded",
        "configuration": {"gpu_type": "My GPU", "instance_type": "m1"},
        "parameters": {"precision": "fp16"},
        "record": False,
    }
    padded_question = {**_PADDED, "record": False}

    expected = _ask(padded, "forecasts", plain)
    answers = _ask(padded, "forecasts:batch", {"requests": [padded_question] * 2})
    own = {name: _PADDED[name] for name in ("configuration", "parameters")}
    completed = _ask(
        padded,
        "forecasts:batch",
        {"defaults": {"workload": "padded", "work": _PADDED["work"]}, "requests": [own, own]},
    )

    assert expected["basis"] == "measured"
    assert _ask(padded, "forecasts", padded_question) == expected
    for batch in (answers, completed):
        assert [entry["forecast"] for entry in batch["forecasts"]] == [expected] * 2


def test_searches_are_read_as_runs_are(padded: TestClient) -> None:
    search = {"gpu_types": [" My GPU "], "instance_types": [" m1 "], "workers": [1]}

    ranked = _ask(
        padded,
        "recommendations",
        {
            "workload": "padded",
            "work": _PADDED["work"],
            "parameters": _PADDED["parameters"],
            "search": search,
            "objective": "duration",
        },
    )["ranked"]

    assert [entry["forecast"]["basis"] for entry in ranked] == ["measured"]


def test_prices_of_json_are_those_of_csv(client: TestClient) -> None:
    told = {
        "provider": " lab ",
        "instance_type": " m1 ",
        "gpu_type": " V100-16GB ",
        "source": " s ",
    }
    rows = "provider,instance_type,gpu_type,source,price_per_hour\n lab , m1 , V100-16GB , s ,5\n"

    [from_json] = _ask(client, "prices", {**told, "price_per_hour": "5"})["prices"]
    answer = client.post("/v1/prices", content=rows, headers={"Content-Type": "text/csv"})

    [from_csv] = answer.json()["prices"]
    assert {**from_json, "price_id": None} == {**from_csv, "price_id": None}
    assert (from_json["provider"], from_json["instance_type"]) == ("lab", "m1")
    assert (from_json["gpu_type"], from_json["source"]) == ("V100-16GB", "s")


def test_grid_factors_are_stored_without_outer_spaces(client: TestClient) -> None:
    factor = {"provider": " lab ", "region": " x ", "kg_co2e_per_kwh": "0.5", "source": " s "}

    [stored] = _ask(client, "grid-factors", factor)["grid_factors"]

    assert (stored["provider"], stored["region"], stored["source"]) == ("lab", "x", "s")


def test_labels_of_a_workload_are_stored_as_those_of_runs(client: TestClient) -> None:
    answer = client.put("/v1/workloads/w", json={"dataset_unit": " GB ", "labels": {"a": " b "}})

    assert answer.json()["dataset_unit"] == "GB"
    assert answer.json()["labels"] == {"a": "b"}


def test_capacity_names_a_gpu_once_whatever_its_spaces(client: TestClient) -> None:
    capacity = {"V100-16GB": 4, " V100-16GB ": 4}

    answer = client.post("/v1/schedules:allocate", json={"capacity": capacity, "jobs": []})

    assert answer.status_code == 422
    assert "' V100-16GB ' are one GPU type" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_a_blank_text_is_refused_as_an_empty_one(client: TestClient, blank: str) -> None:
    question = {"workload": "w", "configuration": {"instance_type": blank}}

    single = client.post("/v1/forecasts", json=question)
    batch = _ask(client, "forecasts:batch", {"requests": [question]})

    [fault] = single.json()["errors"]
    assert (single.status_code, fault["pointer"]) == (422, "/configuration/instance_type")
    assert fault["message"] == "String should have at least 1 character"
    assert batch["forecasts"][0]["problem"]["errors"] == [fault]


def test_the_name_of_a_job_is_told_back_as_it_came(padded: TestClient) -> None:
    job = {**_PADDED, "ref": " a "}

    ranked = _ask(padded, "schedules:rank", {"policy": "shortest_service_first", "jobs": [job]})

    assert ranked["ranked"][0]["ref"] == " a "
