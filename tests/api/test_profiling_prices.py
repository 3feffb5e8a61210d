"""What the runs of profiling plans cost: the smallest bill there is, by all rules of billing."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.api.test_profiling import ask, scenario
from tests.support.clock import FakeClock
from tests.support.regressors import fit, publish_regressor, store_runs

BY_THE_HOUR: dict[str, Any] = {
    "provider": "hours",
    "price_per_hour": "1.00",
    "minimum_billed_s": 3600,
    "billing_step_s": 3600,
}
BY_THE_SECOND: dict[str, Any] = {"provider": "seconds", "price_per_hour": "1.20"}
CANDIDATES = [scenario(1, 4000.0), scenario(1, 64_000.0), scenario(2, 8000.0)]
ALL: dict[str, Any] = {"candidates": CANDIDATES, "repeat": True, "stop": {"min_narrowing": 0}}


@pytest.fixture(params=["fitted", "new"])
def workload(request: pytest.FixtureRequest, client: TestClient, services: Services) -> str:
    """Runs of about 0.5 s a sample and worker, with and without a regressor."""
    if request.param == "fitted":
        publish_regressor(services)
    else:
        store_runs(services.context, "new")
    card = {"gpu_type": "T4", "gpu_count": 4, "region": "here"}
    prices = [{**card, **each} for each in (BY_THE_HOUR, BY_THE_SECOND)]
    assert client.post("/v1/prices", json=prices).status_code == 201
    return str(request.param)


def prices_of(plan: dict[str, Any]) -> dict[tuple[int, float], float]:
    return {
        (run["configuration"]["workers"], run["work"]["dataset_size"]): float(run["price"])
        for run in plan["runs"]
    }


def test_run_is_planned_at_its_smallest_bill(client: TestClient, workload: str) -> None:
    by_hour, by_second, either = (
        prices_of(ask(client, workload, pricing={"region": "here", **place}, **ALL))
        for place in ({"provider": "hours"}, {"provider": "seconds"}, {})
    )

    assert len(either) == len(CANDIDATES)
    assert either == {each: min(by_hour[each], by_second[each]) for each in either}
    assert by_hour[1, 64_000.0] < by_second[1, 64_000.0]
    assert by_hour[1, 4000.0] > by_second[1, 4000.0]


def test_gains_are_weighed_by_what_is_billed(client: TestClient, workload: str) -> None:
    candidates = [scenario(1, size) for size in (500.0, 8000.0, 64_000.0)]
    alike: dict[str, Any] = {"price_per_hour": "1", "minimum_billed_s": 2_678_400}

    plan = ask(client, workload, **{**ALL, "pricing": alike, "candidates": candidates})
    alone = [
        ask(client, workload, **{**ALL, "pricing": alike, "candidates": [candidate]})["runs"][0]
        for candidate in candidates
    ]

    assert len({run["price"] for run in alone}) == 1
    most = max(alone, key=lambda run: float(run["narrowing"]))
    assert plan["runs"][0]["work"] == most["work"]


@pytest.mark.parametrize("per_hour", [0.01, 3.0])
def test_durations_of_spot_runs_are_those_of_their_forecasts(
    client: TestClient, services: Services, per_hour: float
) -> None:
    publish_regressor(services)
    terms = {"interruptions_per_hour": per_hour, "checkpoint_interval_s": 300, "restart_s": 600}
    pricing = {"purchase": "spot", "price_per_hour": "1", "spot": terms}

    plan = ask(client, **{**ALL, "pricing": pricing})

    assert len(plan["runs"]) == len(CANDIDATES)
    for run in plan["runs"]:
        asked = {key: run[key] for key in ("configuration", "work", "parameters")}
        question = {"workload": "fitted", "pricing": pricing, **asked}
        forecast = client.post("/v1/forecasts", json=question).json()
        for name, seconds in run["duration_seconds"].items():
            assert seconds == pytest.approx(forecast["duration_seconds"][name], rel=1e-4)


def made(workers: int, seconds: float, **changes: Any) -> dict[str, Any]:
    return {**scenario(workers, 4000.0, **changes), "duration_seconds": seconds}


@pytest.mark.parametrize(
    ("pricing", "spent"),
    [
        ({"price_per_hour": "1.00"}, "1.50"),
        ({"price_per_hour": "1.00", "minimum_billed_s": 7200}, "6.00"),
        ({"price_per_hour": "1.00", "billing_step_s": 3600}, "3.00"),
        ({"price_per_hour": "1.00", "extras": {"egress_gb": 2, "egress_per_gb": "0.5"}}, "3.50"),
        (
            {"price_per_hour": "1.00", "extras": {"other_nodes": 1, "other_node_per_hour": "3"}},
            "4.50",
        ),
        ({"price_per_hour": "1.00", "extras": {"platform_per_instance_hour": "0.5"}}, "2.25"),
        ({"serverless": {"memory_gb": 1, "price_per_gb_second": "0.001"}}, "5.40"),
        ({"region": "here"}, "1.20"),
        ({"provider": "hours"}, "2.00"),
    ],
)
def test_runs_that_were_made_are_billed_by_all_rules(
    client: TestClient, workload: str, pricing: dict[str, Any], spent: str
) -> None:
    runs = [made(2, 1800.0), made(1, 1800.0)]

    plan = ask(client, workload, pricing=pricing, made=runs)

    assert Decimal(plan["spent"]) == Decimal(spent)


def test_what_was_spent_is_taken_off_the_budget(client: TestClient, workload: str) -> None:
    pricing = {"price_per_hour": "1.00", "minimum_billed_s": 86_400}
    whole: dict[str, Any] = {**ALL, "candidates": CANDIDATES[:2], "pricing": pricing}

    fresh = ask(client, workload, **whole, budget="50")
    half = ask(client, workload, **whole, budget="50", made=[made(1, 5.0)])
    none = ask(client, workload, **whole, budget="50", made=[made(1, 5.0), made(1, 0.0)])

    assert [len(plan["runs"]) for plan in (fresh, half, none)] == [2, 1, 0]
    assert [plan["spent"] for plan in (fresh, half, none)] == [None, "24.00", "48.00"]
    assert (none["stop"]["reason"], none["budget"]) == ("budget_spent", "50")


def test_runs_that_were_made_are_billed_at_the_price_that_held_when_they_started(
    client: TestClient, workload: str, clock: FakeClock
) -> None:
    first, later = clock(), clock() + timedelta(days=1)
    cheaper = {**BY_THE_SECOND, "gpu_type": "T4", "gpu_count": 4, "region": "here"}
    client.post(
        "/v1/prices", json={**cheaper, "price_per_hour": "0.12", "valid_from": later.isoformat()}
    )
    clock.advance(2 * 86_400)
    pricing = {"provider": "seconds"}
    before = {**made(1, 3600.0), "started_at": first.isoformat()}
    unpriced = {**before, "started_at": (first - timedelta(days=30)).isoformat()}

    spent = [
        Decimal(ask(client, workload, pricing=terms, made=[run])["spent"])
        for run, terms in (
            (before, pricing),
            (made(1, 3600.0), pricing),
            (unpriced, pricing),
            (before, {**pricing, "as_of": clock().isoformat()}),
        )
    ]

    assert spent == [Decimal(price) for price in ("1.20", "0.12", "0.12", "0.12")]


GPU = {"gpu_type": "V100-16GB"}
DENSE: dict[str, Any] = {
    "target": {"configuration": {**GPU, "workers": 32}, "work": {}},
    "search": {"gpu_types": ["V100-16GB"], "workers": [4, 8, 16]},
    "repeat": True,
    "stop": {"min_narrowing": 0},
    "pricing": {"currency": "EUR"},
}


def dense(workers: int, **changes: Any) -> dict[str, Any]:
    return {"configuration": {**GPU, "workers": workers, **changes}, "work": {}}


@pytest.fixture
def placed(client: TestClient, services: Services) -> str:
    """Runs of eight workers a node; the project's own machines have four GPUs."""
    runs = [
        {
            "workload": "placed",
            "duration_seconds": 50.0 + 8000.0 / workers,
            **GPU,
            "nodes": max(1, workers // 8),
            "workers": workers,
        }
        for workers in (2, 4, 8, 16, 32)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    price = {
        **GPU,
        "currency": "EUR",
        "instance_type": "our-4x",
        "gpu_count": 4,
        "price_per_hour": "8",
    }
    assert client.post("/v1/prices", json=price).status_code == 201
    return "placed"


def as_made(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a plan as they are sent back, each as long as it was expected."""
    return [
        {
            **{name: run[name] for name in ("configuration", "work", "parameters")},
            "duration_seconds": run["duration_seconds"]["median"],
        }
        for run in plan["runs"]
    ]


def warnings_of(plan: dict[str, Any]) -> dict[str, str]:
    return {warning["code"]: warning["message"] for warning in plan["warnings"]}


@pytest.mark.parametrize("is_fitted", [True, False])
@pytest.mark.parametrize("is_search", [True, False])
def test_planned_runs_that_were_made_are_billed_as_they_were_planned(
    client: TestClient, services: Services, placed: str, *, is_fitted: bool, is_search: bool
) -> None:
    if is_fitted:
        fit(services, placed)
    body = DENSE if is_search else {**DENSE, "candidates": [dense(8), dense(16)]}
    plan = ask(client, placed, **body)

    repeated = ask(client, placed, **body, made=as_made(plan), budget="20")

    assert {run["configuration"]["workers"] for run in plan["runs"]} >= {8, 16}
    assert float(repeated["spent"]) == pytest.approx(float(plan["total_price"]), rel=0.5)
    assert not {"price_unknown", "currency_not_converted"} & set(warnings_of(repeated))


def test_made_runs_whose_price_nobody_knows_are_told(
    client: TestClient, services: Services, placed: str
) -> None:
    fit(services, placed)
    known = {**dense(8), "duration_seconds": 3600.0}
    unknown = {"configuration": {"workers": 8}, "work": {}, "duration_seconds": 3600.0}
    foreign = {**dense(8, instance_type="p3.16xlarge"), "duration_seconds": 3600.0}

    plan = ask(client, placed, **DENSE, made=[known, unknown, unknown, foreign], budget="20")

    warnings = warnings_of(plan)
    assert Decimal(plan["spent"]) == Decimal(16)
    assert "leaves out 2 of 4 runs made: no price" in warnings["price_unknown"]
    assert "leaves out 1 of 4 runs made: prices are in USD" in warnings["currency_not_converted"]


def test_spending_has_a_currency_where_no_candidate_has_a_price(
    client: TestClient, services: Services, placed: str
) -> None:
    fit(services, placed)
    target = {"configuration": {"workers": 4}, "work": {}}
    question = {**DENSE, "target": target, "candidates": [target]}

    plan = ask(client, placed, **question, made=[{**dense(8), "duration_seconds": 3600.0}])

    assert (plan["spent"], plan["currency"]) == ("16.00", "EUR")
    assert plan["runs"][0]["price"] is None
    assert "price_unknown" not in warnings_of(plan)
