"""Transactions that meet on PostgreSQL wait for each other in one order, never in a circle."""

import io
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.fits import FitReason, FitRequest, FitState
from app.domain.idempotency import IdempotencyTicket
from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.quotas import Limit, Quota
from app.domain.workloads import RefitMode, RefitPolicy, WorkloadDeclaration
from app.services.computing.task import compute_fit
from app.services.context import ServiceContext
from app.services.fitting import FittingService
from app.services.idempotency import IdempotencyService
from app.services.refitting.refits import request_refits
from app.services.refitting.requests import queue_fits
from app.services.retention import RetentionService
from app.services.uploads.terms import UploadFormat, UploadResult
from app.services.wiring import Services
from app.storage.fits import FitStore
from app.storage.idempotency import IdempotencyStore
from app.storage.leases import LeaseStore
from app.storage.quotas import QuotaStore
from app.storage.stores import Stores
from app.storage.tables import FitRow, FitterRow, IdempotencyRow
from tests.support.clock import FakeClock
from tests.support.ledger import record_forecasts
from tests.support.locks import has_to_wait, require_several_writers, wait_for_a_lock
from tests.support.overtaking import after_first
from tests.support.regressors import QUICK, store_runs
from tests.support.uploads import make_json_run

_CALLER = Principal(DEFAULT_PROJECT, frozenset(Scope))
_MONTH = timedelta(days=30)


@pytest.fixture
def context(services: Services) -> ServiceContext:
    require_several_writers(services.context.database)
    return services.context


def _claim(context: ServiceContext, *names: str) -> set[Slug]:
    with context.database.transaction() as stores:
        return stores.workloads.claim(DEFAULT_PROJECT, map(Slug, names), context.now())


def test_upload_to_workloads_that_are_removed_and_made_anew_waits_in_order(
    context: ServiceContext,
) -> None:
    database = context.database
    _claim(context, "a", "b", "c")

    with ThreadPoolExecutor(2) as pool:
        with database.transaction() as removing:
            _remove(removing, "c")
            with database.transaction() as earlier:
                _remove(earlier, "b")
                first = pool.submit(_claim, context, "a", "b", "c")
                wait_for_a_lock(database, first)
            # The first upload holds a, and waits for c; the second makes b, and waits for a.
            second = pool.submit(_claim, context, "a", "b")
            wait_for_a_lock(database, first, second, count=2)
        created = [first.result(), second.result()]

    assert created == [{"c"}, {"b"}]


