"""Forecasts of spot capacity: interruptions that are expected, and those that never end."""

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.realised import QUESTION, ask
from tests.support.regressors import publish_regressor


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def test_spot_includes_expected_interruptions(client: TestClient, published: Services) -> None:
    calm = ask(client)
    price = {"purchase": "spot", "price_per_hour": "1.00"}

    spot = ask(client, pricing={**price, "spot": {"interruptions_per_hour": 2}})

    assert spot["duration_seconds"]["median"] > calm["duration_seconds"]["median"]
    assert spot["duration_seconds"]["upper"] > calm["duration_seconds"]["upper"]
    assert spot["cost"]["price"]["purchase"] == "spot"


def test_spot_that_cannot_end_names_the_interval_that_would_do(
    client: TestClient, published: Services
) -> None:
    spot = {
        "interruptions_per_hour": 12,
        "checkpoint_interval_s": 1e9,
        "checkpoint_s": 1,
        "restart_s": 10,
    }
    question = {**QUESTION, "configuration": {"gpu_type": "T4", "workers": 1}}
    question["work"] = {"dataset_size": 8000}
    question["pricing"] = {"purchase": "spot", "price_per_hour": "1.00", "spot": spot}

    refused = client.post("/v1/forecasts", json=question)
    spot["checkpoint_interval_s"] = 30
    granted = client.post("/v1/forecasts", json=question)

    assert (refused.status_code, refused.json()["code"]) == (422, "spot_infeasible")
    assert "a checkpoint every" in refused.json()["detail"]
    assert granted.status_code == 200


def test_spot_that_no_interval_saves_says_so(client: TestClient, published: Services) -> None:
    spot = {"interruptions_per_hour": 600, "restart_s": 600}
    pricing = {"purchase": "spot", "price_per_hour": "1.00", "spot": spot}

    refused = client.post("/v1/forecasts", json={**QUESTION, "pricing": pricing})

    assert refused.json()["code"] == "spot_infeasible"
    assert "no checkpoint interval would do" in refused.json()["detail"]
