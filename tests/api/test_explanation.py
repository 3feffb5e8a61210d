"""A forecast tells what its duration is made of."""

import pytest
from fastapi.testclient import TestClient

from app.domain.fits import FitRequest
from app.services.wiring import Services
from tests.support.regressors import publish_regressor


def test_shares_of_the_terms_add_up_and_follow_the_workers(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "fitted", FitRequest(regressors=("scaling_law",)))

    def shares(workers: int) -> dict[str, float]:
        question = {
            "workload": "fitted",
            "configuration": {"gpu_type": "T4", "workers": workers},
            "work": {"dataset_size": 4000},
            "parameters": {"precision": "fp16"},
        }
        explanation = client.post("/v1/forecasts", json=question).json()["explanation"]
        return {part["term"]: part["share"] for part in explanation}

    few, many = shares(1), shares(8)

    assert sum(few.values()) == pytest.approx(1.0, abs=1e-3)
    assert sum(many.values()) == pytest.approx(1.0, abs=1e-3)
    assert few["computation"] > many["computation"]
