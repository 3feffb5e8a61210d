"""Exchange rates through the door: upload, list, export, withdraw, and what they do to a cost."""

from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor

CSV = {"Content-Type": "text/csv"}
RATE = {
    "from_currency": "EUR",
    "to_currency": "USD",
    "rate": "1.25",
    "valid_from": "2026-10-20",
    "source": "a bank",
}


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def ask(client: TestClient, **changes: Any) -> dict[str, Any]:
    body = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": 2},
        "work": {"dataset_size": 2000},
        "parameters": {"precision": "fp16"},
        **changes,
    }
    answer = client.post("/v1/forecasts", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def store(client: TestClient, *rates: dict[str, Any]) -> list[dict[str, Any]]:
    answer = client.post("/v1/exchange-rates", json=list(rates))
    assert answer.status_code == 201, answer.text
    stored: list[dict[str, Any]] = answer.json()["exchange_rates"]
    return stored


def codes(forecast: dict[str, Any]) -> set[str]:
    return {warning["code"] for warning in forecast["warnings"]}


def test_cost_is_told_in_the_currency_of_the_question(
    client: TestClient, published: Services
) -> None:
    store(client, RATE)

    dollars = ask(client, pricing={"currency": "USD"})["cost"]
    forecast = ask(client, pricing={"currency": "EUR"}, budget="100")

    euros = forecast["cost"]
    assert euros["currency"] == "EUR"
    assert Decimal(euros["price_per_hour"]) == Decimal(dollars["price_per_hour"]) * Decimal("0.8")
    assert euros["conversion"] == {
        "from_currency": "USD",
        "to_currency": "EUR",
        "rate": "0.8",
        "valid_from": "2026-10-20T00:00:00Z",
        "age_days": euros["conversion"]["age_days"],
        "source": "inverse of a bank",
        "listed_price_per_hour": dollars["price_per_hour"],
    }
    assert dollars["conversion"] is None
    assert forecast["probability"]["budget"] == pytest.approx(1.0, abs=1e-3)
    assert "currency_not_converted" not in codes(forecast)


def test_workload_is_told_what_it_costs_in_its_own_currency(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    store(client, RATE)
    assert client.put("/v1/workloads/fitted", json={"currency": "EUR"}).status_code == 200
    clock.advance(3600.0)

    own = ask(client)
    named = ask(client, pricing={"currency": "USD"})
    inline = ask(client, pricing={"price_per_hour": "2.00"})

    assert (own["cost"]["currency"], named["cost"]["currency"]) == ("EUR", "USD")
    assert inline["cost"]["currency"] == "EUR"
    assert inline["cost"]["conversion"] is None


def test_missing_rate_leaves_the_price_as_it_is_and_says_what_to_do(
    client: TestClient, published: Services
) -> None:
    forecast = ask(client, pricing={"currency": "CHF"}, budget="100")

    assert forecast["cost"]["currency"] == "USD"
    assert forecast["probability"]["budget"] is None
    [warning] = [each for each in forecast["warnings"] if each["code"] == "currency_not_converted"]
    assert "no exchange rate to CHF" in warning["message"]
    assert "POST /v1/exchange-rates" in warning["remedy"]


def test_old_rate_is_applied_with_its_age(client: TestClient, published: Services) -> None:
    store(client, {**RATE, "valid_from": "2020-01-01"})

    forecast = ask(client, pricing={"currency": "EUR"})

    assert forecast["cost"]["currency"] == "EUR"
    assert forecast["cost"]["conversion"]["age_days"] > 1000
    assert "stale_exchange_rate" in codes(forecast)


def test_rate_of_the_day_that_is_asked_about_counts(
    client: TestClient, published: Services
) -> None:
    store(client, RATE, {**RATE, "rate": "2", "valid_from": "2026-10-25"})
    price = {"gpu_type": "T4", "gpu_count": 1, "price_per_hour": "8.00", "valid_from": "2026-10-01"}
    assert client.post("/v1/prices", json=price).status_code == 201

    early, late = (
        ask(client, pricing={"currency": "EUR", "as_of": day})["cost"]
        for day in ("2026-10-22", "2026-10-28")
    )

    assert (early["price_per_hour"], late["price_per_hour"]) == ("6.40", "4.00")


def test_withdrawn_rate_converts_no_longer(client: TestClient, published: Services) -> None:
    [stored] = store(client, RATE)

    first = client.delete(f"/v1/exchange-rates/{stored['rate_id']}")
    repeated = client.delete(f"/v1/exchange-rates/{stored['rate_id']}")

    assert (first.status_code, repeated.status_code) == (204, 404)
    assert client.get("/v1/exchange-rates").json()["exchange_rates"] == []
    assert "currency_not_converted" in codes(ask(client, pricing={"currency": "EUR"}))


def test_rates_are_uploaded_listed_and_exported_as_csv(client: TestClient) -> None:
    body = (
        "from_currency,to_currency,rate,valid_from,source\n"
        "EUR,USD,1.0842,2026-11-02,ECB\n"
        "EUR,CHF,0.9377,2026-11-02,ECB\n"
    )

    created = client.post("/v1/exchange-rates", content=body, headers=CSV)
    first = client.get("/v1/exchange-rates?page_size=1").json()
    second = client.get(
        f"/v1/exchange-rates?page_size=1&page_token={first['next_page_token']}"
    ).json()
    exported = client.get("/v1/exchange-rates", headers={"Accept": "text/csv"})
    repeated = client.post("/v1/exchange-rates", content=exported.content, headers=CSV)
    page = client.get("/v1/exchange-rates?page_size=1", headers={"Accept": "text/csv"})

    assert created.json()["created"] == 2
    listed = first["exchange_rates"] + second["exchange_rates"]
    assert [rate["to_currency"] for rate in listed] == ["CHF", "USD"]
    assert second["next_page_token"] is None
    assert repeated.json()["created"] == 2
    assert "EUR,USD,1.0842,2026-11-02T00:00:00Z,ECB" in exported.text
    assert page.headers["next-page-token"].startswith("rate_")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"rate": "0"}, "rate"),
        ({"rate": "1.0000000000001"}, "rate"),
        ({"to_currency": "EUR"}, None),
        ({"from_currency": "euro"}, "from_currency"),
        ({"rates": "1"}, "rates"),
    ],
)
def test_bad_rate_is_refused_and_nothing_is_stored(
    client: TestClient, changes: dict[str, str], field: str | None
) -> None:
    answer = client.post("/v1/exchange-rates", json=[RATE, {**RATE, **changes}])

    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert fault["row"] == 2
    assert field is None or fault["field"] == field
    assert client.get("/v1/exchange-rates").json()["exchange_rates"] == []


