"""CI reports while a fit is under way: what came after it read its runs is not normal by it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug
from app.services.fitting import FittingService
from app.services.wiring import Services
from tests.api.test_ci_reports import URL, report, run, usual
from tests.support.clock import FakeClock
from tests.support.regressors import QUICK, fit, publish_regressor
from tests.support.remembering import CachingComputer


@pytest.fixture
def published(services: Services, clock: FakeClock) -> None:
    publish_regressor(services)
    clock.advance(seconds=60)


@contextmanager
def fit_under_way(services: Services, clock: FakeClock) -> Iterator[None]:
    """Let a fit read its runs before the block, and publish after it."""
    services.fits.request_fit(DEFAULT_PROJECT, Slug("fitted"), QUICK)
    fitting = FittingService(services.context)
    claim = fitting.claim("fitter")
    assert claim is not None
    task = fitting.prepare(claim)
    clock.advance(seconds=10)
    yield
    clock.advance(seconds=10)
    outcome = CachingComputer().compute(task, lambda _share, _step: None)
    assert fitting.publish(claim, outcome)
    clock.advance(seconds=10)


@pytest.mark.usefixtures("published")
def test_a_slow_run_that_came_during_a_fit_fails_again(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    with fit_under_way(services, clock):
        first = report(client, run(1.3 * usual()))

    later = [report(client, run(1.3 * usual())) for _ in range(2)]

    assert [each["verdict"] for each in (first, *later)] == ["fail", "fail", "fail"]
    assert {each["runs"][0]["regressor_version"] for each in later} == {2}


@pytest.mark.usefixtures("published")
def test_a_change_that_is_acknowledged_during_a_fit_is_the_new_normal(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    with fit_under_way(services, clock):
        failed = report(client, run(1.3 * usual()))
        acknowledgement = {"author": "ada", "reason": "a new augmentation"}
        client.post(f"{URL}/{failed['report_id']}:acknowledge", json=acknowledgement)
        clock.advance(seconds=10)
        slower = report(client, run(2.0 * usual()))

    usual_now, slower_still = report(client, run(1.3 * usual())), report(client, run(2.0 * usual()))
    elsewhere = report(client, run(1.3 * usual(workers=3), workers=3))

    assert [each["verdict"] for each in (failed, slower)] == ["fail", "fail"]
    assert [each["verdict"] for each in (usual_now, slower_still)] == ["pass", "fail"]
    assert elsewhere["runs"][0]["ratio"] == pytest.approx(1.0, abs=0.05)


@pytest.mark.usefixtures("published")
def test_runs_that_came_after_an_acknowledged_fit_do_not_change_what_is_normal(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    failed = report(client, run(1.3 * usual()))
    acknowledgement = {"author": "ada", "reason": "a new augmentation"}
    client.post(f"{URL}/{failed['report_id']}:acknowledge", json=acknowledgement)
    clock.advance(seconds=10)
    fit(services, "fitted")
    clock.advance(seconds=10)
    elsewhere = run(usual(workers=3), workers=3)
    before = report(client, elsewhere, branch="try", base_branch="main")
    for _ in range(8):
        clock.advance(seconds=10)
        report(client, run(0.8 * usual(workers=8), workers=8))
    clock.advance(seconds=10)

    after = report(client, elsewhere, branch="try", base_branch="main")

    expected = [each["runs"][0]["expected_seconds"]["median"] for each in (before, after)]
    assert expected[1] == pytest.approx(expected[0], rel=1e-3)
