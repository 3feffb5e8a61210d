"""Profiling plans in money: currencies, places, ways to buy, free hardware."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.api.test_profiling import ask, refused, scenario
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def store_prices(client: TestClient) -> None:
    card = {"gpu_type": "T4", "gpu_count": 1, "region": "here"}
    prices = [
        {**card, "provider": provider, "purchase": purchase, "price_per_hour": price}
        for provider, purchase, price in (
            ("dear", "on_demand", "9.00"),
            ("cheap", "on_demand", "1.00"),
            ("cheap", "spot", "0.10"),
        )
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201


def store_rate(client: TestClient, **changes: Any) -> None:
    rate = {"from_currency": "USD", "to_currency": "JPY", "rate": "150", "source": "a bank"}
    answer = client.post("/v1/exchange-rates", json={**rate, **changes})
    assert answer.status_code == 201, answer.text


def test_plan_is_in_the_currency_of_the_workload_as_a_forecast_is(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    dollars = ask(client, pricing={}, runs=1)
    client.put("/v1/workloads/fitted", json={"currency": "JPY"})
    store_rate(client)
    clock.advance(60)

    plan = ask(client, pricing={}, runs=1, budget="1000000")
    poor = ask(client, pricing={}, runs=1, budget="0.001")

    assert (dollars["currency"], plan["currency"]) == ("USD", "JPY")
    price, in_dollars = (float(each["runs"][0]["price"]) for each in (plan, dollars))
    assert price == pytest.approx(150 * in_dollars, rel=1e-3)
    assert poor["stop"]["reason"] == "budget_spent"


def test_prices_in_several_currencies_are_compared_in_that_of_the_workload(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    price = {"gpu_type": "T4", "gpu_count": 1, "price_per_hour": "90", "currency": "JPY"}
    assert client.post("/v1/prices", json=price).status_code == 201
    store_rate(client)
    clock.advance(60)
    searches = [{"gpu_types": names, "workers": [16]} for names in (["A10G", "T4"], ["T4", "A10G"])]

    plans = [ask(client, pricing={}, search=search, runs=5) for search in searches]

    assert [plan["currency"] for plan in plans] == ["USD", "USD"]
    assert [plan["rejected_count"] for plan in plans] == [0, 0]


def test_run_made_before_the_first_exchange_rate_is_billed_at_that_of_the_plan(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    price = {"gpu_type": "T4", "gpu_count": 1, "currency": "JPY"}
    dearer = {"price_per_hour": "300", "valid_from": (clock() - timedelta(days=9)).isoformat()}
    answer = client.post("/v1/prices", json=[{**price, **dearer}, {**price, "price_per_hour": "1"}])
    assert answer.status_code == 201, answer.text
    store_rate(client)
    clock.advance(60)
    began_at = (clock() - timedelta(days=1)).isoformat()
    run = {**scenario(1, 1000.0), "duration_seconds": 3600.0}

    plan = ask(client, pricing={"currency": "USD"}, made=[{**run, "started_at": began_at}])
    in_yen = ask(client, pricing={"currency": "JPY"}, made=[{**run, "started_at": began_at}])

    assert (plan["currency"], in_yen["currency"]) == ("USD", "JPY")
    assert float(plan["spent"]) == pytest.approx(1 / 150, rel=0.01)
    assert float(in_yen["spent"]) == 300
    assert "currency_not_converted" not in [warning["code"] for warning in plan["warnings"]]


def test_budget_is_refused_where_no_exchange_rate_holds(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    client.put("/v1/workloads/fitted", json={"currency": "JPY"})
    clock.advance(60)

    plan = ask(client, pricing={}, runs=1)
    problem = refused(client, pricing={}, runs=1, budget="100")

    assert plan["currency"] == "USD"
    assert "JPY" in problem["detail"]
    assert "exchange rates" in problem["errors"][0]["remedy"]


def bought_from(plan: dict[str, Any]) -> set[str]:
    return {run["configuration"]["provider"] for run in plan["runs"]}


@pytest.mark.parametrize("providers", [["cheap", "dear"], ["dear", "cheap"]])
def test_cheapest_of_candidates_that_are_only_paid_otherwise_is_planned(
    client: TestClient, published: Services, providers: list[str]
) -> None:
    store_prices(client)
    listed = [
        scenario(16, 8000.0, configuration={"gpu_type": "T4", "workers": 16, "provider": provider})
        for provider in providers
    ]

    searched = ask(client, pricing={}, search={"providers": providers, "workers": [16]}, runs=3)
    named = ask(client, pricing={}, candidates=listed, stop={"min_narrowing": 0})

    assert bought_from(searched) == bought_from(named) == {"cheap"}
    assert (searched["considered"], named["considered"]) == (4, 1)
    assert len(named["runs"]) == 1


@pytest.mark.parametrize("purchases", [["spot", "on_demand"], ["on_demand", "spot"]])
def test_spot_that_never_ends_gives_way_to_what_can_be_measured(
    client: TestClient, published: Services, purchases: list[str]
) -> None:
    store_prices(client)
    search = {"providers": ["cheap"], "purchase": purchases, "workers": [20_000]}
    bare: dict[str, Any] = {"pricing": {}, "stop": {"min_narrowing": 0}}

    plan = ask(client, **bare, search=search)
    alone = ask(client, **bare, search={**search, "purchase": ["spot"]})

    assert {run["configuration"]["purchase"] for run in plan["runs"]} == {"on_demand"}
    assert plan["rejected_count"] == 0
    assert {candidate["reason"] for candidate in alone["rejected"]} == {"spot_infeasible"}


def test_before_the_first_run_the_price_of_an_hour_decides_where_to_measure(
    client: TestClient,
) -> None:
    store_prices(client)
    client.put("/v1/workloads/new", json={"dataset_unit": "samples"})

    plan = ask(client, "new", pricing={}, search={"providers": ["cheap", "dear"]})

    assert bought_from(plan) == {"cheap"}


def test_free_hardware_is_planned_by_its_work(client: TestClient, published: Services) -> None:
    plan = ask(client, pricing={"price_per_hour": "0"}, budget="1")

    assert plan["runs"]
    assert float(plan["total_price"]) == 0
