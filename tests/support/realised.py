"""Recorded forecasts with runs that realised them."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.services.wiring import Services
from tests.support.regressors import publish_regressor

QUESTION: Final[dict[str, Any]] = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 4},
    "work": {"dataset_size": 1000},
    "parameters": {"precision": "fp16"},
}


def ask(client: TestClient, **changes: Any) -> dict[str, Any]:
    """Return the forecast of `QUESTION` with changed members."""
    answer = client.post("/v1/forecasts", json={**QUESTION, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def realise_forecast(
    client: TestClient,
    services: Services,
    ratio: float = 1.0,
    configuration: Mapping[str, Any] = QUESTION["configuration"],
    confidence: float = 0.9,
) -> None:
    """Record a forecast of a workload, fitted if missing, and a run `ratio` times as long.

    The run is made on `configuration`, the one that is asked about unless given. `confidence` is
    that of the forecast's interval.
    """
    if client.get("/v1/workloads/fitted").status_code != 200:
        publish_regressor(services)
    forecast = ask(client, confidence=confidence)
    services.forecasts.recorded(DEFAULT_PROJECT, forecast["forecast_id"])
    run = {
        **QUESTION,
        "configuration": dict(configuration),
        "duration_seconds": ratio * forecast["duration_seconds"]["median"],
        "forecast_id": forecast["forecast_id"],
    }
    answer = client.post("/v1/runs", json=run)
    assert answer.status_code == 201, answer.text
