"""What processes remember of a removed workload never answers for a new one of its name."""

from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit, publish_regressor

_QUESTION = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 2},
    "work": {"dataset_size": 1000},
}


def test_new_workload_under_a_removed_name_is_not_answered_from_memory(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services, workload="fitted")
    before = client.post("/v1/forecasts", json=_QUESTION)

    removed = client.delete("/v1/workloads/fitted")
    clock.advance(10)
    client.post("/v1/runs", json={"workload": "fitted", "duration_seconds": 9})
    unfitted = client.post("/v1/forecasts", json=_QUESTION)
    client.post("/v1/runs", json={**_QUESTION, "duration_seconds": 9999})
    fit(services, "fitted")
    clock.advance(10)
    after = client.post("/v1/forecasts", json=_QUESTION)

    assert before.is_success
    assert removed.status_code == 204
    assert unfitted.json()["code"] == "no_regressor"
    assert after.json()["regressor_version"] == 1
    assert after.json()["duration_seconds"] != before.json()["duration_seconds"]
