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
    question = {"workload": "w", "work": _WORK, "configuration": configuration, **more}
    answer: dict[str, Any] = _post(client, "forecasts", question)
    return answer


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


def test_machine_tells_which_board_an_ambiguous_name_means(in_several_ways: TestClient) -> None:
    def ask(**hardware: str) -> dict[str, Any]:
        question = {"workload": "w", "work": _WORK, "configuration": {**hardware, "workers": 8}}
        answer: dict[str, Any] = in_several_ways.post("/v1/forecasts", json=question).json()
        return answer

    named = ask(gpu_type="V100", instance_type="p3.16xlarge")
    alone = ask(instance_type="p3.16xlarge")

    assert named["configuration"]["gpu_type"] == "V100-16GB"
    assert named["duration_seconds"] == alone["duration_seconds"]
    assert ask(gpu_type="V100")["code"] == "ambiguous_gpu"
    assert ask(gpu_type="A100", instance_type="p3.16xlarge")["code"] == "ambiguous_gpu"


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

    forecast = _forecast(client, {"instance_type": "p3.2xlarge", "workers": 2})
    by_gpu = _forecast(client, {"gpu_type": "V100-16GB", "workers": 2})

    assert forecast["basis"] == "measured"
    assert forecast["warnings"] == []
    assert forecast["duration_seconds"]["median"] == pytest.approx(2030, rel=0.05)
    assert by_gpu["duration_seconds"]["median"] == pytest.approx(2030, rel=0.2)


@pytest.fixture
def by_machine_alone(client: TestClient, services: Services) -> TestClient:
    """Return a service whose runs name two machines of its own prices and never a GPU."""
    machines = (("q4", "V100-16GB", 4, 1.0), ("q8", "A100-40GB", 8, 2.0))
    prices = [
        {"instance_type": name, "gpu_type": gpu, "gpu_count": gpus, "price_per_hour": gpus}
        for name, gpu, gpus, _speed in machines
    ]
    _post(client, "prices", prices)
    runs = [
        {
            "duration_seconds": 20 + size * 0.02 / workers / speed,
            "configuration": {"instance_type": name, "workers": workers, "nodes": 1},
            "work": {"dataset_size": size},
            "resources": {"energy_joules": 200.0 * workers * (20 + size * 0.02 / workers / speed)},
        }
        for name, _gpu, _gpus, speed in machines
        for workers in (1, 2, 4)
        for size in (10000, 40000, 100000)
    ]
    _publish(client, services, runs)
    return client


_LARGER_WORK = {"dataset_size": 40000}
_SECONDS = 20 + 40000 * 0.02 / 4
_WAYS: list[dict[str, str]] = [
    {"instance_type": "q4"},
    {"instance_type": "q4", "gpu_type": "V100-16GB"},
    {"gpu_type": "V100-16GB"},
]


def test_a_machine_and_its_gpu_are_one_where_runs_name_machines_alone(
    by_machine_alone: TestClient,
) -> None:
    by_machine, by_both, by_gpu = (
        _forecast(by_machine_alone, {**way, "workers": 4, "nodes": 1}, work=_LARGER_WORK)
        for way in _WAYS
    )

    assert by_machine["basis"] == by_both["basis"] == "measured"
    assert by_machine["duration_seconds"] == by_both["duration_seconds"]
    assert by_machine["energy"] == by_both["energy"]
    assert by_machine["energy"]["kilowatt_hours"] == pytest.approx(
        200 * 4 * by_machine["duration_seconds"]["median"] / 3.6e6, rel=1e-3
    )
    for forecast in (by_machine, by_gpu):
        assert forecast["duration_seconds"]["median"] == pytest.approx(_SECONDS, rel=0.2)
        assert forecast["duration_seconds"]["upper"] < 2 * _SECONDS


