"""Currencies are named alike wherever a request names one."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

PRICE = {"gpu_type": "T4", "price_per_hour": "0.9", "source": "a bill", "valid_from": "2026-01-01"}
RATE = {"to_currency": "CHF", "rate": "0.95", "source": "a bank", "valid_from": "2026-01-01"}


def answers(client: TestClient, currency: str) -> list[Any]:
    """Return the answers to requests that name a currency, in each place that takes one."""
    rate = {**RATE, "from_currency": currency}
    cost = {"amount": "1", "currency": currency}
    return [
        client.put("/v1/workloads/named", json={"currency": currency}),
        client.post("/v1/prices", json={**PRICE, "currency": currency}),
        client.post("/v1/exchange-rates", json=rate),
        client.post("/v1/runs", json={"workload": "named", "duration_seconds": 5.0, "cost": cost}),
    ]


def test_codes_are_read_in_small_letters_too(client: TestClient) -> None:
    workload, price, rate, run = answers(client, " eur ")

    assert {workload.status_code, price.status_code, rate.status_code, run.status_code} == {201}
    assert workload.json()["currency"] == "EUR"
    assert price.json()["prices"][0]["currency"] == "EUR"
    assert rate.json()["exchange_rates"][0]["from_currency"] == "EUR"
    stored = client.get(f"/v1/runs/{run.json()['runs'][0]['run_id']}").json()
    assert stored["cost"]["currency"] == "EUR"


@pytest.mark.parametrize("currency", ["euro", "€", "E R", "aß"])
def test_what_is_no_code_is_refused_with_an_example(client: TestClient, currency: str) -> None:
    for answer in answers(client, currency):
        [fault] = answer.json()["errors"]
        assert answer.status_code == 422
        assert fault["value"] == currency
        assert fault["message"].startswith("It is not a currency")
        assert fault["remedy"] == "Send an ISO 4217 code such as USD."
