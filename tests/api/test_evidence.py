"""Stopped runs, shifts of the code and odd repetitions show in the registry and in forecasts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app.domain.fits import FitRequest
from app.services.wiring import Services
from tests.support.regressors import fit

pytestmark = pytest.mark.lengthy

START = datetime(2026, 3, 1, tzinfo=UTC)


def upload(client: TestClient, runs: list[dict[str, Any]]) -> None:
    documents = [{"workload": "odd", **run} for run in runs]
    assert client.post("/v1/runs", json=documents).status_code == 201


def run(workers: int, factor: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "duration_seconds": factor * (20.0 + 800.0 / workers),
        "configuration": {"gpu_type": "T4", "workers": workers},
        **changes,
    }


def evidence(client: TestClient) -> dict[str, Any]:
    document: dict[str, Any] = client.get("/v1/workloads/odd/regressors/1").json()["evidence"]
    return document


def warnings(client: TestClient, workers: int) -> dict[str, str]:
    answer = client.post(
        "/v1/forecasts",
        json={"workload": "odd", "configuration": {"gpu_type": "T4", "workers": workers}},
    )
    return {warning["code"]: warning["message"] for warning in answer.json()["warnings"]}


def test_stopped_runs_are_counted_by_what_they_told(client: TestClient, services: Services) -> None:
    upload(
        client,
        [
            *(run(workers) for workers in (1, 2, 4, 8)),
            run(16, 5.0, status="timed_out"),
            run(3, 0.5, status="preempted", progress=0.5),
            run(6, 0.01, status="cancelled"),
            run(5, 9.0, status="failed"),
        ],
    )

    fit(services, "odd")

    assert evidence(client)["unfinished"] == {
        "as_lower_bounds": 1,
        "by_progress": 1,
        "uninformative": 1,
    }
    assert client.get("/v1/workloads/odd/regressors/1").json()["runs_used"] == 4


@pytest.mark.parametrize(("factor", "told"), [(3.0, "(3 times"), (1000.0, "(1,000 times")])
def test_odd_repetitions_are_named_and_warned_of(
    client: TestClient, services: Services, factor: float, told: str
) -> None:
    factors = (1.0, 1.01, 0.99, 1.0, 1.02)
    upload(client, [run(workers, factor) for workers in (1, 2, 4, 8) for factor in factors])
    upload(client, [run(4, factor, external_id="odd-one")])
    listed = client.get("/v1/workloads/odd/runs").json()["runs"]
    odd_one = next(each["run_id"] for each in listed if each["external_id"] == "odd-one")

    fit(services, "odd")

    assert [each["run_id"] for each in evidence(client)["outliers"]] == [odd_one]
    assert f"{odd_one} {told} as long)" in warnings(client, 4)["outliers_nearby"]


def upload_history_with_a_change(client: TestClient) -> None:
    """Upload 32 days of runs, of which the last 16 take 1.5 times as long."""
    noise = (1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.01)
    runs = []
    for index in range(32):
        factor = noise[index % 7] * (1.5 if index >= 16 else 1.0)
        started_at = (START + timedelta(days=index)).isoformat()
        runs.append(run(1 << index % 4, factor, started_at=started_at))
    upload(client, runs)


def test_a_change_of_the_code_is_dated_and_warned_of(
    client: TestClient, services: Services
) -> None:
    upload_history_with_a_change(client)

    fit(services, "odd")

    (change,) = evidence(client)["change_points"]
    assert change["at"].startswith("2026-03-17")
    assert 1.4 < change["factor"] < 1.6
    assert "2026-03-17" in warnings(client, 4)["durations_shifted"]


def test_fit_since_a_change_learns_from_what_started_later(
    client: TestClient, services: Services
) -> None:
    upload_history_with_a_change(client)
    fit(services, "odd")
    (change,) = evidence(client)["change_points"]
    n_later = sum(
        run["started_at"] >= change["at"]
        for run in client.get("/v1/workloads/odd/runs?page_size=100").json()["runs"]
    )

    fit(services, "odd", FitRequest(runs_since=datetime.fromisoformat(change["at"])))
    later = (START + timedelta(days=90)).isoformat()
    refused = client.post("/v1/workloads/odd/fits", json={"runs_since": later})

    learned = client.get("/v1/workloads/odd/regressors/2").json()
    assert learned["evidence"]["change_points"] == []
    assert learned["runs_used"] == n_later == 16
    assert "durations_shifted" not in warnings(client, 4)
    assert refused.status_code == 409


def test_report_expects_the_pace_since_a_change_of_the_code(
    client: TestClient, services: Services
) -> None:
    upload_history_with_a_change(client)
    fit(services, "odd")

    report = {"workload": "odd", "runs": [run(4, 1.5)]}
    [judged] = client.post("/v1/ci/reports", json=report).json()["runs"]

    assert judged["expected_seconds"]["median"] == pytest.approx(1.5 * 220, rel=0.03)
    assert judged["verdict"] == "pass"


def test_run_stopped_before_a_change_of_the_code_tells_of_its_work_alone(
    client: TestClient, services: Services
) -> None:
    runs = []
    for index in range(32):
        started_at = (START + timedelta(days=index)).isoformat()
        runs.append(run(1 << index % 4, 5.0 if index < 16 else 1.0, started_at=started_at))
    # Half of the work at the pace of that time: 5 * (20 + 800 / 16) in all, a fifth today.
    stopped = {"status": "preempted", "progress": 0.5, "started_at": START.isoformat()}
    upload(client, [*runs, run(16, 2.5, **stopped)])

    fit(services, "odd", FitRequest(regressors=("scaling_law",)))

    question = {"workload": "odd", "configuration": {"gpu_type": "T4", "workers": 16}}
    answer = client.post("/v1/forecasts", json=question).json()
    assert evidence(client)["unfinished"]["by_progress"] == 1
    assert answer["duration_seconds"]["median"] == pytest.approx(20 + 800 / 16, rel=0.2)


def sized(size: float, seconds: float) -> dict[str, Any]:
    return run(1, duration_seconds=seconds, work={"dataset_size": size})


def test_seconds_by_which_starts_differ_are_told_and_excused(
    client: TestClient, services: Services
) -> None:
    rng = np.random.default_rng(0)
    sizes = np.repeat(np.geomspace(10, 1000, 24), 4)
    seconds = sizes * np.exp(0.02 * rng.normal(size=96)) + 6.0 * rng.uniform(size=96)
    upload(client, [sized(*each) for each in zip(sizes.tolist(), seconds.tolist(), strict=True)])
    fit(services, "odd", FitRequest(regressors=("log_linear",)))

    evidence_found = evidence(client)["jitter"]
    answers = [
        client.post("/v1/ci/reports", json={"workload": "odd", "runs": [sized(*each)]})
        for each in ((10.0, 14.5), (1000.0, 1120.0))
    ]

    assert 0.8 < evidence_found["seconds"] < 4.0
    assert 0.01 < evidence_found["relative"] < 0.04
    # Both are a ninth slower than usual: news of the long run, and none of the short one.
    assert [answer.json()["verdict"] for answer in answers] == ["pass", "fail"]
