"""What a CI report says of money: the change of a run and of a month."""

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.api.test_ci_reports import report, run, usual
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor

PRICE = {
    "gpu_type": "T4",
    "price_per_hour": "0.90",
    "purchase": "owned",
    "valid_from": "2026-01-01T00:00:00Z",
    "source": "our own racks",
}
IN_EURO = PRICE | {"currency": "EUR"}


@pytest.fixture
def published(services: Services, clock: FakeClock) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)


@pytest.mark.usefixtures("published")
def test_the_change_of_cost_is_told(client: TestClient) -> None:
    assert client.post("/v1/prices", json=IN_EURO).status_code == 201

    answer = report(client, run(2 * usual()))

    change = answer["cost_change"]
    expected = (2 * usual() - answer["runs"][0]["expected_seconds"]["median"]) / 3600 * 4 * 0.9
    assert change["currency"] == "EUR"
    assert float(change["per_run"]) == pytest.approx(expected, rel=0.01)
    assert change["runs_per_month"] == 13
    assert float(change["per_month"]) == pytest.approx(13 * expected, rel=0.01)
    cost = answer["runs"][0]["cost"]
    assert float(cost["observed"]) - float(cost["expected"]) == pytest.approx(expected, abs=0.02)
    assert "EUR per run" in answer["comment_markdown"]
    assert " | cost | verdict |" in answer["comment_markdown"]
    assert f"| {cost['observed']} EUR (+" in answer["comment_markdown"]


@pytest.mark.usefixtures("published")
def test_change_that_rounds_to_nothing_has_no_minus(client: TestClient) -> None:
    branch = {"branch": "feature", "base_branch": "main"}
    first = report(client, run(usual()), **branch)
    median = first["runs"][0]["expected_seconds"]["median"]

    answer = report(client, run(0.9998 * median), **branch)

    assert answer["runs"][0]["ratio"] < 1
    assert " | +0.0% | " in answer["comment_markdown"]


@pytest.mark.usefixtures("published")
def test_the_cost_is_converted_to_the_currency_of_the_workload(client: TestClient) -> None:
    rate = {"from_currency": "EUR", "to_currency": "USD", "rate": "2", "source": "a bank"}
    assert client.post("/v1/prices", json=IN_EURO).status_code == 201
    answer = client.post("/v1/exchange-rates", json={**rate, "valid_from": "2026-01-01"})
    assert answer.status_code == 201

    document = report(client, run(2 * usual()))

    expected = (2 * usual() - document["runs"][0]["expected_seconds"]["median"]) / 3600 * 4 * 1.8
    assert document["cost_change"]["currency"] == "USD"
    assert float(document["cost_change"]["per_run"]) == pytest.approx(expected, rel=0.01)


@pytest.mark.usefixtures("published")
def test_a_month_has_the_runs_whose_change_of_cost_is_told(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "abroad")
    assert client.put("/v1/workloads/abroad", json={"currency": "EUR"}).status_code == 200
    rate = {"from_currency": "USD", "to_currency": "EUR", "rate": "0.9", "source": "a bank"}
    answer = client.post("/v1/exchange-rates", json={**rate, "valid_from": "2026-01-01"})
    assert answer.status_code == 201
    assert client.post("/v1/prices", json=PRICE).status_code == 201
    seconds = 2 * usual()

    change = report(
        client, run(seconds), run(seconds, external_id="b"), run(seconds, workload="abroad")
    )["cost_change"]

    assert (change["currency"], change["runs_per_month"]) == ("USD", 14)
    assert float(change["per_month"]) == pytest.approx(14 * float(change["per_run"]), rel=0.01)


@pytest.mark.usefixtures("published")
def test_the_cost_of_a_month_counts_the_runs_that_are_named(client: TestClient) -> None:
    assert client.post("/v1/prices", json=PRICE).status_code == 201

    change = report(client, run(2 * usual()), runs_per_month=1000)["cost_change"]

    assert change["runs_per_month"] == 1000
    assert float(change["per_month"]) == pytest.approx(1000 * float(change["per_run"]), rel=0.01)


@pytest.mark.usefixtures("published")
def test_one_run_a_month_is_said_in_the_singular(client: TestClient) -> None:
    assert client.post("/v1/prices", json=PRICE).status_code == 201
    body = {"workload": "fitted", "runs": [run(2 * usual())], "runs_per_month": 1}

    said = client.post("/v1/ci/reports", json=body, headers={"Accept": "text/markdown"}).text

    assert "per month at 1 run a month." in said
