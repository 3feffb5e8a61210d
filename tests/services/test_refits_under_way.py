"""Runs that are stored or taken in while a fit reads count towards the next one."""

import io
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

import orjson
import pytest

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.fits import ClaimedFit, FitRequest, FitState
from app.domain.identifiers import Slug
from app.domain.runs import RunChange
from app.domain.workloads import RefitMode, RefitPolicy, WorkloadDeclaration
from app.services.computing.task import FitTask, compute_fit
from app.services.fitting import FittingService
from app.services.refitting.inclusions import lock_runs
from app.services.refitting.overdue import OverdueRefits
from app.services.uploads.terms import UploadFormat, UploadResult
from app.services.wiring import Services
from app.storage.stores import Stores
from tests.support.clock import FakeClock
from tests.support.locks import require_several_writers, wait_for_a_lock
from tests.support.regressors import QUICK, fit, store_runs
from tests.support.uploads import make_json_run

_SLUG = Slug("resnet50")
_CALLER = Principal(DEFAULT_PROJECT, frozenset(Scope))
Begun = tuple[ClaimedFit, FitTask]


@pytest.fixture
def fitted(services: Services, clock: FakeClock) -> Services:
    """A workload with a regressor, whose policy wants the next one after two more runs."""
    require_several_writers(services.context.database)
    store_runs(services.context, _SLUG)
    fit(services, _SLUG)
    _declare(services, RefitPolicy(RefitMode.AUTO, 2))
    clock.advance(60)
    return services


def _declare(services: Services, policy: RefitPolicy) -> None:
    services.workloads.declare(DEFAULT_PROJECT, _SLUG, WorkloadDeclaration(refit_policy=policy))


def _upload(services: Services, while_under_way: Callable[[], object] = bool) -> None:
    """Upload two runs, and do something before they are stored for good."""

    def finish(_stores: Stores, _result: UploadResult) -> None:
        while_under_way()

    body = io.BytesIO(orjson.dumps([make_json_run()] * 2))
    services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON, finish=finish)


def _begin(services: Services, clock: FakeClock, request: FitRequest = QUICK) -> Begun:
    clock.advance(60)
    services.fits.request_fit(DEFAULT_PROJECT, _SLUG, request)
    fitting = FittingService(services.context)
    claim = fitting.claim("fitter")
    assert claim is not None
    task = fitting.prepare(claim)
    clock.advance(60)
    return claim, task


def _end(services: Services, begun: Begun) -> None:
    claim, task = begun
    outcome = compute_fit(task, lambda *_: None)
    assert FittingService(services.context).publish(claim, outcome)


def _states(services: Services) -> list[FitState]:
    return [item.state for item in services.fits.list_page(DEFAULT_PROJECT, _SLUG).items]


def test_runs_of_an_upload_under_way_are_not_taken_for_seen(
    fitted: Services, clock: FakeClock
) -> None:
    _declare(fitted, RefitPolicy(RefitMode.AUTO, 100))
    begun: list[Begun] = []

    _upload(fitted, lambda: begun.append(_begin(fitted, clock)))
    _declare(fitted, RefitPolicy(RefitMode.AUTO, 2))
    _end(fitted, begun[0])

    assert len(begun[0][1].runs.duration_seconds) == 12
    assert _states(fitted) == [FitState.QUEUED, FitState.SUCCEEDED, FitState.SUCCEEDED]


def test_runs_of_an_upload_under_way_grow_old(fitted: Services, clock: FakeClock) -> None:
    _declare(fitted, RefitPolicy(RefitMode.AUTO, 100, 3600.0))
    begun: list[Begun] = []

    _upload(fitted, lambda: begun.append(_begin(fitted, clock)))
    _end(fitted, begun[0])
    clock.advance(3600)

    assert OverdueRefits(fitted.context, at_most=4).look() == 1


def test_what_a_fit_has_seen_does_not_grow_old(fitted: Services, clock: FakeClock) -> None:
    _declare(fitted, RefitPolicy(RefitMode.AUTO, 100, 3600.0))
    _upload(fitted)
    _end(fitted, _begin(fitted, clock))
    clock.advance(3600)

    assert OverdueRefits(fitted.context, at_most=4).look() == 0


def test_runs_that_are_being_taken_in_are_not_taken_for_seen(
    fitted: Services, clock: FakeClock
) -> None:
    stored = fitted.runs.list_page(DEFAULT_PROJECT, _SLUG).items[:2]
    for run in stored:
        fitted.runs.change(_CALLER, run.run_id, RunChange(excluded=True, reason="noisy"))
    context = fitted.context

    with context.database.transaction() as stores:
        runs = lock_runs(stores, DEFAULT_PROJECT, [run.run_id for run in stored])
        stores.runs.include([run.run_id for run in runs], context.lease_now(stores))
        begun = _begin(fitted, clock)
    _end(fitted, begun)

    assert len(begun[1].runs.duration_seconds) == 10
    assert _states(fitted) == [FitState.QUEUED, FitState.SUCCEEDED, FitState.SUCCEEDED]


def test_fit_that_ends_while_an_upload_is_committed_leaves_no_run_waiting(
    fitted: Services, clock: FakeClock
) -> None:
    begun = _begin(fitted, clock)
    ending: list[Future[None]] = []

    with ThreadPoolExecutor(1) as pool:

        def end_meanwhile() -> None:
            ending.append(pool.submit(_end, fitted, begun))
            wait_for_a_lock(fitted.context.database, *ending)

        _upload(fitted, end_meanwhile)
        ending[0].result()

    assert _states(fitted) == [FitState.QUEUED, FitState.SUCCEEDED, FitState.SUCCEEDED]


def test_runs_carry_instants_in_the_order_in_which_they_can_be_seen(
    fitted: Services, clock: FakeClock
) -> None:
    waiting: list[Future[None]] = []

    with ThreadPoolExecutor(1) as pool:

        def upload_meanwhile() -> None:
            waiting.append(pool.submit(_upload, fitted))
            wait_for_a_lock(fitted.context.database, *waiting)
            clock.advance(60)

        _upload(fitted, upload_meanwhile)
        waiting[0].result()

    moments = _moments(fitted)
    assert len(moments) == 3
    assert moments[-1] == clock()


def test_policy_that_waits_for_an_upload_requests_the_newest_fit(
    fitted: Services, clock: FakeClock
) -> None:
    _declare(fitted, RefitPolicy())
    waiting: list[Future[None]] = []

    with ThreadPoolExecutor(1) as pool:

        def declare_meanwhile() -> None:
            waiting.append(pool.submit(_declare, fitted, RefitPolicy(RefitMode.AUTO, 2)))
            wait_for_a_lock(fitted.context.database, *waiting)
            _end(fitted, _begin(fitted, clock))

        _upload(fitted, declare_meanwhile)
        waiting[0].result()

    assert _states(fitted) == [FitState.QUEUED, FitState.SUCCEEDED, FitState.SUCCEEDED]


def _moments(services: Services) -> list[datetime]:
    runs = services.runs.list_page(DEFAULT_PROJECT, _SLUG).items
    return sorted({run.created_at for run in runs})
