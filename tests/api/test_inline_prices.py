"""Prices that come with a question."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def test_a_question_has_one_price(client: TestClient) -> None:
    functions = {"memory_gb": 1, "price_per_gb_second": "0.0001"}
    question = {"workload": "w", "pricing": {"price_per_hour": "1", "serverless": functions}}
    job = {**question, "ref": "a"}
    documents: dict[str, dict[str, Any]] = {
        "forecasts": question,
        "recommendations": question,
        "schedules:rank": {"policy": "shortest_service_first", "jobs": [job]},
    }

    answers = [client.post(f"/v1/{path}", json=body) for path, body in documents.items()]
    batch = client.post("/v1/forecasts:batch", json={"requests": [question, question]}).json()

    faults = [answer.json()["errors"] for answer in answers]
    faults += [entry["problem"]["errors"] for entry in batch["forecasts"]]
    assert [answer.status_code for answer in answers] == [422] * 3
    for [fault] in faults:
        assert fault["message"] == "A price is one of an hour or one of a GB-second"
        assert fault["remedy"] == "Send price_per_hour or serverless, not both."
        assert fault["pointer"].endswith("/pricing")


def test_a_price_of_the_question_holds_from_its_day_on(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    dates = []
    question = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4"},
        "work": {"dataset_size": 1000},
        "pricing": {"price_per_hour": "1"},
    }

    for seconds in (11.9 * 3600, 300, 600):  # from noon to ten minutes before midnight and on
        clock.advance(seconds)
        answer = client.post("/v1/forecasts", json=question)
        dates.append(answer.json()["cost"]["price"]["valid_from"])

    assert dates == ["2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"]


def test_the_day_ends_for_prices_that_are_still_fresh(services: Services, clock: FakeClock) -> None:
    prices, project = services.prices, DEFAULT_PROJECT
    clock.advance(12 * 3600 - 0.25)
    before = prices.book(project)
    clock.advance(0.5)

    assert prices.book_in_memory(project, clock()) is None
    assert (prices.book(project).now.date() - before.now.date()).days == 1


@pytest.mark.parametrize(
    ("quantity", "price"),
    [
        ("other_nodes", "other_node_per_hour"),
        ("storage_gb", "storage_per_gb_month"),
        ("egress_gb", "egress_per_gb"),
    ],
)
def test_a_further_charge_needs_its_price(
    client: TestClient, services: Services, quantity: str, price: str
) -> None:
    publish_regressor(services)

    def ask(**extras: object) -> dict[str, Any]:
        pricing = {"price_per_hour": "1", "extras": extras}
        document: dict[str, Any] = client.post(
            "/v1/forecasts", json={"workload": "fitted", "pricing": pricing}
        ).json()
        return document

    refused, free, none = (
        ask(**{quantity: 2}),
        ask(**{quantity: 2, price: "0"}),
        ask(**{quantity: 0}),
    )

    [fault] = refused["errors"]
    assert (refused["code"], fault["pointer"]) == (
        "invalid_request",
        f"/pricing/extras/{quantity}",
    )
    assert fault["remedy"] == f"Send {price}, 0 if free."
    assert free["cost"]["median"] == none["cost"]["median"]


def test_budget_is_kept_as_likely_as_the_duration_that_it_pays_for(
    client: TestClient, published: Services
) -> None:
    question = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": 2},
        "work": {"dataset_size": 2000},
        "parameters": {"precision": "fp16"},
        # So high that rounding the cost to cents changes nothing.
        "pricing": {"price_per_hour": "1000000"},
    }
    cost = client.post("/v1/forecasts", json=question).json()["cost"]

    budgets = [cost["lower"], cost["median"], cost["upper"], "0", "1e9"]
    requests = [{"ref": budget, "budget": budget} for budget in budgets]
    body = {"defaults": question, "requests": requests, "fields": ["probability"]}
    answers = client.post("/v1/forecasts:batch", json=body).json()["forecasts"]
    alone = client.post("/v1/forecasts", json={**question, "budget": cost["upper"]}).json()

    probabilities = [entry["forecast"]["probability"]["budget"] for entry in answers]
    assert probabilities == pytest.approx([0.05, 0.5, 0.95, 0.0, 1.0], abs=1e-3)
    assert alone["probability"]["budget"] == probabilities[2]


def test_minus_zero_is_zero_for_this_question_and_for_later_ones(
    client: TestClient, published: Services
) -> None:
    free = "0.000000"
    spot = {"interruptions_per_hour": 0.0, "restart_s": 0.0}
    question = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "purchase": "spot"},
        "work": {"dataset_size": 1000},
        "record": False,
    }
    signed: dict[str, Any] = {
        "price_per_hour": f"-{free}",
        "spot": {n: -v for n, v in spot.items()},
    }
    first = {**question, "pricing": signed, "energy": {"kg_co2e_per_kwh": -0.0}}
    second = {
        **question,
        "pricing": {"price_per_hour": free, "spot": spot},
        "energy": {"kg_co2e_per_kwh": 0.0},
    }

    answers = [client.post("/v1/forecasts", json=asked).text for asked in (first, second)]
    batch = client.post("/v1/forecasts:batch", json={"requests": [first, second]}).text

    assert answers[0] == answers[1]
    assert '"price_per_hour":"0.00"' in answers[0]
    assert '"kg_co2e_per_kwh":0.0' in answers[0]
    for text in (*answers, batch):
        assert '"-0' not in text
        assert ":-0" not in text