def test_token_of_another_list_is_refused(client: TestClient) -> None:
    answer = client.get("/v1/exchange-rates?page_token=price_1")

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_recommendation_compares_currencies_after_conversion(
    client: TestClient, published: Services
) -> None:
    prices = [
        {"gpu_type": "T4", "gpu_count": 1, "price_per_hour": "1.00", "currency": "USD"},
        {"gpu_type": "L4", "gpu_count": 1, "price_per_hour": "0.01", "currency": "EUR"},
        {"gpu_type": "P100", "gpu_count": 1, "price_per_hour": "0.01", "currency": "JPY"},
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201
    store(client, RATE)

    answer = client.post(
        "/v1/recommendations",
        json={
            "workload": "fitted",
            "work": {"dataset_size": 2000},
            "parameters": {"precision": "fp16"},
            "search": {"gpu_types": ["T4", "L4", "P100"], "workers": [1]},
            "pricing": {"currency": "USD"},
        },
    ).json()

    ranked = [each["forecast"]["configuration"]["gpu_type"] for each in answer["ranked"]]
    assert ranked == ["L4", "T4"]
    assert [each["reason"] for each in answer["rejected"]] == ["exchange_rate_unknown"]


def test_text_tells_rate_and_listed_price(client: TestClient, published: Services) -> None:
    store(client, RATE)

    answer = client.get(
        "/v1/workloads/fitted/forecast?gpu_type=T4&workers=2&dataset_size=2000&currency=EUR",
        headers={"Accept": "text/plain"},
    )

    assert "USD at 0.8 (inverse of a bank, 2026-10-20)" in answer.text


def test_functions_are_priced_stored_and_exported(client: TestClient, published: Services) -> None:
    price = {
        "instance_type": "function-16",
        "memory_gb": "16",
        "price_per_gb_second": "0.0000166667",
        "price_per_call": "0.0000002",
        "max_call_s": "900",
    }
    created = client.post("/v1/prices", json=price)
    exported = client.get("/v1/prices?origin=own", headers={"Accept": "text/csv"})
    repeated = client.post("/v1/prices", content=exported.content, headers=CSV)
    cost = ask(client, configuration={"instance_type": "function-16", "workers": 4})["cost"]

    assert created.status_code == repeated.status_code == 201
    assert created.json()["prices"][0]["price_per_gb_second"] == "0.0000166667"
    assert [item["unit"] for item in cost["line_items"]] == ["GB-second", "call"]
    assert cost["price_per_hour"] == "0.960001920000"[: len(cost["price_per_hour"])]


@pytest.mark.parametrize(
    "price",
    [
        {"instance_type": "f"},
        {"instance_type": "f", "price_per_hour": 1, "price_per_gb_second": 1, "memory_gb": 1},
        {"instance_type": "f", "price_per_gb_second": 1},
        {"instance_type": "f", "price_per_hour": 1, "max_call_s": 900},
    ],
)
def test_price_of_neither_an_hour_nor_a_function_is_refused(
    client: TestClient, price: dict[str, Any]
) -> None:
    assert client.post("/v1/prices", json=price).status_code == 422


def test_inline_functions_are_billed_by_call(client: TestClient, published: Services) -> None:
    terms = {"memory_gb": 8, "price_per_gb_second": "0.0001", "price_per_call": "0.5"}

    cost = ask(client, pricing={"serverless": {**terms, "max_call_s": 60}})["cost"]

    calls = next(item for item in cost["line_items"] if item["kind"] == "calls")
    assert int(calls["quantity"]) > 2
    assert float(calls["amount"]) == int(calls["quantity"]) * 0.5


def test_costs_in_two_currencies_have_no_difference(
    client: TestClient, published: Services
) -> None:
    machine = {"provider": "lab", "gpu_type": "T4", "source": "a list", "valid_from": "2026-01-01"}
    prices = [
        {"instance_type": "one", "gpu_count": 1, "price_per_hour": "1", "currency": "EUR"},
        {"instance_type": "four", "gpu_count": 4, "price_per_hour": "2", "currency": "USD"},
    ]
    stored = client.post("/v1/prices", json=[machine | price for price in prices])
    assert stored.status_code == 201, stored.text

    points = client.get(
        "/v1/workloads/fitted/curve",
        params={
            "over": "workers",
            "to": 2,
            "gpu_type": "T4",
            "dataset_size": 2000,
            "param.precision": "fp16",
            "currency": "GBP",
        },
    ).json()["points"]
    gain = client.post(
        "/v1/recommendations",
        json={
            "workload": "fitted",
            "work": {"dataset_size": 2000},
            "parameters": {"precision": "fp16"},
            "search": {"gpu_types": ["T4"], "workers": [1]},
            "objective": "duration",
            "pricing": {"currency": "GBP"},
        },
    ).json()["next_worker"]

    assert [point["forecast"]["cost"]["currency"] for point in points] == ["EUR", "USD"]
    assert points[1]["seconds_saved_per_money"] is None
    assert gain["seconds_saved"] > 0
    assert (gain["extra_cost"], gain["currency"], gain["seconds_per_money"]) == (None, None, None)
