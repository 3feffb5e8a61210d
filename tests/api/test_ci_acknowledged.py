"""What counts as normal after a change was acknowledged that differs between configurations."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import fit, law_seconds, publish_regressor

URL = "/v1/ci/reports"


def run(workers: int, factor: float, **fields: object) -> dict[str, Any]:
    return {
        "duration_seconds": factor * law_seconds(workers, 2000.0),
        "configuration": {"gpu_type": "T4", "workers": workers},
        "work": {"dataset_size": 2000.0},
        "parameters": {"precision": "fp16"},
    } | fields


def report(client: TestClient, factors: dict[int, float]) -> dict[str, Any]:
    return report_runs(client, [run(workers, factor) for workers, factor in factors.items()])


def report_runs(client: TestClient, runs: list[dict[str, Any]]) -> dict[str, Any]:
    answer = client.post(URL, json={"workload": "fitted", "runs": runs})
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def acknowledge(client: TestClient, slower: dict[str, Any]) -> None:
    assert slower["verdict"] == "fail"
    reason = {"author": "ada", "reason": "another way of synchronising"}
    assert client.post(f"{URL}/{slower['report_id']}:acknowledge", json=reason).is_success


@pytest.fixture
def acknowledged(client: TestClient, services: Services, clock: FakeClock) -> None:
    """Acknowledge that 4 workers take 2.3 times as long, and 2 workers as long as before."""
    publish_regressor(services)
    clock.advance(seconds=60)
    acknowledge(client, report(client, {2: 1.0, 4: 2.3}))
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


@pytest.mark.parametrize("is_sent_again", [False, True])
def test_runs_of_earlier_builds_in_a_report_are_not_the_new_normal(
    client: TestClient, services: Services, clock: FakeClock, *, is_sent_again: bool
) -> None:
    publish_regressor(services)
    # A file of results that grows from one build to the next.
    results = [run(4, 1.0, external_id=f"build-{number}") for number in range(8)]
    for length in range(1, len(results) + 1):
        clock.advance(seconds=60)
        report_runs(client, results[:length])
    clock.advance(seconds=60)
    slow = [run(4, 1.6, external_id=f"slow-{number}") for number in range(3)]
    slower = report_runs(client, [*results, *slow])
    if is_sent_again:
        clock.advance(seconds=60)
        slower = report_runs(client, slow)
    acknowledge(client, slower)
    clock.advance(seconds=60)

    later = report(client, {4: 1.6})

    assert later["verdict"] == "pass"
    assert later["runs"][0]["ratio"] == pytest.approx(1.0, abs=0.05)


@pytest.mark.usefixtures("acknowledged")
def test_builds_as_acknowledged_are_no_drift(client: TestClient, clock: FakeClock) -> None:
    for _ in range(8):
        again = report(client, {2: 1.0, 4: 2.3})
        clock.advance(seconds=60)

    assert (again["verdict"], again["drift"]) == ("pass", [])


@pytest.mark.usefixtures("acknowledged")
def test_a_creep_after_an_acknowledgement_is_drift(client: TestClient, clock: FakeClock) -> None:
    for number in range(20):
        factor = 1.0 if number < 8 else 1.04
        crept = report(client, {2: factor, 4: 2.3 * factor})
        clock.advance(seconds=60)

    [drift] = crept["drift"]
    assert crept["verdict"] == "warn"
    assert drift["change_ratio"] == pytest.approx(1.04, rel=0.01)


@pytest.mark.usefixtures("acknowledged")
def test_an_acknowledged_change_stays_normal_however_many_runs_follow(
    client: TestClient, clock: FakeClock
) -> None:
    later = [
        {"workload": "fitted", **run(workers, 1.0 + 1.3 * (workers == 4))} for workers in (2, 4)
    ]
    assert client.post("/v1/runs", json=later * 260).status_code == 201
    clock.advance(seconds=60)

    again = report(client, {2: 1.0, 4: 2.3})

    assert again["verdict"] == "pass"
    assert [each["ratio"] for each in again["runs"]] == pytest.approx([1.0, 1.0], abs=0.01)
