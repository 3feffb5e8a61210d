"""An instance type tells the GPUs of its machines to every question, every run and every fit."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

_WORK = {"dataset_size": 4000}


def _post(client: TestClient, path: str, body: object) -> Any:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


def _publish(client: TestClient, services: Services, runs: list[dict[str, Any]]) -> None:
    _post(client, "runs", [{"workload": "w", "work": _WORK, **run} for run in runs])
    fit(services, "w")


def _forecast(client: TestClient, configuration: dict[str, Any], **more: Any) -> dict[str, Any]:
    asked = {"workload": "w", "work": _WORK, "configuration": configuration, **more}
    found: dict[str, Any] = _post(client, "forecasts", asked)
    return found


@pytest.fixture
def in_several_ways(client: TestClient, services: Services) -> TestClient:
    """Return a service whose runs stood one or two a node, so that machines tell the nodes."""
    runs = [
        {
            "duration_seconds": 30 + 4000 / (nodes * each) * (1 + 0.4 * (nodes - 1)),
            "configuration": {"gpu_type": "V100-16GB", "workers": nodes * each, "nodes": nodes},
        }
        for nodes in (1, 2, 4)
        for each in (1, 2)
    ]
    _publish(client, services, [run for run in runs for _ in range(2)])
    return client


def test_runs_are_held_against_the_forecast_of_their_machines(in_several_ways: TestClient) -> None:
    machine = {"instance_type": "p3.16xlarge", "workers": 8}
    forecast = _forecast(in_several_ways, machine)
    median = forecast["duration_seconds"]["median"]
    run = {
        "workload": "w",
        "work": _WORK,
        "configuration": machine,
        "duration_seconds": median,
        "forecast_id": forecast["forecast_id"],
    }

    report = _post(in_several_ways, "ci/reports", {"runs": [run], "commit": "c", "branch": "b"})
    stored = _post(in_several_ways, "runs", run)["runs"][0]
    accuracy = in_several_ways.get("/v1/workloads/w/accuracy").json()

    assert forecast["configuration"]["nodes"] == 1
    for judged in (report["runs"][0], stored["assessment"]):
        assert judged["expected_seconds"]["median"] == pytest.approx(median, rel=1e-5)
    assert accuracy["overall"]["mape"] == pytest.approx(0.0, abs=1e-5)


@pytest.fixture
def with_own_machine(client: TestClient, services: Services) -> TestClient:
    """Return a service with two GPU types, one of which a machine of its own prices has."""
    price = {"instance_type": "mine", "gpu_type": "T4", "gpu_count": 1, "price_per_hour": 8}
    _post(client, "prices", {**price, "currency": "USD"})
    runs = [
        {
            "duration_seconds": 30 + slow * 4000 / workers,
            "configuration": {"gpu_type": gpu, "workers": workers, "nodes": workers},
        }
        for gpu, slow in (("H100-SXM-80GB", 1), ("T4", 8))
        for workers in (1, 2, 4)
    ]
    _publish(client, services, runs)
    return client


def test_all_questions_know_the_gpu_of_an_own_machine(with_own_machine: TestClient) -> None:
    machine = {"instance_type": "mine", "workers": 2, "nodes": 2}
    job = {"ref": "a", "workload": "w", "configuration": machine, "work": _WORK}
    other = {**job, "ref": "b", "configuration": {"instance_type": "mine", "workers": 1}}
    rank = {"policy": "shortest_service_first", "jobs": [job]}
    remaining = {"workload": "w", "configuration": machine, "work": _WORK, "progress": 0.0}

    median = _forecast(with_own_machine, machine)["duration_seconds"]["median"]
    alone = _post(with_own_machine, "schedules:rank", rank)["ranked"]
    beside = _post(with_own_machine, "schedules:rank", {**rank, "jobs": [job, other]})["ranked"]
    left = _post(with_own_machine, "forecasts:remaining", remaining)

    ranked = [next(each for each in order if each["ref"] == "a") for order in (alone, beside)]
    assert ranked[0] == {**ranked[1], "position": ranked[0]["position"]}
    assert ranked[0]["remaining_seconds"]["median"] == pytest.approx(median, rel=1e-5)
    assert left["forecast_seconds"]["median"] == pytest.approx(median, rel=1e-5)


def test_runs_that_name_their_machine_alone_are_measured_on_its_gpu(
    client: TestClient, services: Services
) -> None:
    machines: tuple[tuple[dict[str, str], int], ...]
    machines = (({"gpu_type": "T4", "instance_type": "g4dn.xlarge"}, 8), ({}, 1))
    runs = [
        {
            "duration_seconds": 30 + slow * 4000 / workers,
            "configuration": {"instance_type": "p3.2xlarge", **machine, "workers": workers},
        }
        for machine, slow in machines
        for workers in (1, 2, 4)
    ]
    _publish(client, services, runs)

    asked = _forecast(client, {"instance_type": "p3.2xlarge", "workers": 2})
    by_gpu = _forecast(client, {"gpu_type": "V100-16GB", "workers": 2})

    assert asked["basis"] == "measured"
    assert asked["warnings"] == []
    assert asked["duration_seconds"]["median"] == pytest.approx(2030, rel=0.05)
    assert by_gpu["duration_seconds"]["median"] == pytest.approx(2030, rel=0.2)
