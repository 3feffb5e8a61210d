"""Spot capacity through the door: bands, side by side with on-demand capacity, refusals."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit, publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def store_prices(client: TestClient) -> None:
    prices = [
        {"gpu_type": "T4", "gpu_count": 1, "price_per_hour": price, "purchase": purchase}
        for price, purchase in (("1.00", "on_demand"), ("0.30", "spot"))
    ]
    assert client.post("/v1/prices", json=prices).status_code == 201


def ask(client: TestClient, **changes: Any) -> Any:
    body = {
        "workload": "fitted",
        "configuration": {"gpu_type": "T4", "workers": 2},
        "work": {"dataset_size": 40_000},
        "parameters": {"precision": "fp16"},
        **changes,
    }
    return client.post("/v1/forecasts", json=body).json()


def test_spot_is_answered_side_by_side_with_on_demand(
    client: TestClient, published: Services
) -> None:
    store_prices(client)

    answer = ask(client, pricing={"purchase": "spot", "spot": {"interruptions_per_hour": 0.2}})

    on_demand, spot = answer["purchases"]
    assert [each["purchase"] for each in (on_demand, spot)] == ["on_demand", "spot"]
    assert spot["duration_seconds"] == answer["duration_seconds"]
    assert spot["duration_seconds"]["upper"] > on_demand["duration_seconds"]["upper"]
    assert spot["cost"]["median"] == answer["cost"]["median"]
    assert float(spot["cost"]["price_per_hour"]) < float(on_demand["cost"]["price_per_hour"])
    assert answer["spot"]["interruptions_per_hour"] > 0.2
    assert answer["spot"]["expected_interruptions"] > 0
    assert answer["spot"]["optimal_checkpoint_interval_s"] > 0


def test_on_demand_question_with_spot_terms_is_told_both(
    client: TestClient, published: Services
) -> None:
    store_prices(client)

    answer = ask(client, pricing={"spot": {"interruptions_per_hour": 0.1}})

    on_demand, spot = answer["purchases"]
    assert answer["spot"] is None
    assert on_demand["cost"]["median"] == answer["cost"]["median"]
    assert spot["purchase"] == "spot"
    assert ask(client)["purchases"] == []


@pytest.mark.parametrize("price", ["0.50", None])
def test_question_about_reserved_capacity_is_told_it_beside_spot(
    client: TestClient, published: Services, price: str | None
) -> None:
    store_prices(client)
    pricing = {"purchase": "reserved", "region": "lab", "spot": {"interruptions_per_hour": 0.1}}
    if price is not None:
        reserved = {"gpu_type": "T4", "gpu_count": 1, "region": "lab", "purchase": "reserved"}
        client.post("/v1/prices", json={**reserved, "price_per_hour": price})

    own, spot = ask(client, pricing=pricing)["purchases"]

    assert (own["cost"] is None) is (price is None)
    assert [own["purchase"], spot["purchase"]] == ["reserved", "spot"]


def test_every_call_may_be_taken_away_whatever_the_nodes(
    client: TestClient, published: Services
) -> None:
    terms = {"memory_gb": "4", "price_per_gb_second": "0.00001667"}
    pricing = {"purchase": "spot", "spot": {"interruptions_per_hour": 0.1}, "serverless": terms}
    configuration = {"gpu_type": "T4", "workers": 8, "nodes": 2}

    answer = ask(client, configuration=configuration, pricing=pricing)

    assert answer["spot"]["interruptions_per_hour"] == pytest.approx(0.8)


def test_refused_spot_stands_beside_what_can_end(client: TestClient, published: Services) -> None:
    terms = {"interruptions_per_hour": 60, "checkpoint_interval_s": 1e6}

    answer = ask(client, pricing={"spot": terms})

    on_demand, spot = answer["purchases"]
    assert on_demand["refused"] is None
    assert spot["duration_seconds"] is None
    assert "take over a million times as long" in spot["refused"]


def test_published_extremes_behave_so(client: TestClient, services: Services) -> None:
    hours = 48.5
    runs = [
        {"workload": "long", "duration_seconds": hours * 3600.0 / workers, "workers": workers}
        for workers in (1, 2, 4, 8)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "long")
    question = {"workload": "long", "configuration": {"workers": 1}, "work": {}, "parameters": {}}
    spot = {"interruptions_per_hour": 0.5, "checkpoint_s": 30, "restart_s": 300}
    pricing = {"price_per_hour": "0.30", "purchase": "spot"}

    half_hourly = {**pricing, "spot": {**spot, "checkpoint_interval_s": 1800}}
    finishing = ask(client, **question, pricing=half_hourly)
    refused = ask(
        client, **question, pricing={**pricing, "spot": {**spot, "checkpoint_interval_s": 1e9}}
    )

    assert finishing["duration_seconds"]["median"] == pytest.approx(hours * 3600 * 1.28, rel=0.1)
    assert refused["code"] == "spot_infeasible"
    assert "a checkpoint every" in refused["detail"]


WRITES_LONG: dict[str, float] = {"checkpoint_s": 1e6, "restart_s": 0}


@pytest.mark.parametrize(
    ("workers", "spot"),
    [
        (1000, {"interruptions_per_hour": 3600, "checkpoint_s": 0, "restart_s": 0}),
        (2, {"interruptions_per_hour": 0, "checkpoint_interval_s": 1, "checkpoint_s": 600}),
        (2, {"interruptions_per_hour": 1e-9, "checkpoint_interval_s": 1, **WRITES_LONG}),
        (1, {"interruptions_per_hour": 40, "checkpoint_interval_s": 9, **WRITES_LONG}),
    ],
)
def test_the_checkpoint_interval_that_a_refusal_names_would_do(
    client: TestClient, published: Services, workers: int, spot: dict[str, float]
) -> None:
    asked: dict[str, Any] = {
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": 400},
    }
    refused = ask(client, **asked, pricing={"purchase": "spot", "spot": spot})
    named = re.search(r"a checkpoint every ([\d.,]+) s would do", refused["detail"])
    assert named is not None, refused["detail"]

    better = {**spot, "checkpoint_interval_s": float(named[1].replace(",", ""))}
    answer = ask(client, **asked, pricing={"purchase": "spot", "spot": better})

    assert refused["code"] == "spot_infeasible"
    assert "duration_seconds" in answer, answer


def test_a_refusal_that_names_no_checkpoint_interval_asks_for_none(
    client: TestClient, published: Services
) -> None:
    spot = {"interruptions_per_hour": 3600, "checkpoint_s": 600}

    refused = ask(client, pricing={"purchase": "spot", "spot": spot})

    assert "no checkpoint interval would do" in refused["detail"]
    assert refused["remedy"] == "Ask for on-demand capacity."


@pytest.mark.parametrize(
    ("terms", "is_refused"),
    [
        ({"interruptions_per_hour": 1e-200}, True),
        ({"checkpoint_interval_s": 5e-324}, True),
        ({"interruptions_per_hour": 0}, False),
        ({"interruptions_per_hour": 1e-9}, False),
        ({"checkpoint_interval_s": 1e-3, "checkpoint_s": 0}, False),
        ({"interruptions_per_hour": 1e-9, "checkpoint_interval_s": 1e9, "restart_s": 1e6}, False),
    ],
)
def test_terms_that_are_no_numbers_any_more_are_refused(
    client: TestClient, published: Services, terms: dict[str, float], *, is_refused: bool
) -> None:
    answer = ask(client, pricing={"purchase": "spot", "spot": terms})

    if is_refused:
        assert answer["code"] == "invalid_request"
        [name] = terms
        assert [fault["pointer"] for fault in answer["errors"]] == [f"/pricing/spot/{name}"]
    else:
        assert answer["duration_seconds"]["median"] > 0


NOWHERE: dict[str, Any] = {"region": "nowhere", "spot": {"interruptions_per_hour": 0.2}}


@pytest.mark.parametrize("place", ["configuration", "pricing"])
def test_spot_without_a_price_is_told_beside_uninterrupted_work(
    client: TestClient, published: Services, place: str
) -> None:
    hardware = {"gpu_type": "T4", "workers": 2}
    question: dict[str, Any] = {"configuration": hardware, "pricing": NOWHERE}
    plain = ask(client, configuration=hardware)

    answer = ask(client, **{**question, place: {**question[place], "purchase": "spot"}})

    on_demand, spot = answer["purchases"]
    assert answer["cost"] is None
    assert on_demand["duration_seconds"] == plain["duration_seconds"]
    assert spot["duration_seconds"] == answer["duration_seconds"] != plain["duration_seconds"]


def test_purchase_of_pricing_overrules_without_a_price_too(
    client: TestClient, published: Services
) -> None:
    hardware = {"gpu_type": "T4", "workers": 2}
    plain = ask(client, configuration=hardware)

    answer = ask(
        client,
        configuration={**hardware, "purchase": "spot"},
        pricing={**NOWHERE, "purchase": "on_demand"},
    )

    assert answer["spot"] is None
    assert answer["duration_seconds"] == plain["duration_seconds"]


def test_rate_whose_square_may_underflow_is_refused_with_what_to_send(client: TestClient) -> None:
    pricing = {"spot": {"interruptions_per_hour": 1e-12}}

    answer = client.post("/v1/forecasts", json={"workload": "fitted", "pricing": pricing})

    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {
            "pointer": "/pricing/spot/interruptions_per_hour",
            "field": "interruptions_per_hour",
            "value": 1e-12,
            "message": "Input should be 0, or at least 1e-09",
            "remedy": "Send 0, or 1e-09 or more.",
        }
    ]
