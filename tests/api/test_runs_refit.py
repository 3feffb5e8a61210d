"""A workload's refit policy gets its fits, whenever its runs come and however its fits end."""

import io

import orjson
import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import ClaimedFit, FitProblem
from app.domain.identifiers import Slug
from app.domain.workloads import RefitMode, RefitPolicy, WorkloadDeclaration
from app.services.computing.task import FitTask, compute_fit
from app.services.fitting import FittingService
from app.services.refitting.overdue import OverdueRefits
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.queries import recorded_queries
from tests.support.regressors import QUICK, make_fitter, publish_regressor, store_runs
from tests.support.uploads import make_json_run, post_json

pytestmark = pytest.mark.lengthy


def _declare(client: TestClient, **policy: object) -> None:
    client.put("/v1/workloads/resnet50", json={"refit_policy": policy})


def _fits(client: TestClient) -> list[str]:
    fits = client.get("/v1/workloads/resnet50/fits").json()["fits"]
    return [fit["state"] for fit in fits]


def _upload(client: TestClient, count: int, **changes: object) -> None:
    answer = post_json(client, [make_json_run(**changes)] * count)
    assert answer.status_code == 201


def test_manual_workloads_are_not_fitted_unasked(client: TestClient) -> None:
    _upload(client, 5)

    assert _fits(client) == []


def test_enough_new_runs_ask_for_a_fit(client: TestClient) -> None:
    _declare(client, mode="auto", min_new_runs=3)

    _upload(client, 2)
    after_two = _fits(client)
    _upload(client, 1)

    assert after_two == []
    assert _fits(client) == ["queued"]


def test_runs_that_wait_are_fitted_as_soon_as_the_policy_wants_it(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _upload(client, 3)

    _declare(client, mode="auto", min_new_runs=4)
    too_few = _fits(client)
    _declare(client, mode="auto", min_new_runs=3)
    enough = _fits(client)
    _fit_all(services)
    _declare(client, mode="auto", min_new_runs=1)

    assert (too_few, enough) == ([], ["queued"])
    assert _fits(client) == ["succeeded"]


def test_run_that_waited_too_long_is_fitted_as_soon_as_the_policy_wants_it(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=100)
    _upload(client, 1)
    clock.advance(3600)

    _declare(client, mode="auto", min_new_runs=100, max_age_s=7200)
    young = _fits(client)
    _declare(client, mode="auto", min_new_runs=100, max_age_s=3600)

    assert young == ["succeeded"]
    assert _fits(client) == ["queued", "succeeded"]


def test_an_active_fit_is_enough(client: TestClient) -> None:
    _declare(client, mode="auto")

    _upload(client, 1)
    _upload(client, 1)

    assert _fits(client) == ["queued"]


def _store_run(services: Services, workload: str) -> None:
    body = io.BytesIO(orjson.dumps(make_json_run(workload=workload)))
    services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)


def _fit_all(services: Services) -> None:
    while make_fitter(services.context).step():
        pass


def _begin(services: Services) -> ClaimedFit:
    claim = FittingService(services.context).claim("fitter")
    assert claim is not None
    return claim


def _read(services: Services) -> tuple[ClaimedFit, FitTask]:
    claim = _begin(services)
    return claim, FittingService(services.context).prepare(claim)


def _end(services: Services, claim: ClaimedFit, task: FitTask) -> None:
    FittingService(services.context).publish(claim, compute_fit(task, lambda *_: None))


def _look(services: Services) -> int:
    return OverdueRefits(services.context, at_most=4).look()


def _fitted(client: TestClient, services: Services, clock: FakeClock, **policy: object) -> None:
    _declare(client, mode="auto", min_new_runs=2)
    _upload(client, 2)
    _fit_all(services)
    _declare(client, mode="auto", **policy)
    clock.advance(60)


def test_runs_count_from_the_last_published_fit_on(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=2)

    _upload(client, 1)
    after_one = _fits(client)
    clock.advance(60)
    _upload(client, 1)

    assert after_one == ["succeeded"]
    assert _fits(client) == ["queued", "succeeded"]


