"""Reports on fewer workers than were ever measured: bounded by what more of them took."""

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit

pytestmark = pytest.mark.lengthy

_ON_EIGHT = 100.0


def make_run(seconds: float, **configuration: object) -> dict[str, Any]:
    return {
        "duration_seconds": seconds,
        "configuration": {"gpu_type": "T4", "workers": 8, **configuration},
        "work": {"dataset_size": 2000.0},
    }


@pytest.fixture
def eight(client: TestClient, services: Services, clock: FakeClock) -> TestClient:
    """A history on 8 GPUs alone, on one node each."""
    noise = np.random.default_rng(1).normal(0.0, 0.02, 20)
    runs = [
        {**make_run(float(_ON_EIGHT * np.exp(each)), nodes=1), "workload": "eight"}
        for each in noise
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "eight")
    clock.advance(seconds=60)
    return client


def judge(client: TestClient, run: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/v1/ci/reports", json={"workload": "eight", "runs": [run]})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()["runs"][0]
    return found


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "pass"), (2.0, "pass"), (3.0, "fail")])
def test_four_gpus_take_at_most_twice_what_eight_take(
    eight: TestClient, factor: float, verdict: str
) -> None:
    judgement = judge(eight, make_run(factor * _ON_EIGHT, workers=4, nodes=1))

    assert judgement["verdict"] == verdict
    # Twice as long with an allowance of 15 %, and the noise of repetitions beyond that.
    assert 2.3 * _ON_EIGHT < judgement["expected_seconds"]["upper"] < 2.5 * _ON_EIGHT
    assert judgement["expected_seconds"]["lower"] < judgement["expected_seconds"]["median"]


def test_three_gpus_take_at_most_three_rounds_of_eight(eight: TestClient) -> None:
    assert judge(eight, make_run(3.0 * _ON_EIGHT, workers=3, nodes=1))["verdict"] == "pass"
    assert judge(eight, make_run(4.5 * _ON_EIGHT, workers=3, nodes=1))["verdict"] == "fail"


@pytest.mark.parametrize(
    "changes", [{"workers": 16, "nodes": 1}, {"workers": 4, "nodes": 4}, {"gpu_type": "L4"}]
)
def test_more_gpus_more_nodes_and_others_are_not_bounded(
    eight: TestClient, changes: dict[str, Any]
) -> None:
    judgement = judge(eight, make_run(_ON_EIGHT, **{"nodes": 1, **changes}))

    assert judgement["verdict"] == "pass"
    assert judgement["expected_seconds"]["upper"] > 1.8 * judgement["expected_seconds"]["median"]


def test_an_acknowledged_level_moves_the_bound(eight: TestClient, clock: FakeClock) -> None:
    slower = eight.post(
        "/v1/ci/reports",
        json={"workload": "eight", "runs": [make_run(1.5 * _ON_EIGHT, nodes=1)] * 3},
    ).json()
    reason = {"author": "ada", "reason": "the model has more layers"}
    taken = eight.post(f"/v1/ci/reports/{slower['report_id']}:acknowledge", json=reason)
    clock.advance(seconds=60)

    assert slower["verdict"] == "fail"
    assert taken.status_code == 200
    assert judge(eight, make_run(2.8 * _ON_EIGHT, workers=4, nodes=1))["verdict"] == "pass"
