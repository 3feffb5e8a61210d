"""What is normal after several changes were acknowledged, and while one waits in a branch."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.api.test_ci_acknowledged import URL, report, report_runs, run
from tests.support.clock import FakeClock
from tests.support.regressors import fit, publish_regressor


@pytest.fixture(autouse=True)
def _published(services: Services, clock: FakeClock) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)


def accept(client: TestClient, clock: FakeClock, accepted: dict[str, Any]) -> None:
    clock.advance(seconds=60)
    reason = {"author": "ada", "reason": "another way of synchronising"}
    path = f"{URL}/{accepted['report_id']}:acknowledge"
    assert client.post(path, json=reason).is_success
    clock.advance(seconds=60)


def ratios(judged: dict[str, Any]) -> list[float]:
    return [each["ratio"] for each in judged["runs"]]


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("builds_between", [0, 4])
def test_each_acknowledged_change_stays_normal_for_its_configurations(
    client: TestClient,
    services: Services,
    clock: FakeClock,
    builds_between: int,
    *,
    is_fitted: bool,
) -> None:
    accept(client, clock, report(client, {4: 2.3}))
    for _ in range(builds_between):
        assert report(client, {4: 2.3})["verdict"] == "pass"
        clock.advance(seconds=60)
    if is_fitted:
        fit(services, "fitted")
        clock.advance(seconds=60)
    accept(client, clock, report(client, {2: 1.2}))

    again = report(client, {2: 1.2, 4: 2.3})
    clock.advance(seconds=60)
    slower = report(client, {2: 1.2, 4: 4.0})

    assert again["verdict"] == "pass"
    assert ratios(again) == pytest.approx([1.0, 1.0], abs=0.05)
    assert [each["verdict"] for each in slower["runs"]] == ["pass", "fail"]


def test_the_latest_acknowledgement_of_a_configuration_counts(
    client: TestClient, clock: FakeClock
) -> None:
    accept(client, clock, report(client, {4: 2.3}))
    accept(client, clock, report(client, {2: 1.2, 4: 1.4}))

    again, slower = (report(client, {4: factor}) for factor in (1.4, 2.3))

    assert (again["verdict"], slower["verdict"]) == ("pass", "fail")
    assert ratios(again) == pytest.approx([1.0], abs=0.02)


def test_an_acknowledgement_that_is_repeated_counts_as_the_latest(
    client: TestClient, clock: FakeClock
) -> None:
    first = report(client, {4: 2.3})
    accept(client, clock, first)
    accept(client, clock, report(client, {4: 1.4}))
    accept(client, clock, first)

    assert ratios(report(client, {4: 2.3})) == pytest.approx([1.0], abs=0.02)


def test_a_change_of_all_configurations_is_normal_for_those_acknowledged_before(
    client: TestClient, clock: FakeClock
) -> None:
    accept(client, clock, report(client, {4: 1.3}))
    accept(client, clock, report(client, {2: 1.3 * 1.5}))

    assert report(client, {2: 1.3 * 1.5, 4: 1.3 * 1.5})["verdict"] == "pass"


@pytest.mark.parametrize("factor", [1.0, 1.04])
def test_the_watch_over_drift_takes_each_acknowledged_change_as_normal(
    client: TestClient, clock: FakeClock, factor: float
) -> None:
    accept(client, clock, report(client, {4: 2.3}))
    accept(client, clock, report(client, {2: 1.2}))
    for number in range(20):
        creep = 1.0 if number < 8 else factor
        built = report(client, {2: 1.2 * creep, 4: 2.3 * creep})
        clock.advance(seconds=60)

    assert built["verdict"] == ("warn" if built["drift"] else "pass")
    changes = [drift["change_ratio"] for drift in built["drift"]]
    assert changes == pytest.approx([factor] if factor > 1.0 else [], rel=0.01)


@pytest.mark.parametrize("is_general", [False, True])
def test_builds_of_the_base_branch_before_a_merge_do_not_blur_what_is_acknowledged(
    client: TestClient, clock: FakeClock, *, is_general: bool
) -> None:
    merged = {4: 1.5, 2: 1.5 if is_general else 1.0}
    document = {"workload": "fitted", "runs": [run(4, 1.5)], "base_branch": "main"}
    waiting = client.post(URL, json=document | {"branch": "wider"}).json()
    for _ in range(5):
        clock.advance(seconds=60)
        report(client, {4: 1.0, 2: 1.0})
    accept(client, clock, waiting)

    builds = []
    for _ in range(6):
        builds.append(report(client, merged))
        clock.advance(seconds=60)

    assert waiting["verdict"] == "fail"
    assert {(build["verdict"], len(build["drift"])) for build in builds} == {("pass", 0)}
    assert ratios(builds[0])[0] == pytest.approx(1.0, abs=0.02)


def test_an_acknowledged_report_that_is_sent_again_passes(
    client: TestClient, clock: FakeClock
) -> None:
    runs = [run(workers, factor, external_id=str(workers)) for workers, factor in [(2, 1), (4, 3)]]
    accept(client, clock, report_runs(client, runs))

    again = report_runs(client, runs)

    assert again["verdict"] == "pass"
    assert ratios(again) == pytest.approx([1.0, 1.0], abs=0.02)


def test_all_runs_of_a_report_that_were_stored_one_by_one_are_acknowledged(
    client: TestClient, clock: FakeClock
) -> None:
    runs = [run(workers, factor, external_id=str(workers)) for workers, factor in [(2, 1), (4, 3)]]
    for each in runs:
        assert client.post("/v1/runs", json={"workload": "fitted", **each}).status_code == 201
        clock.advance(seconds=60)
    accept(client, clock, report_runs(client, runs))

    later = report(client, {2: 1.0, 4: 3.0})

    assert later["verdict"] == "pass"
    assert ratios(later) == pytest.approx([1.0, 1.0], abs=0.02)


def test_builds_as_slow_as_acknowledged_are_no_drift_however_slow(
    client: TestClient, clock: FakeClock
) -> None:
    factors = {1: 1.0, 2: 1.0, 4: 15.0, 8: 1.0}
    accept(client, clock, report(client, factors))

    for _ in range(4):
        built = report(client, factors)
        clock.advance(seconds=60)

    assert (built["verdict"], built["drift"]) == ("pass", [])


def test_a_failed_build_after_an_acknowledgement_makes_nothing_slower_normal(
    client: TestClient, clock: FakeClock
) -> None:
    accept(client, clock, report(client, {2: 1.5}))
    accident = report(client, {4: 15.0})
    clock.advance(seconds=60)

    as_accepted, slower = report(client, {8: 1.5}), report(client, {1: 3.0})

    assert accident["verdict"] == slower["verdict"] == "fail"
    assert as_accepted["verdict"] == "pass"
    assert ratios(as_accepted) == pytest.approx([1.0], abs=0.05)
