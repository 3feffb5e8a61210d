"""Recommendations through the door: search, constraints, reasons."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit, publish_regressor

WORK: dict[str, Any] = {
    "workload": "fitted",
    "work": {"dataset_size": 2000},
    "parameters": {"precision": "fp16"},
}


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def recommend(client: TestClient, **changes: Any) -> dict[str, Any]:
    answer = client.post("/v1/recommendations", json={**WORK, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def workers_of(entries: list[dict[str, Any]]) -> list[int]:
    return [entry["forecast"]["configuration"]["workers"] for entry in entries]


def test_search_without_bounds_goes_beyond_what_was_measured(
    client: TestClient, published: Services
) -> None:
    answer = recommend(client, objective="duration")

    assert answer["considered"] == 6
    assert workers_of(answer["ranked"]) == [32, 16, 8, 4, 2, 1]
    assert answer["recommended"] == answer["ranked"][0]
    assert answer["rejected"] == []
    assert answer["nearest"] is None


def test_cheapest_candidate_that_keeps_the_deadline_wins(
    client: TestClient, published: Services
) -> None:
    free = recommend(client)
    bound = free["ranked"][0]["forecast"]["duration_seconds"]["median"] / 2.0

    answer = recommend(client, deadline_s=bound)

    costs = [float(entry["forecast"]["cost"]["median"]) for entry in answer["ranked"]]
    assert costs == sorted(costs)
    assert workers_of(free["ranked"])[0] == 1
    assert workers_of(answer["ranked"])[0] == 4
    assert answer["ranked"][0]["forecast"]["probability"]["deadline"] >= 0.9
    assert {entry["reason"] for entry in answer["rejected"]} == {"deadline"}
    assert answer["rejected_count"] == 2


def test_pareto_front_trades_cost_for_duration(client: TestClient, published: Services) -> None:
    front = recommend(client)["pareto"]

    durations = [entry["forecast"]["duration_seconds"]["median"] for entry in front]
    costs = [float(entry["forecast"]["cost"]["median"]) for entry in front]
    assert durations == sorted(durations)
    assert costs == sorted(costs, reverse=True)


def test_nothing_qualifies_names_the_nearest_and_what_would_have_to_change(
    client: TestClient, published: Services
) -> None:
    answer = recommend(client, deadline_s=1, budget="0.0001", search={"workers": [1, 2]})

    assert answer["recommended"] is None
    assert answer["ranked"] == []
    assert answer["rejected_count"] == 2
    changes = {change["constraint"]: change for change in answer["nearest"]["changes"]}
    assert set(changes) == {"deadline_s", "budget"}
    relaxed = recommend(
        client,
        deadline_s=changes["deadline_s"]["needed"],
        budget=changes["budget"]["needed"],
        search={"workers": [1, 2]},
    )
    nearest = answer["nearest"]["forecast"]["configuration"]
    assert relaxed["recommended"]["forecast"]["configuration"] == nearest


def test_range_can_be_required(client: TestClient, published: Services) -> None:
    answer = recommend(client, require_within_range=True)

    assert max(workers_of(answer["ranked"])) == 8
    assert {entry["reason"] for entry in answer["rejected"]} == {"beyond_range"}


def test_unknown_price_rejects_where_cost_matters(client: TestClient, published: Services) -> None:
    search = {"regions": ["mars-1"], "workers": [1]}

    by_cost = recommend(client, search=search)
    by_duration = recommend(client, search=search, objective="duration")

    assert [entry["reason"] for entry in by_cost["rejected"]] == ["price_unknown"]
    assert by_duration["recommended"]["forecast"]["cost"] is None
    assert by_duration["pareto"] == []


def test_spot_that_cannot_end_is_rejected_with_its_reason(
    client: TestClient, published: Services
) -> None:
    answer = recommend(
        client,
        search={"purchase": ["on_demand", "spot"], "workers": [2]},
        pricing={"price_per_hour": "1.00", "spot": {"interruptions_per_hour": 600}},
    )

    assert [entry["reason"] for entry in answer["rejected"]] == ["spot_infeasible"]
    assert answer["considered"] == 2
    chosen = answer["recommended"]["forecast"]["configuration"]
    assert chosen["purchase"] == "on_demand"


@pytest.mark.parametrize("objective", ["cost", "duration", "cost_duration_product", "energy"])
def test_every_objective_ranks(client: TestClient, published: Services, objective: str) -> None:
    answer = recommend(
        client,
        objective=objective,
        search={"gpu_types": ["T4", "NVIDIA L4"], "workers": [1, 2]},
        limit=3,
    )

    assert answer["considered"] == 4
    assert len(answer["ranked"]) == 3


def test_instance_types_bring_their_gpu_and_places(client: TestClient, published: Services) -> None:
    search = {
        "instance_types": ["g4dn.12xlarge", "p3.16xlarge", "unheard.of"],
        "gpu_types": ["T4", "L4"],
        "providers": ["aws"],
        "nodes": [1],
        "workers": [4],
    }

    answer = recommend(client, search=search, objective="duration")

    pairs = {
        (entry["forecast"]["configuration"]["gpu_type"], entry["forecast"]["cost"] is None)
        for entry in answer["ranked"]
    }
    assert pairs == {("T4", False), (None, True)}


def test_measured_pairs_of_hardware_are_searched(client: TestClient, services: Services) -> None:
    runs = [
        {
            "workload": "pairs",
            "duration_seconds": 100.0 / workers + 5 * boost,
            "gpu_type": gpu,
            "instance_type": instance,
            "workers": workers,
        }
        for boost, (gpu, instance) in enumerate([("T4", "dgx"), ("L4", "box"), ("T4", "box")])
        for workers in (1, 2, 4)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "pairs")
    question = {"workload": "pairs", "work": {}, "parameters": {}, "objective": "duration"}

    everywhere = recommend(client, **question, search={"workers": [2]})
    by_gpu = recommend(client, **question, search={"workers": [2], "gpu_types": ["t4"]})
    by_box = recommend(client, **question, search={"workers": [2], "instance_types": ["BOX"]})

    assert [answer["considered"] for answer in (everywhere, by_gpu, by_box)] == [3, 2, 2]


def test_workload_without_hardware_is_searched_over_workers(
    client: TestClient, services: Services
) -> None:
    runs = [
        {"workload": "plain", "duration_seconds": 100.0 / workers, "workers": workers}
        for workers in (1, 2, 3)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "plain")

    question = {"workload": "plain", "work": {}, "parameters": {}, "objective": "duration"}
    energy = {**question, "objective": "energy"}

    assert workers_of(recommend(client, **question)["ranked"]) == [8, 4, 2, 1]
    rejected = recommend(client, **energy)["rejected"]
    assert {entry["reason"] for entry in rejected} == {"energy_unknown"}


def test_text_reads_as_a_person_wants(client: TestClient, published: Services) -> None:
    answer = client.post("/v1/recommendations", json=WORK, headers={"Accept": "text/plain"})

    assert answer.text.startswith("Best of 6 configurations by cost")


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"workload": "nobody"}, 404, "unknown_workload"),
        ({"search": {"gpu_types": ["A100"]}}, 422, "ambiguous_gpu"),
        ({"search": {"gpu_types": ["X9000"]}}, 422, "unknown_gpu"),
        ({"serch": {}}, 422, "unknown_field"),
        ({"objective": "beauty"}, 422, "invalid_request"),
        ({"search": {"workers": []}}, 422, "invalid_request"),
        ({"search": {"gpu_types": []}}, 422, "invalid_request"),
        (
            {"search": {"workers": list(range(1, 1001)), "nodes": list(range(1, 12))}},
            422,
            "invalid_request",
        ),
    ],
)
def test_bad_search_is_refused(
    client: TestClient, published: Services, changes: dict[str, Any], status: int, code: str
) -> None:
    answer = client.post("/v1/recommendations", json={**WORK, **changes})

    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_constraint_on_the_range_may_have_to_give_way(
    client: TestClient, published: Services
) -> None:
    answer = recommend(client, require_within_range=True, search={"workers": [64]})

    (change,) = answer["nearest"]["changes"]
    assert change["constraint"] == "require_within_range"
    assert (change["asked"], change["needed"]) == (True, False)


def test_workers_are_packed_onto_nodes_as_densely_as_measured(
    client: TestClient, services: Services
) -> None:
    runs = [
        {
            "workload": "packed",
            "duration_seconds": 100.0 / workers + nodes,
            "gpu_type": "T4",
            "nodes": nodes,
            "workers": workers,
        }
        for nodes, workers in ((1, 1), (1, 2), (1, 4), (2, 8))
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "packed")
    question = {"workload": "packed", "work": {}, "parameters": {}, "objective": "duration"}
    search = {"gpu_types": ["T4", "L4"], "workers": [2, 10]}

    packed = recommend(client, **question, search=search)["ranked"]
    told = recommend(client, **question, search={**search, "nodes": [5]})["ranked"]

    configurations = [entry["forecast"]["configuration"] for entry in packed]
    assert {
        (configuration["workers"], configuration["nodes"]) for configuration in configurations
    } == {(2, 1), (10, 3)}
    assert {configuration["forecast"]["configuration"]["nodes"] for configuration in told} == {5}


def test_further_charges_and_hourly_billing_reach_the_ranking(
    client: TestClient, published: Services
) -> None:
    extras = {"egress_gb": 10, "egress_per_gb": "0.5", "other_nodes": 1, "other_node_per_hour": 1}
    pricing = {"price_per_hour": "3.00", "billing_step_s": 3600, "extras": extras}

    answer = recommend(client, search={"workers": [1, 2]}, pricing=pricing)

    cost = answer["recommended"]["forecast"]["cost"]
    items = {item["kind"]: item for item in cost["line_items"]}
    assert set(items) == {"compute", "other_nodes", "egress"}
    assert float(items["other_nodes"]["quantity"]).is_integer()
    assert items["egress"]["amount"] == "5.00"


@pytest.mark.parametrize(("price", "workers", "budget"), [("0.1", 3, "0.3"), ("1.1", 6, "6.6")])
def test_budget_that_is_the_bill_pays_for_it(
    client: TestClient, published: Services, price: str, workers: int, budget: str
) -> None:
    by_the_hour = {"price_per_hour": price, "minimum_billed_s": 3600}
    question: dict[str, Any] = {"work": {"dataset_size": 100}, "pricing": by_the_hour}

    answer = recommend(client, **question, search={"workers": [workers]}, budget=budget)

    forecast = answer["recommended"]["forecast"]
    assert float(forecast["cost"]["upper"]) == float(budget)
    assert forecast["probability"]["budget"] == 1.0


def test_prices_of_two_currencies_are_never_compared(
    client: TestClient, published: Services
) -> None:
    in_dollars = recommend(client, search={"workers": [1]}, pricing={"currency": "USD"})
    in_francs = recommend(client, search={"workers": [1]}, pricing={"currency": "CHF"})

    assert in_dollars["recommended"] is not None
    assert in_francs["recommended"] is None
    assert [entry["reason"] for entry in in_francs["rejected"]] == ["exchange_rate_unknown"]


def test_short_list_keeps_both_ends_of_the_front_and_the_recommended_one(
    client: TestClient, published: Services
) -> None:
    whole = recommend(client)["pareto"]

    answer = recommend(client, limit=3)

    assert len(whole) > 3
    assert len(answer["pareto"]) == 3
    assert answer["recommended"] in answer["pareto"]
    assert [answer["pareto"][place] for place in (0, -1)] == [whole[0], whole[-1]]


@pytest.fixture
def machines(client: TestClient, services: Services) -> dict[str, Any]:
    """Runs on machines of 4 GPUs, and prices of machines of 1, 4 and 8."""
    prices = [
        {"instance_type": f"m{gpus}", "gpu_type": "T4", "gpu_count": gpus, "price_per_hour": gpus}
        for gpus in (1, 4, 8)
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201
    runs = [
        {
            "workload": "machines",
            "duration_seconds": 10.0 + 3600.0 / workers,
            "gpu_type": "T4",
            "instance_type": "m4",
            "nodes": max(1, workers // 4),
            "workers": workers,
        }
        for workers in (1, 2, 4, 8, 16)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "machines")
    return {"workload": "machines", "work": {}, "parameters": {}}


def test_machines_that_no_run_had_hold_a_worker_a_gpu(
    client: TestClient, machines: dict[str, Any]
) -> None:
    search = {"instance_types": ["m1", "m4", "m8"], "workers": [8]}

    told = recommend(client, **machines, search=search)["ranked"]

    asked = [entry["forecast"]["configuration"] for entry in told]
    assert {each["instance_type"]: each["nodes"] for each in asked} == {"m1": 8, "m4": 2, "m8": 1}
    warned = {each["code"] for entry in told for each in entry["forecast"]["warnings"]}
    assert "workers_exceed_gpus" not in warned


def test_nodes_with_fewer_gpus_than_workers_are_rejected_by_name(
    client: TestClient, machines: dict[str, Any]
) -> None:
    search = {"instance_types": ["m1", "m8"], "workers": [8], "nodes": [1]}

    recommendation = recommend(client, **machines, search=search)

    assert [
        each["forecast"]["configuration"]["instance_type"] for each in recommendation["ranked"]
    ] == ["m8"]
    assert [
        (each["configuration"]["instance_type"], each["reason"])
        for each in recommendation["rejected"]
    ] == [("m1", "too_few_gpus")]
    assert (recommendation["considered"], recommendation["rejected_by_reason"]) == (
        2,
        {"too_few_gpus": 1},
    )
