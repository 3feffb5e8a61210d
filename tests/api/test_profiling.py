"""Profiling plans through the door: with a regressor, from a cold start, within a budget."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit, publish_regressor, store_runs
from tests.support.uploads import make_json_run, post_json

TARGET: dict[str, Any] = {
    "configuration": {"gpu_type": "T4", "workers": 32},
    "work": {"dataset_size": 64000},
    "parameters": {"precision": "fp16"},
}
PRICED: dict[str, Any] = {"target": TARGET, "pricing": {"price_per_hour": "1.00"}}


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def ask(client: TestClient, workload: str = "fitted", **changes: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/workloads/{workload}/profiling-plans", json={**PRICED, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def refused(client: TestClient, workload: str = "fitted", **changes: Any) -> dict[str, Any]:
    answer = client.post(f"/v1/workloads/{workload}/profiling-plans", json={**PRICED, **changes})
    assert answer.status_code >= 400, answer.text
    problem: dict[str, Any] = answer.json()
    return problem


def scenario(workers: int, size: float, **changes: Any) -> dict[str, Any]:
    return {
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": size},
        "parameters": {"precision": "fp16"},
        **changes,
    }


def test_plan_orders_runs_that_narrow_the_target(client: TestClient, published: Services) -> None:
    plan = ask(client)

    widths = [plan["width"], *(run["width"] for run in plan["runs"])]
    assert plan["runs"]
    assert widths == sorted(widths, reverse=True)
    assert plan["expected_width"] == widths[-1] < plan["width"]
    assert plan["attainable_width"] <= plan["expected_width"]
    assert plan["basis"] == "regressor"
    assert plan["regressor_version"] == 1
    assert [run["order"] for run in plan["runs"]] == list(range(1, len(plan["runs"]) + 1))


def test_budget_is_kept_by_the_expected_prices(client: TestClient, published: Services) -> None:
    free = ask(client)

    plan = ask(client, budget=free["runs"][0]["price"])

    assert len(plan["runs"]) < len(free["runs"])
    assert float(plan["total_price"]) <= float(plan["budget"])
    prices = [float(run["price"]) for run in free["runs"]]
    assert float(free["total_price"]) == pytest.approx(sum(prices))


def test_budget_below_every_price_plans_nothing_and_says_why(
    client: TestClient, published: Services
) -> None:
    plan = ask(client, budget="0.000001")

    assert plan["runs"] == []
    assert plan["stop"]["reason"] == "budget_spent"
    assert plan["total_price"] is None
    assert plan["expected_width"] == plan["width"]


def test_expected_price_is_above_that_of_the_median(
    client: TestClient, published: Services
) -> None:
    plan = ask(client)

    for run in plan["runs"]:
        at_median = run["duration_seconds"]["median"] / 3600 * run["configuration"]["workers"]
        assert float(run["price"]) >= at_median * 0.99


def test_goal_that_is_reached_stops_the_plan(client: TestClient, published: Services) -> None:
    free = ask(client)
    goal = (free["width"] + free["runs"][0]["width"]) / 2

    plan = ask(client, stop={"width": goal})

    assert plan["stop"]["reason"] == "goal_reached"
    assert len(plan["runs"]) == 1
    assert plan["expected_width"] <= goal


def test_column_that_neither_runs_nor_candidates_vary_is_warned_of(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "short", sizes=(1000.0,))
    fit(services, "short")

    told, searched, alike = (
        ask(client, "short", target=target, search={"workers": [1, 16], "dataset_sizes": sizes})
        for target, sizes in (
            (TARGET, [1000]),
            (TARGET, [1000, 2000]),
            (scenario(32, 1000), [1000]),
        )
    )

    [warning] = told["warnings"]
    assert warning["code"] == "never_varied"
    assert warning["message"] == (
        "All runs and candidates have dataset_size 1,000, a target has 64,000: no run of this plan"
        " shows the effect of another dataset_size."
    )
    assert (searched["warnings"], alike["warnings"]) == ([], [])


def test_goal_below_the_noise_is_warned_of(client: TestClient, published: Services) -> None:
    plan = ask(client, stop={"width": 1e-6})

    [warning] = plan["warnings"]
    assert warning["code"] == "goal_unattainable"
    advised = float(warning["remedy"].removeprefix("Ask for a width above ").removesuffix("."))
    assert ask(client, stop={"width": advised})["warnings"] == []
    assert plan["stop"]["reason"] != "goal_reached"


def test_gain_below_the_threshold_per_cost_stops_the_plan(
    client: TestClient, published: Services
) -> None:
    plan = ask(client, stop={"min_narrowing_per_cost": 1e9})

    assert plan["runs"] == []
    assert plan["stop"]["reason"] == "gain_too_small"


def test_runs_below_the_least_narrowing_are_not_planned(
    client: TestClient, published: Services
) -> None:
    plan = ask(client, stop={"min_narrowing": 0.9})

    assert plan["stop"]["reason"] == "gain_too_small"
    assert "90%" in plan["stop"]["message"]


def test_number_of_runs_is_kept(client: TestClient, published: Services) -> None:
    plan = ask(client, runs=1)

    assert len(plan["runs"]) == 1
    assert plan["stop"]["reason"] == "runs_planned"


def test_candidates_that_are_used_up_end_the_plan(client: TestClient, published: Services) -> None:
    plan = ask(client, candidates=[scenario(16, 8000.0)], stop={"min_narrowing": 0})

    assert plan["considered"] == 1
    assert plan["stop"]["reason"] == "candidates_exhausted"


def test_measured_and_excluded_configurations_are_rejected(
    client: TestClient, published: Services
) -> None:
    plan = ask(
        client,
        candidates=[scenario(2, 1000.0), scenario(16, 8000.0), scenario(16, 16000.0)],
        exclude=[scenario(16, 8000.0)],
    )

    reasons = {
        (candidate["configuration"]["workers"], candidate["work"]["dataset_size"]): candidate[
            "reason"
        ]
        for candidate in plan["rejected"]
    }
    assert reasons == {(2, 1000.0): "measured", (16, 8000.0): "excluded"}
    assert plan["rejected_count"] == 2


def test_measured_configuration_is_planned_again_on_request(
    client: TestClient, published: Services
) -> None:
    plan = ask(client, candidates=[scenario(2, 1000.0)], repeat=True, stop={"min_narrowing": 0})

    assert len(plan["runs"]) == 1


def test_nothing_left_to_measure_is_an_empty_plan(client: TestClient, published: Services) -> None:
    plan = ask(client, candidates=[scenario(2, 1000.0)])

    assert plan["runs"] == []
    assert plan["stop"]["reason"] == "candidates_exhausted"
    assert plan["targets"][0]["now"]["median"] > 0
    assert [candidate["reason"] for candidate in plan["rejected"]] == ["measured"]


def test_search_multiplies_its_lists(client: TestClient, published: Services) -> None:
    plan = ask(
        client,
        search={
            "gpu_types": ["T4", "V100-16GB"],
            "workers": [16, 32],
            "dataset_sizes": [8000, 16000],
            "parameters": {"precision": ["fp16", "fp32"]},
        },
    )

    assert plan["considered"] == 16


def test_search_without_lists_stays_below_the_target(
    client: TestClient, published: Services
) -> None:
    plan = ask(client)

    assert plan["considered"] == 6 * 4
    assert all(run["work"]["dataset_size"] <= 64000 for run in plan["runs"])
    assert all(run["configuration"]["workers"] <= 32 for run in plan["runs"])


def test_search_by_instance_type_and_nodes_names_them(
    client: TestClient, published: Services
) -> None:
    plan = ask(
        client,
        search={"instance_types": ["g4dn.12xlarge"], "nodes": [4], "workers": [16]},
        target={**TARGET, "work": {"dataset_size": 64000, "epochs": 10, "batch_size": 63.5}},
        stop={"min_narrowing": 0},
    )

    first = plan["runs"][0]
    assert first["configuration"]["instance_type"] == "g4dn.12xlarge"
    assert first["configuration"]["nodes"] == 4
    assert {run["work"]["epochs"] for run in plan["runs"]} <= {1.0, 10.0}
    assert plan["considered"] == 4 * 4 * 2


def test_search_that_is_too_large_is_refused(client: TestClient, published: Services) -> None:
    problem = refused(client, search={"workers": list(range(1, 1000))})

    assert problem["status"] == 422
    assert problem["errors"][0]["pointer"] == "/search"


def test_several_targets_are_narrowed_together(client: TestClient, published: Services) -> None:
    plan = ask(client, target=[scenario(16, 32000.0), scenario(1, 64000.0)])

    assert len(plan["targets"]) == 2
    for target in plan["targets"]:
        assert target["expected_width"] <= target["width"]


def test_price_that_is_unknown_rejects_where_others_have_one(
    client: TestClient, published: Services
) -> None:
    plan = ask(
        client,
        pricing={},
        candidates=[scenario(16, 8000.0), scenario(16, 8000.0, configuration={"workers": 16})],
    )

    assert [candidate["reason"] for candidate in plan["rejected"]] == ["price_unknown"]


def test_without_any_price_work_is_what_runs_cost(client: TestClient, published: Services) -> None:
    owned = {"gpu_type": "our-own-card"}
    bare: dict[str, Any] = {
        "pricing": {},
        "target": scenario(32, 64000.0, configuration={"workers": 32}),
        "candidates": [
            scenario(16, 8000.0, configuration={"workers": 16}),
            scenario(8, 32000.0, configuration={"workers": 8}),
        ],
    }

    plan = ask(client, **bare)

    assert plan["currency"] is None
    assert plan["runs"][0]["price"] is None
    problem = refused(client, **bare, budget="5")
    assert "price_per_hour" in problem["errors"][0]["remedy"]
    assert refused(client, target={"configuration": owned})["code"] == "unknown_gpu"


def test_typo_in_a_nested_field_is_named(client: TestClient, published: Services) -> None:
    problem = refused(client, target={"work": {"datasetsize": 1}})

    assert problem["code"] == "unknown_field"
    assert problem["errors"][0]["pointer"] == "/target/work/datasetsize"


def test_unknown_parameter_is_refused(client: TestClient, published: Services) -> None:
    problem = refused(client, target={**TARGET, "parameters": {"precison": "fp16"}})

    assert problem["code"] == "unknown_field"
    assert "precision" in problem["errors"][0]["remedy"]


def test_unknown_workload_is_404(client: TestClient) -> None:
    assert refused(client, "nowhere")["code"] == "unknown_workload"


def test_request_is_told_back_as_it_was_sent(client: TestClient, published: Services) -> None:
    plan = ask(client, budget="2.50", runs=3)

    repeated = client.post("/v1/workloads/fitted/profiling-plans", json=plan["request"]).json()
    assert repeated["runs"] == plan["runs"]
    assert plan["request"]["budget"] == "2.50"


def test_cold_start_without_a_run_names_the_cheapest_runs_without_prices(
    client: TestClient,
) -> None:
    client.put("/v1/workloads/new", json={"dataset_unit": "samples"})

    plan = ask(client, "new", budget="5", runs=10)

    codes = [warning["code"] for warning in plan["warnings"]]
    assert codes == ["cold_start", "scale_unknown"]
    assert plan["basis"] == "prior"
    assert 1 <= len(plan["runs"]) <= 4
    first = plan["runs"][0]
    assert first["work"]["dataset_size"] == 8000
    assert first["price"] is None
    assert plan["targets"][0]["now"] is None
    assert len({run["configuration"]["workers"] for run in plan["runs"]}) > 1


def test_cold_start_with_runs_knows_prices(client: TestClient) -> None:
    run = make_json_run(
        workload="new",
        duration_seconds=400.0,
        configuration={"gpu_type": "T4", "workers": 1},
        work={"dataset_size": 8000},
        parameters={"precision": "fp16"},
    )
    post_json(client, [run, {**run, "duration_seconds": 410.0}])

    plan = ask(client, "new", budget="50")

    assert [each["code"] for each in plan["warnings"]] == ["cold_start"]
    assert all(float(each["price"]) > 0 for each in plan["runs"])
    assert plan["targets"][0]["now"]["lower"] < plan["targets"][0]["now"]["upper"]
    assert {each["reason"] for each in plan["rejected"]} == {"measured"}
    assert all(
        (each["configuration"]["workers"], each["work"]["dataset_size"]) != (1, 8000)
        for each in plan["runs"]
    )


def test_workload_with_runs_but_without_a_gpu_plans_from_them(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "unfitted", excluded=True)

    plan = ask(client, "unfitted", target={"configuration": {"workers": 4}})

    assert plan["runs"][0]["configuration"]["gpu_type"] is None


def test_runs_that_were_made_are_not_planned_again(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    before = ask(client)
    measured = [
        make_json_run(
            workload="fitted",
            duration_seconds=20.0
            + 0.5 * run["work"]["dataset_size"] / run["configuration"]["workers"],
            configuration={"gpu_type": "T4", "workers": run["configuration"]["workers"]},
            work={"dataset_size": run["work"]["dataset_size"]},
            parameters=run["parameters"],
        )
        for run in before["runs"]
    ]
    post_json(client, measured)
    fit(services, "fitted")
    clock.advance(60)

    after = ask(client)

    assert after["rejected_count"] == len(before["runs"])