def test_uploads_that_wait_for_a_limit_to_be_set_end_one_after_the_other(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, limits = context.database, Quota(runs=10, workloads=3)
    _after_both(monkeypatch, QuotaStore, "lock")

    def upload() -> Quota | None:
        with database.transaction() as stores:
            return stores.quotas.lock_for_upload(DEFAULT_PROJECT)

    with ThreadPoolExecutor(2) as pool:
        with database.transaction() as stores:
            stores.quotas.put(DEFAULT_PROJECT, limits)
            uploads = [pool.submit(upload) for _ in range(2)]
            wait_for_a_lock(database, *uploads, count=2)
        assert [one.result() for one in uploads] == [limits, limits]


def test_uploads_that_request_fits_within_a_limit_end_one_after_the_other(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = WorkloadDeclaration(refit_policy=RefitPolicy(RefitMode.AUTO, 1))
    for name in ("a", "b"):
        services.workloads.declare(DEFAULT_PROJECT, Slug(name), policy)
    services.projects.limit("default", {Limit.FITS_PER_DAY: 10})
    second: list[Future[UploadResult]] = []

    with ThreadPoolExecutor(1) as pool:

        def upload_another() -> None:
            second.append(pool.submit(_upload, services, "b"))
            wait_for_a_lock(context.database, *second)

        after_first(monkeypatch, QuotaStore, "lock_for_upload", upload_another)
        created = [_upload(services, "a").created, second[0].result().created]

    assert created == [1, 1]
    for name in ("a", "b"):
        [fit] = services.fits.list_page(DEFAULT_PROJECT, Slug(name)).items
        assert fit.state is FitState.QUEUED


def _upload(services: Services, workload: str) -> UploadResult:
    body = io.BytesIO(orjson.dumps(make_json_run(workload=workload)))
    return services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)


def _after_both(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Let two calls of a method begin together."""
    original, both = getattr(owner, name), Barrier(2)

    def call(store: object, project_id: ProjectId) -> Any:
        both.wait()
        return original(store, project_id)

    monkeypatch.setattr(owner, name, call)


def _remove(stores: Stores, name: str) -> None:
    workload = stores.workloads.get(DEFAULT_PROJECT, Slug(name))
    assert workload is not None
    stores.workloads.lock(DEFAULT_PROJECT, Slug(name))
    stores.workloads.delete(workload.workload_id)


def test_workload_is_removed_while_its_fit_is_published(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_runs(context, "w")
    services.fits.request_fit(DEFAULT_PROJECT, Slug("w"), QUICK)
    fitting = FittingService(context)
    claim = fitting.claim("fitter")
    assert claim is not None
    outcome = compute_fit(fitting.prepare(claim), lambda *_: None)
    removal: list[Future[None]] = []

    with ThreadPoolExecutor(1) as pool:

        def remove() -> None:
            removal.append(pool.submit(services.workloads.delete, _CALLER, Slug("w")))
            wait_for_a_lock(context.database, *removal)

        after_first(monkeypatch, LeaseStore, "hold", remove)
        is_published = fitting.publish(claim, outcome)
        removal[0].result()

    assert is_published
    assert not fitting.publish(claim, outcome)


def test_fits_of_several_workloads_are_queued_beside_an_operators(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [store_runs(context, name) for name in ("a", "b")]
    policy = WorkloadDeclaration(refit_policy=RefitPolicy(RefitMode.AUTO, 1))
    # Declared by the service, it would be asked at once.
    with context.database.transaction() as stores:
        for key in keys:
            stores.workloads.replace_declaration(key, policy, context.now())
    refit: list[Future[int]] = []

    with ThreadPoolExecutor(1) as pool:

        def refit_all() -> None:
            refit.append(pool.submit(_queue_all, context, keys))
            wait_for_a_lock(context.database, *refit)

        after_first(monkeypatch, FitStore, "request", refit_all)
        with context.database.transaction() as stores:
            workloads = stores.workloads.find_many(DEFAULT_PROJECT, map(Slug, ("a", "b")))
            newest_first = [workloads[Slug("b")], workloads[Slug("a")]]
            now, settings = context.now(), context.settings
            queued = request_refits(stores, DEFAULT_PROJECT, newest_first, now, settings)
        queued_by_operator = refit[0].result()

    assert (queued, queued_by_operator) == (2, 0)


def _queue_all(context: ServiceContext, keys: list[WorkloadId]) -> int:
    owned = [(key, DEFAULT_PROJECT) for key in keys]
    budget_s = FitRequest().time_budget_s
    with context.database.transaction() as stores:
        return queue_fits(
            stores, owned, context.now(), time_budget_s=budget_s, reason=FitReason.OPERATOR
        )


def test_forecasts_that_go_with_their_workload_are_left_to_who_removes_it(
    context: ServiceContext,
) -> None:
    record_forecasts(context, store_runs(context, "going"), context.now() - 2 * _MONTH)
    record_forecasts(context, store_runs(context, "staying"), context.now() - 2 * _MONTH)

    with ThreadPoolExecutor(1) as pool, context.database.transaction() as stores:
        _remove(stores, "going")
        pruning = pool.submit(RetentionService(context).prune_forecasts, _MONTH)
        waits = has_to_wait(context.database, pruning)

    assert (waits, pruning.result()) == (False, 1)


def test_upload_waits_in_order_for_fits_whose_fitters_fell_silent(
    services: Services, context: ServiceContext, clock: FakeClock
) -> None:
    keys = [store_runs(context, name) for name in ("a", "b")]
    for name in ("a", "b"):
        services.fits.request_fit(DEFAULT_PROJECT, Slug(name), QUICK)
        FittingService(context).claim("fitter")
        clock.advance(1.0)
    with context.database.engine.begin() as connection:
        connection.execute(sa.update(FitRow).values(attempts=context.settings.fit_max_attempts))
    clock.advance(2 * context.settings.lease_s)

    def look() -> int:
        with context.database.transaction() as stores:
            return len(stores.fits.latest(keys, lock=True))

    with ThreadPoolExecutor(2) as pool:
        with context.database.engine.begin() as holding:
            first = sa.select(FitRow.id).order_by(FitRow.id).limit(1)
            holding.execute(first.with_for_update())
            claim = pool.submit(FittingService(context).claim, "another")
            wait_for_a_lock(context.database, claim)
            seen = pool.submit(look)
            wait_for_a_lock(context.database, claim, seen, count=2)
        assert (claim.result(), seen.result()) == (None, 2)


def test_lapsed_answers_that_another_transaction_holds_are_left_to_it(
    services: Services, context: ServiceContext, clock: FakeClock
) -> None:
    tickets = [IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", key) for key in ("held", "lapsed")]
    for ticket in tickets:
        services.idempotency.begin(ticket, "digest")
    clock.advance(2 * 3600.0 * context.settings.idempotency_hours)

    with ThreadPoolExecutor(1) as pool, context.database.engine.begin() as holding:
        held = sa.select(IdempotencyRow).where(IdempotencyRow.key == "held")
        holding.execute(held.with_for_update())
        purging = pool.submit(services.idempotency.purge)
        waits = has_to_wait(context.database, purging)

    assert (waits, purging.result(), services.idempotency.purge()) == (False, 1, 1)


def test_requests_whose_old_keys_are_removed_by_each_other_do_not_wait_in_a_circle(
    services: Services, context: ServiceContext, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = [IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", key) for key in ("a", "b")]
    for ticket in tickets:
        services.idempotency.begin(ticket, "body")
        clock.advance(1.0)
    clock.advance(2 * 3600.0 * context.settings.idempotency_hours)
    original, both = IdempotencyStore.begin, Barrier(2)

    def begin(*arguments: Any) -> Any:
        both.wait()
        return original(*arguments)

    monkeypatch.setattr(IdempotencyStore, "begin", begin)

    with ThreadPoolExecutor(2) as pool:
        processes = [IdempotencyService(context, at_once=1) for _ in tickets]
        # The older key is removed first, by the process that is asked for the newer one.
        newer = pool.submit(processes[0].begin, tickets[1], "body")
        older = pool.submit(processes[1].begin, tickets[0], "body")
        begun = [newer.result(), older.result()]

    assert [type(ticket) for ticket in begun] == [IdempotencyTicket] * 2


def test_fitter_that_another_transaction_hears_of_again_is_not_forgotten(
    context: ServiceContext, clock: FakeClock
) -> None:
    fitting, began = FittingService(context), context.now()
    for owner in ("awake", "lost"):
        fitting.seen(owner, began)
    clock.advance(timedelta(days=10).total_seconds())

    with ThreadPoolExecutor(1) as pool, context.database.transaction() as stores:
        stores.leases.fitter_seen("awake", started_at=began, now=context.now())
        seeing = pool.submit(fitting.seen, "new", context.now())
        waits = has_to_wait(context.database, seeing)

    with context.database.engine.connect() as connection:
        owners = set(connection.execute(sa.select(FitterRow.id)).scalars())
    assert (waits, owners) == (False, {"awake", "new"})
