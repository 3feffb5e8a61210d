"""What counts as normal after a change was acknowledged that differs between configurations."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit, law_seconds, publish_regressor

URL = "/v1/ci/reports"


def run(workers: int, factor: float) -> dict[str, Any]:
    return {
        "duration_seconds": factor * law_seconds(workers, 2000.0),
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": 2000.0},
        "parameters": {"precision": "fp16"},
    }


def report(client: TestClient, factors: dict[int, float]) -> dict[str, Any]:
    runs = [run(workers, factor) for workers, factor in factors.items()]
    answer = client.post(URL, json={"workload": "fitted", "runs": runs})
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


@pytest.fixture
def acknowledged(client: TestClient, services: Services, clock: FakeClock) -> None:
    """Acknowledge that 4 workers take 2.3 times as long, and 2 workers as long as before."""
    publish_regressor(services)
    clock.advance(seconds=60)
    slower = report(client, {2: 1.0, 4: 2.3})
    assert slower["verdict"] == "fail"
    reason = {"author": "ada", "reason": "another way of synchronising"}
    assert client.post(f"{URL}/{slower['report_id']}:acknowledge", json=reason).is_success
    clock.advance(seconds=60)


@pytest.mark.usefixtures("acknowledged")
@pytest.mark.parametrize("is_fitted", [False, True])
def test_each_configuration_has_the_level_that_was_acknowledged_for_it(
    client: TestClient, services: Services, clock: FakeClock, *, is_fitted: bool
) -> None:
    if is_fitted:
        fit(services, "fitted")
        clock.advance(seconds=60)

    again = report(client, {2: 1.0, 4: 2.3})

    assert again["verdict"] == "pass"
    assert [each["ratio"] for each in again["runs"]] == pytest.approx([1.0, 1.0], abs=0.1)


@pytest.mark.usefixtures("acknowledged")
@pytest.mark.parametrize("factors", [{2: 1.6, 4: 2.3}, {2: 1.0, 4: 3.6}])
def test_a_further_change_fails_after_an_acknowledgement(
    client: TestClient, factors: dict[int, float]
) -> None:
    assert report(client, factors)["verdict"] == "fail"
