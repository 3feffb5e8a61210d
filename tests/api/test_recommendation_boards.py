"""Searches and questions for one board, where runs name only the family of their GPU."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

MACHINE = "p3.8xlarge"
"""Sold with V100-16GB."""


@pytest.fixture(params=[None, MACHINE])
def machine(request: pytest.FixtureRequest, client: TestClient, services: Services) -> str | None:
    """Fit runs on the family V100, on machines that name their board or not."""
    machine: str | None = request.param
    runs = [
        {
            "workload": "family",
            "duration_seconds": size / 100 / workers,
            "configuration": {"gpu_type": "V100", "workers": workers, "instance_type": machine},
            "work": {"dataset_size": size},
        }
        for workers in (1, 2, 4)
        for size in (1000, 2000, 4000)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "family")
    return machine


def searched(client: TestClient, gpu_type: str) -> tuple[str, str | None, str]:
    """Return the GPU, the machine and the basis of what a search for a GPU recommends."""
    body = {
        "workload": "family",
        "work": {"dataset_size": 2000},
        "search": {"gpu_types": [gpu_type], "workers": [2]},
    }
    answer = client.post("/v1/recommendations", json=body)
    assert answer.status_code == 200, answer.text
    forecast = answer.json()["recommended"]["forecast"]
    configuration = forecast["configuration"]
    return configuration["gpu_type"], configuration["instance_type"], forecast["basis"]


def test_a_search_for_the_family_finds_its_runs(client: TestClient, machine: str | None) -> None:
    assert searched(client, "v100") == ("V100", machine, "measured")


def test_a_board_that_runs_may_not_have_had_is_asked_as_in_a_forecast(
    client: TestClient, machine: str | None
) -> None:
    gpu_type, _machine, basis = searched(client, "V100-32GB")

    question = {
        "workload": "family",
        "work": {"dataset_size": 2000},
        "configuration": {"gpu_type": "V100-32GB", "workers": 2},
    }
    forecast = client.post("/v1/forecasts", json=question).json()
    assert (gpu_type, basis) == ("V100-32GB", forecast["basis"]) == ("V100-32GB", "transferred")


def test_a_board_that_the_machines_of_the_runs_have_is_theirs(
    client: TestClient, machine: str | None
) -> None:
    measured = ("V100", MACHINE, "measured")

    found = searched(client, "Tesla V100 SXM2 16GB")

    assert found == measured if machine else found[0] == "V100-16GB"


@pytest.mark.parametrize("nodes", [None, 1])
@pytest.mark.parametrize("gpu_type", [None, "V100-16GB", "V100-32GB", "T4"])
def test_a_question_names_the_board_of_its_machine_or_leaves_it_out(
    client: TestClient, machine: str | None, gpu_type: str | None, nodes: int | None
) -> None:
    configuration = {"workers": 2, "instance_type": MACHINE, "gpu_type": gpu_type, "nodes": nodes}
    question = {
        "workload": "family",
        "work": {"dataset_size": 2000},
        "configuration": {name: value for name, value in configuration.items() if value},
    }

    forecast = client.post("/v1/forecasts", json=question).json()
    job = {"ref": "a", **question}
    [ranked] = client.post("/v1/schedules:rank", json={"jobs": [job]}).json()["ranked"]

    is_board_of_machine = gpu_type in {None, "V100-16GB"}
    assert (forecast["basis"] != "transferred") == is_board_of_machine
    median = forecast["duration_seconds"]["median"]
    assert ranked["remaining_seconds"]["median"] == pytest.approx(median, rel=1e-5)


def test_a_measured_board_comes_before_its_family(client: TestClient, services: Services) -> None:
    runs: list[dict[str, Any]] = [
        {
            "workload": "boards",
            "duration_seconds": 100.0 * slow / workers,
            "configuration": {"gpu_type": gpu_type, "workers": workers},
        }
        for gpu_type, slow in (("V100", 3), ("V100-16GB", 1))
        for workers in (1, 2, 4)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "boards")

    answers = [
        client.post("/v1/forecasts", json={"workload": "boards", "configuration": configuration})
        for configuration in (
            {"instance_type": MACHINE, "workers": 2},
            {"instance_type": MACHINE, "workers": 2, "gpu_type": "V100-16GB"},
        )
    ]

    gpu_types = [answer.json()["configuration"]["gpu_type"] for answer in answers]
    assert gpu_types == ["V100-16GB", "V100-16GB"]
