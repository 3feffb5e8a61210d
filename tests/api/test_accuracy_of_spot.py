"""A run that names a forecast of spot capacity is compared with what that forecast answered."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.realised import QUESTION, ask
from tests.support.regressors import publish_regressor

PRICING = {
    "purchase": "spot",
    "price_per_hour": "1.00",
    "spot": {"interruptions_per_hour": 6, "checkpoint_interval_s": 60},
}


@pytest.mark.parametrize("quantile", ["median", "lower", "upper"])
def test_accuracy_and_ledger_compare_runs_with_the_same_interrupted_forecast(
    client: TestClient, services: Services, clock: FakeClock, quantile: str
) -> None:
    publish_regressor(services)
    calm, asked = ask(client), ask(client, pricing=PRICING)
    observed = asked["duration_seconds"][quantile] * (0.99 if quantile == "lower" else 1.0)
    clock.advance(60.0)
    run = {**QUESTION, "duration_seconds": observed, "forecast_id": asked["forecast_id"]}
    assert client.post("/v1/runs", json=run).status_code == 201

    measured = client.get("/v1/workloads/fitted/accuracy").json()["overall"]
    [linked] = client.get(f"/v1/forecasts/{asked['forecast_id']}").json()["runs"]

    assert asked["duration_seconds"]["median"] > 1.2 * calm["duration_seconds"]["median"]
    assert measured["bias"] == pytest.approx(linked["error"], abs=1e-4)
    assert measured["coverage"]["0.5"] == (1.0 if quantile == "median" else 0.0)
    band = asked["duration_seconds"]
    width = (band["upper"] - band["lower"]) / band["median"]
    assert measured["median_width"]["0.9"] == pytest.approx(width, rel=1e-4)


@pytest.mark.parametrize(
    ("did", "source"),
    [
        ({"configuration": {"gpu_type": "T4", "workers": 2}}, "standing"),
        ({"work": {"dataset_size": 2000}}, "standing"),
        ({"parameters": {"precision": "fp32"}}, "standing"),
        ({"configuration": {"gpu_type": "T4", "workers": 4, "nodes": 1}}, "named"),
        ({}, "named"),
    ],
)
def test_a_run_is_not_judged_by_a_forecast_of_something_else_that_it_names(
    client: TestClient, services: Services, clock: FakeClock, did: dict[str, Any], source: str
) -> None:
    publish_regressor(services)
    asked = ask(client, pricing=PRICING)
    clock.advance(60.0)
    run = {**QUESTION, **did, "duration_seconds": 300.0, "forecast_id": asked["forecast_id"]}
    assert client.post("/v1/runs", json=run).status_code == 201

    by_source = client.get("/v1/workloads/fitted/accuracy").json()["by_source"]
    [linked] = client.get(f"/v1/forecasts/{asked['forecast_id']}").json()["runs"]

    assert list(by_source) == [source]
    assert (linked["error"] is None) == (source == "standing")
