"""Names of machines tell their sizes where runs on processors tell them in no other way."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

MACHINES = {"c5.2xlarge": 8, "c5.4xlarge": 16, "c5.9xlarge": 36}


def run(machine: str, size: int, rows: int, **changes: Any) -> dict[str, Any]:
    return {
        "workload": "sort",
        "duration_seconds": 10.0 + rows / 100.0 / size,
        "configuration": {"instance_type": machine},
        "work": {"dataset_size": rows},
        **changes,
    }


@pytest.fixture
def client(client: TestClient, services: Services) -> TestClient:
    """Return a client of a service with a workload measured on three sizes of machines."""
    sizes = (100_000, 200_000, 400_000, 800_000)
    runs = [run(*machine, rows) for machine in MACHINES.items() for rows in sizes]
    stopped = run("c5.4xlarge", 20, 400_000, status="timed_out")
    assert client.post("/v1/runs", json=[*runs, stopped]).status_code == 201
    fit(services, "sort")
    return client


def ask(client: TestClient, machine: str) -> dict[str, Any]:
    body = {
        "workload": "sort",
        "configuration": {"instance_type": machine},
        "work": {"dataset_size": 400_000},
    }
    answer = client.post("/v1/forecasts", json=body)
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize(("machine", "vcpus"), [("c5.18xlarge", 72), ("c5.xlarge", 4)])
def test_machine_that_no_run_had_is_forecast_by_its_size(
    client: TestClient, machine: str, vcpus: int
) -> None:
    truth = run(machine, vcpus, 400_000)["duration_seconds"]

    answer = ask(client, machine)

    assert answer["duration_seconds"]["median"] == pytest.approx(truth, rel=0.4)
    assert answer["duration_seconds"]["lower"] < truth < answer["duration_seconds"]["upper"]
    (axis,) = [each for each in answer["support"]["axes"] if each["name"] == "instance_vcpus"]
    assert axis["asked"] == vcpus


def test_larger_machines_take_less(client: TestClient) -> None:
    medians = [
        ask(client, machine)["duration_seconds"]["median"]
        for machine in ("c5.large", "c5.2xlarge", "c5.12xlarge", "c5.24xlarge")
    ]

    assert medians == sorted(medians, reverse=True)


def test_batches_see_the_same_sizes(client: TestClient) -> None:
    machines = ["c5.large", "c5.18xlarge", "laptop"]
    requests = [{"configuration": {"instance_type": each}} for each in machines]
    defaults = {"workload": "sort", "work": {"dataset_size": 400_000}}

    answer = client.post("/v1/forecasts:batch", json={"defaults": defaults, "requests": requests})

    told = [each["forecast"]["duration_seconds"] for each in answer.json()["forecasts"]]
    assert told == [ask(client, machine)["duration_seconds"] for machine in machines]


def test_regressor_names_the_size_among_its_features(client: TestClient) -> None:
    features = client.get("/v1/workloads/sort/regressors/1").json()["features"]

    (size,) = [feature for feature in features if feature["name"] == "instance_vcpus"]
    assert (size["min"], size["max"]) == (8, 36)


def test_size_is_not_asked_of_who_cannot_tell_it(client: TestClient) -> None:
    answer = ask(client, "laptop")

    support = answer["support"]
    assert support["unseen_levels"]
    assert "instance_vcpus" not in support["unidentified"]
    assert "unseen_level" in {warning["code"] for warning in answer["warnings"]}
    assert not any("instance_vcpus" in warning["message"] for warning in answer["warnings"])
