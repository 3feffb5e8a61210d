"""Questions that leave their nodes open are answered, billed and ranked on the same nodes."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit

pytestmark = pytest.mark.lengthy

_NOVEMBER = "2026-11-01T00:00:00Z"
_MACHINES = (("one", 1), ("four", 4), ("eight", 8))


def _run(gpu: str, nodes: int | None, workers: int, **machine: str) -> dict[str, Any]:
    crossing = 2.0 if (nodes or 1) > 1 else 1.0
    told = {} if nodes is None else {"nodes": nodes}
    return {
        "workload": "placed",
        "duration_seconds": 50.0 + 8000.0 / workers * crossing,
        "gpu_type": gpu,
        "workers": workers,
        **told,
        **machine,
    }


LONE = {"gpu_type": "A10", "instance_type": "lone", "gpu_count": 1, "price_per_hour": "1.50"}
DENSE = [_run("V100-16GB", max(1, count // 4), count) for count in (1, 2, 4, 8, 16)]
SINGLE = [_run("T4", 1, count) for count in (1, 2)]


def _publish(client: TestClient, services: Services, runs: list[dict[str, Any]]) -> None:
    prices = [
        {"instance_type": name, "gpu_type": "V100-16GB", "gpu_count": gpus, "price_per_hour": gpus}
        for name, gpus in _MACHINES
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "placed")


def _forecast(client: TestClient, configuration: dict[str, Any], **changes: Any) -> dict[str, Any]:
    question = {"workload": "placed", "configuration": configuration, **changes}
    answer = client.post("/v1/forecasts", json=question)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def _ranked(client: TestClient, search: dict[str, Any]) -> dict[str, Any]:
    question = {"workload": "placed", "work": {}, "objective": "duration", "search": search}
    answer = client.post("/v1/recommendations", json=question)
    assert answer.status_code == 200, answer.text
    [entry] = answer.json()["ranked"]
    found: dict[str, Any] = entry["forecast"]
    return found


@pytest.mark.parametrize(
    ("hardware", "workers", "nodes"),
    [
        ({"gpu_type": "V100-16GB"}, 8, 2),
        ({"gpu_type": "T4"}, 8, 2),
        ({"instance_type": "one", "gpu_type": "V100-16GB"}, 4, 4),
        ({"instance_type": "eight", "gpu_type": "V100-16GB"}, 8, 1),
    ],
)
def test_forecast_and_recommendation_are_of_the_same_nodes(
    client: TestClient,
    services: Services,
    hardware: dict[str, str],
    workers: int,
    nodes: int,
) -> None:
    _publish(client, services, [*DENSE, *SINGLE])
    search = {f"{name}s": [value] for name, value in hardware.items()}

    forecast = _forecast(client, {**hardware, "workers": workers})
    answer = _forecast(client, {**hardware, "workers": workers, "nodes": nodes})
    ranked = _ranked(client, {**search, "workers": [workers]})

    assert forecast["configuration"]["nodes"] == nodes
    for other in (answer, ranked):
        assert other["configuration"]["nodes"] == nodes
        assert other["duration_seconds"] == forecast["duration_seconds"]
        assert other["cost"] == forecast["cost"]
        assert other["warnings"] == forecast["warnings"]


def test_nodes_that_never_varied_stay_open(client: TestClient, services: Services) -> None:
    _publish(client, services, [_run("V100-16GB", 1, count) for count in (1, 2)])

    forecast = _forecast(client, {"gpu_type": "V100-16GB", "workers": 8})
    ranked = _ranked(client, {"gpu_types": ["V100-16GB"], "workers": [8]})

    assert forecast["configuration"]["nodes"] is None
    assert ranked["configuration"]["nodes"] is None
    assert ranked["cost"] == forecast["cost"]
    assert ranked["warnings"] == forecast["warnings"]


def test_run_that_does_not_tell_its_nodes_hides_those_of_no_other(
    client: TestClient, services: Services
) -> None:
    _publish(client, services, [*DENSE, _run("V100-16GB", None, 2)])

    forecast = _forecast(client, {"gpu_type": "V100-16GB", "workers": 16})

    assert forecast["configuration"]["nodes"] == 4
    assert forecast["duration_seconds"]["lower"] < 50 + 1000 < forecast["duration_seconds"]["upper"]


def test_where_no_machine_has_room_for_the_assumed_nodes_smaller_ones_are_billed(
    client: TestClient, services: Services
) -> None:
    _publish(client, services, DENSE)
    assert client.post("/v1/prices", json=[LONE]).status_code == 201
    own = {"gpu_type": "A10", "workers": 8}
    pricing = {"pricing": {"as_of": "2100-01-01T00:00:00Z", "purchase": "owned"}}
    assert client.post("/v1/prices", json=[{**LONE, "purchase": "owned"}]).status_code == 201

    forecast = _forecast(client, own, **pricing)
    answer = _forecast(client, {**own, "nodes": 2}, **pricing)

    assert forecast["configuration"]["nodes"] == 2
    assert forecast["cost"]["price"]["instances"] == 8
    assert answer["cost"] is None
    warned = {warning["code"]: warning["message"] for warning in forecast["warnings"]}[
        "workers_exceed_gpus"
    ]
    assert "8 workers on 2 nodes; the machines billed have 1 GPU each" in warned
    assert "asked" not in warned


def test_candidate_that_leaves_its_nodes_open_is_priced_beside_one_that_gives_them(
    client: TestClient, services: Services
) -> None:
    _publish(client, services, DENSE)
    assert client.post("/v1/prices", json=[{**LONE, "purchase": "owned"}]).status_code == 201
    asked = {"gpu_type": "A10", "workers": 8}

    plan = client.post(
        "/v1/workloads/placed/profiling-plans",
        json={
            "target": {"configuration": {"gpu_type": "V100-16GB", "workers": 16}},
            "candidates": [{"configuration": asked}, {"configuration": {**asked, "nodes": 4}}],
            "pricing": {"purchase": "owned"},
        },
    ).json()

    rejected = [(each["configuration"]["nodes"], each["reason"]) for each in plan["rejected"]]
    assert rejected == [(4, "price_unknown")]


def test_run_of_a_report_costs_what_its_forecast_does(
    client: TestClient, services: Services
) -> None:
    _publish(client, services, DENSE)
    assert client.post("/v1/prices", json=[LONE]).status_code == 201
    own = {"gpu_type": "A10", "workers": 8}
    run = {"workload": "placed", "configuration": own, "duration_seconds": 36_000}

    forecast = _forecast(client, own)
    [judged] = client.post("/v1/ci/reports", json={"runs": [run]}).json()["runs"]

    assert forecast["cost"]["price"]["instances"] == 8
    assert judged["cost"]["observed"] == "120.00"
    median = float(forecast["cost"]["median"])
    assert float(judged["cost"]["expected"]) == pytest.approx(median, rel=0.01)


def test_corrected_price_of_a_machine_replaces_the_one_with_other_gpus(
    client: TestClient, services: Services
) -> None:
    _publish(client, services, DENSE)
    machine = {"instance_type": "fixed", "gpu_type": "V100-16GB"}
    prices = [
        {**machine, "gpu_count": gpus, "price_per_hour": price, "valid_from": since}
        for gpus, price, since in ((8, "4", "2026-10-01T00:00:00Z"), (4, "5", _NOVEMBER))
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201

    forecast = _forecast(client, {"instance_type": "fixed", "workers": 8})

    price = forecast["cost"]["price"]
    assert (price["valid_from"], price["instances"]) == (_NOVEMBER, 2)
    assert forecast["configuration"]["nodes"] == 2


def test_instance_type_is_known_in_any_case(client: TestClient, services: Services) -> None:
    runs = [{**each, "instance_type": "Four"} for each in DENSE]
    _publish(client, services, runs)

    own, *others = (
        _forecast(client, {"instance_type": name, "workers": 8})
        for name in ("Four", "four", "FOUR")
    )

    for other in others:
        assert other["duration_seconds"] == own["duration_seconds"]
        assert other["warnings"] == own["warnings"]
        assert other["configuration"]["instance_type"] == "Four"


@pytest.mark.parametrize(
    ("asked", "machines"),
    [({}, 2), ({"nodes": 4}, 4), ({"nodes": 1}, 1)],
)
def test_spot_machines_are_interrupted_node_by_node_where_no_price_tells_them(
    client: TestClient, services: Services, asked: dict[str, int], machines: int
) -> None:
    _publish(client, services, DENSE)
    spot = {"interruptions_per_hour": 0.1, "checkpoint_interval_s": 60}
    card = {"gpu_type": "P100", "purchase": "spot", "provider": "own"}
    assert client.post("/v1/prices", json={**card, "price_per_hour": "1"}).status_code == 201
    configuration = {"gpu_type": "P100", "workers": 8, "purchase": "spot", **asked}

    inline, own, unpriced = (
        _forecast(client, configuration, pricing={"spot": spot, **pricing})
        for pricing in ({"price_per_hour": "1"}, {"provider": "own"}, {"provider": "nowhere"})
    )

    assert unpriced["cost"] is None
    assert [each["cost"]["price"]["instances"] for each in (inline, own)] == [8, 8]
    for each in (inline, own, unpriced):
        assert each["configuration"]["nodes"] == machines
        assert each["spot"]["interruptions_per_hour"] == pytest.approx(0.1 * machines)
        assert each["duration_seconds"] == unpriced["duration_seconds"]


def test_highest_price_of_spot_capacity_on_several_nodes_keeps_the_budget(
    client: TestClient, services: Services
) -> None:
    _publish(client, services, DENSE)
    spot = {"interruptions_per_hour": 2, "checkpoint_interval_s": 600}
    pricing = {"purchase": "spot", "provider": "nowhere", "spot": spot}
    question = {
        "workload": "placed",
        "work": {},
        "search": {"gpu_types": ["V100-16GB"], "workers": [16]},
        "budget": "10",
        "pricing": pricing,
    }

    nearest = client.post("/v1/recommendations", json=question).json()["nearest"]
    [change] = nearest["changes"]
    priced = {**pricing, "price_per_hour": change["needed"]}
    repeated = client.post("/v1/recommendations", json={**question, "pricing": priced}).json()

    assert change["constraint"] == "pricing.price_per_hour"
    assert repeated["recommended"]["forecast"]["spot"] == nearest["forecast"]["spot"]