def test_capacity_by_gpu_knows_runs_that_name_machines_alone(by_machine_alone: TestClient) -> None:
    job = {"ref": "a", "workload": "w", "work": _LARGER_WORK, "worker_counts": [4]}

    [placed] = _post(
        by_machine_alone,
        "schedules:allocate",
        {"capacity": {"V100-16GB": 4}, "jobs": [job]},
    )["allocated"]
    view = _post(
        by_machine_alone,
        "schedules:capacity",
        {
            "running": [],
            "queued": [
                {
                    "ref": "a",
                    "workload": "w",
                    "configuration": {"instance_type": "q4", "workers": 4},
                    "work": _LARGER_WORK,
                }
            ],
            "capacity": {"V100-16GB": 4},
        },
    )

    assert placed["expected_completion_seconds"]["expected"] == pytest.approx(_SECONDS, rel=0.2)
    assert [entry["gpu_type"] for entry in view["demand"]] == ["V100-16GB"]


@pytest.mark.parametrize(
    "search",
    [
        {"instance_types": ["q4"]},
        {"instance_types": ["q4"], "gpu_types": ["V100-16GB"]},
        {"gpu_types": ["V100-16GB"]},
    ],
    ids=["machine", "both", "gpu"],
)
def test_searches_know_the_gpus_of_measured_machines(
    by_machine_alone: TestClient, search: dict[str, Any]
) -> None:
    ranked = _post(
        by_machine_alone,
        "recommendations",
        {"workload": "w", "work": _LARGER_WORK, "search": {**search, "workers": [4]}},
    )["ranked"]
    plan = _post(
        by_machine_alone,
        "workloads/w/profiling-plans",
        {
            "target": {
                "configuration": {"gpu_type": "V100-16GB", "workers": 8},
                "work": _LARGER_WORK,
            },
            "search": {**search, "workers": [3]},
            "runs": 1,
            "stop": {"min_narrowing": 0},
        },
    )

    [best] = [entry["forecast"] for entry in ranked]
    assert best["basis"] == "measured"
    for configuration in (best["configuration"], plan["runs"][0]["configuration"]):
        told = configuration["gpu_type"], configuration["instance_type"]
        assert told == ("V100-16GB", "q4")


def test_a_curve_shows_runs_that_name_machines_alone(by_machine_alone: TestClient) -> None:
    path = "/v1/workloads/w/curve?over=workers&from=1&to=4&dataset_size=40000&nodes=1"

    by_both = by_machine_alone.get(f"{path}&gpu_type=V100-16GB&instance_type=q4").json()
    by_machine = by_machine_alone.get(f"{path}&instance_type=q4").json()

    assert [point["value"] for point in by_both["measured"]] == [1, 2, 4]
    assert by_machine["measured"] == by_both["measured"]


@pytest.mark.parametrize("other", ["c5.large", "nobody sells it"])
def test_a_machine_without_a_known_gpu_leaves_runs_without_gpu_types(
    client: TestClient, services: Services, other: str
) -> None:
    prices = [
        {"instance_type": "q4", "gpu_type": "V100-16GB", "gpu_count": 4, "price_per_hour": 4},
        {"instance_type": "c5.large", "gpu_count": 0, "price_per_hour": 1},
    ]
    _post(client, "prices", prices)
    runs = [
        {
            "duration_seconds": 30 + 4000 / workers,
            "configuration": {"instance_type": name, "workers": workers},
        }
        for name in ("q4", other)
        for workers in (1, 2, 4)
    ]
    _publish(client, services, runs)

    version = client.get("/v1/workloads/w/regressors/1").json()
    forecast = _forecast(client, {"instance_type": "q4", "workers": 2})

    assert "gpu_type" not in {feature["name"] for feature in version["features"]}
    assert forecast["basis"] == "measured"
    assert forecast["configuration"]["gpu_type"] is None


def test_a_gpu_that_the_machine_does_not_have_is_named(in_several_ways: TestClient) -> None:
    def unpriced(configuration: dict[str, Any]) -> list[dict[str, str]]:
        warnings = _forecast(in_several_ways, configuration)["warnings"]
        return [each for each in warnings if each["code"] == "price_unknown"]

    [other] = unpriced({"gpu_type": "T4", "instance_type": "p3.8xlarge"})
    [unsold] = unpriced({"gpu_type": "T4", "instance_type": "rack-7"})

    assert other["message"] == (
        "No price is known for this configuration: p3.8xlarge has V100-16GB, not T4."
    )
    assert other["remedy"].startswith("Name the GPU of the machine, or leave gpu_type out.")
    assert unsold["message"] == "No price is known for this configuration."
    assert not unpriced({"gpu_type": "V100-16GB", "instance_type": "p3.8xlarge"})