def test_runs_of_a_fit_that_failed_or_was_cancelled_go_on_waiting(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=2)
    _upload(client, 2)
    clock.advance(60)
    FittingService(services.context).fail(_begin(services), FitProblem("fitter_lost", "It died."))
    failed = _fits(client)
    clock.advance(60)

    _upload(client, 1)
    after_failure = _fits(client)
    [fit, *_] = client.get("/v1/workloads/resnet50/fits").json()["fits"]
    client.post(f"/v1/fits/{fit['fit_id']}:cancel")
    clock.advance(60)
    _upload(client, 1)

    assert failed == ["failed", "succeeded"]
    assert after_failure == ["queued", "failed", "succeeded"]
    assert _fits(client) == ["queued", "cancelled", "failed", "succeeded"]


def test_fit_that_fails_is_not_asked_for_again_without_new_runs(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _declare(client, mode="auto", max_age_s=60)
    _upload(client, 3)
    clock.advance(60)
    FittingService(services.context).fail(_begin(services), FitProblem("internal", "A bug."))
    clock.advance(3600)

    assert _look(services) == 0
    assert _fits(client) == ["failed"]


def test_runs_that_come_while_a_fit_is_computed_get_the_next_one(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _declare(client, mode="auto", min_new_runs=2)
    _upload(client, 2)
    clock.advance(60)
    first = _read(services)
    clock.advance(60)
    _upload(client, 2)
    _end(services, *first)
    after_first = _fits(client)
    clock.advance(60)
    second = _read(services)
    clock.advance(60)
    _upload(client, 1)
    _end(services, *second)

    assert after_first == ["queued", "succeeded"]
    assert _fits(client) == ["succeeded", "succeeded"]


def test_runs_that_come_while_a_fit_fails_get_the_next_one(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _declare(client, mode="auto", min_new_runs=2)
    _upload(client, 2)
    clock.advance(60)
    claim = _begin(services)
    clock.advance(60)
    _upload(client, 1)

    FittingService(services.context).fail(claim, FitProblem("internal", "A bug."))

    assert _fits(client) == ["queued", "failed"]


def test_runs_that_come_while_fitters_are_lost_get_the_next_fit(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _declare(client, mode="auto", min_new_runs=2)
    _upload(client, 2)
    for _ in range(services.context.settings.fit_max_attempts):
        _begin(services)
        clock.advance(2 * services.context.settings.lease_s)
    _upload(client, 1)

    assert FittingService(services.context).claim("another") is None
    assert _fits(client) == ["queued", "failed"]


def test_one_run_is_enough_when_the_last_fit_is_old(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=100, max_age_s=3600)

    _upload(client, 1)
    young = _fits(client)
    clock.advance(3600)
    _upload(client, 1)

    assert young == ["succeeded"]
    assert _fits(client) == ["queued", "succeeded"]


def test_run_that_waits_too_long_needs_no_upload_to_be_fitted(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=100, max_age_s=3600)
    overdue = OverdueRefits(services.context, at_most=4)
    clock.advance(7200)
    without_new_runs = overdue.look()
    _fitted(client, services, clock, min_new_runs=100, max_age_s=3600)
    _upload(client, 1)

    young = overdue.look()
    clock.advance(3600)
    due, again = overdue.look(), overdue.look()

    assert (without_new_runs, young, due, again) == (0, 0, 1, 0)
    assert _fits(client) == ["queued", "succeeded", "succeeded"]


def test_overdue_fits_do_not_stand_before_others(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=100, max_age_s=3600)
    _upload(client, 1)
    clock.advance(3600)
    for name in ("a", "b"):
        store_runs(services.context, name)
        client.post(f"/v1/workloads/{name}/fits")
    overdue = OverdueRefits(services.context, at_most=2)

    full = overdue.look()
    make_fitter(services.context).step()

    assert (full, overdue.look()) == (0, 1)


def test_overdue_fits_wait_for_a_queue_that_is_longer_than_they_may_make_it(
    services: Services, clock: FakeClock
) -> None:
    policy = RefitPolicy(RefitMode.AUTO, 100, 60.0)
    for name in ("a", "b"):
        publish_regressor(services, name)
        declaration = WorkloadDeclaration(refit_policy=policy)
        services.workloads.declare(DEFAULT_PROJECT, Slug(name), declaration)
    clock.advance(1)
    for name in ("c", "d", "a", "b"):
        _store_run(services, name)
    clock.advance(60)
    for name in ("c", "d"):
        services.fits.request_fit(DEFAULT_PROJECT, Slug(name), QUICK)

    assert OverdueRefits(services.context, at_most=1).look() == 0
    assert OverdueRefits(services.context, at_most=4).look() == 2


def test_workloads_are_examined_once_a_minute(services: Services, clock: FakeClock) -> None:
    overdue = OverdueRefits(services.context, at_most=4)

    with recorded_queries(services.context.database) as first:
        overdue.look()
    clock.advance(59)
    with recorded_queries(services.context.database) as within_a_minute:
        overdue.look()
    clock.advance(1)
    with recorded_queries(services.context.database) as after_a_minute:
        overdue.look()

    assert first
    assert not within_a_minute
    assert after_a_minute


def test_runs_that_are_promoted_ask_for_a_fit(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=2)
    report = {
        "branch": "deeper",
        "base_branch": "main",
        "runs": [make_json_run(), make_json_run(), make_json_run()],
    }
    report_id = client.post("/v1/ci/reports", json=report).json()["report_id"]
    clock.advance(60)
    _upload(client, 1)
    clock.advance(60)
    before = _fits(client)

    client.post(f"/v1/ci/reports/{report_id}:promote").raise_for_status()

    assert before == ["succeeded"]
    assert _fits(client) == ["queued", "succeeded"]


def test_promoted_runs_wait_with_others_and_grow_old(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=3, max_age_s=3600)
    run = {"excluded": True, "reason": "noisy"}
    stored = client.get("/v1/workloads/resnet50/runs").json()["runs"][0]["run_id"]
    client.patch(f"/v1/runs/{stored}", json=run).raise_for_status()
    client.patch(f"/v1/runs/{stored}", json={"excluded": False}).raise_for_status()
    clock.advance(60)

    _upload(client, 1)
    two_wait, young = _fits(client), _look(services)
    clock.advance(3600)

    assert (two_wait, young) == (["succeeded"], 0)
    assert _look(services) == 1


def test_promoted_run_alone_grows_old(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=3, max_age_s=3600)
    stored = client.get("/v1/workloads/resnet50/runs").json()["runs"][0]["run_id"]
    for is_excluded in (True, False):
        client.patch(f"/v1/runs/{stored}", json={"excluded": is_excluded}).raise_for_status()
    clock.advance(3600)

    assert _look(services) == 1


def test_older_version_published_by_hand_is_not_fitted_away(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    _fitted(client, services, clock, min_new_runs=2, max_age_s=3600)
    _upload(client, 2)
    clock.advance(60)
    _fit_all(services)
    client.post("/v1/workloads/resnet50/regressors/1:publish").raise_for_status()
    clock.advance(7200)

    assert _look(services) == 0
    assert _fits(client) == ["succeeded", "succeeded"]


def test_runs_that_no_fit_could_use_do_not_count(client: TestClient) -> None:
    _declare(client, mode="auto")

    _upload(client, 3, status="failed")

    assert _fits(client) == []


def test_duplicates_and_dry_runs_ask_for_nothing(client: TestClient) -> None:
    _upload(client, 1, external_id="a")
    _declare(client, mode="auto", min_new_runs=2)

    post_json(client, make_json_run(external_id="a"))
    post_json(client, make_json_run(), dry_run="true")

    assert _fits(client) == []
