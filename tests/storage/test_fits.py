"""One fit a workload is active, whoever asks; lists are newest first; cancelling is exact."""

import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitRequest, FitState, PublishMode
from app.domain.health import Fitters
from app.domain.identifiers import FitId, ProjectId, WorkloadId
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.storage.database import Database
from app.storage.tables import FitRow
from tests.support.clock import FakeClock
from tests.support.queries import recorded_queries
from tests.support.regressors import fit, store_runs

LEASE_S = 30.0


@pytest.fixture
def context(services: Services) -> ServiceContext:
    return services.context


@pytest.fixture
def workload_id(context: ServiceContext) -> WorkloadId:
    return store_runs(context, "resnet")


def test_request_reads_back(database: Database, clock: FakeClock, workload_id: WorkloadId) -> None:
    request = FitRequest(
        time_budget_s=5.5,
        seed=7,
        regressors=("log_linear",),
        publish=PublishMode.IF_BETTER,
        runs_since=clock(),
    )

    with database.transaction() as stores:
        fit, is_new = stores.fits.request(workload_id, request, clock())

    with database.reading() as stores:
        stored = stores.fits.get(DEFAULT_PROJECT, fit.fit_id)
        elsewhere = stores.fits.get(ProjectId("other"), fit.fit_id)
    assert is_new
    assert stored == fit
    assert (fit.request, fit.state, fit.workload) == (request, FitState.QUEUED, "resnet")
    assert elsewhere is None


def test_second_request_returns_the_active_fit(
    database: Database, clock: FakeClock, workload_id: WorkloadId
) -> None:
    with database.transaction() as stores:
        first, _ = stores.fits.request(workload_id, FitRequest(), clock())

    with database.transaction() as stores:
        second, is_new = stores.fits.request(workload_id, FitRequest(seed=9), clock())

    assert not is_new
    assert second == first


def test_concurrent_requests_get_one_fit(
    database: Database, clock: FakeClock, workload_id: WorkloadId
) -> None:
    barrier = threading.Barrier(4)
    answers: list[tuple[FitId, bool]] = []

    def ask() -> None:
        barrier.wait()
        with database.transaction() as stores:
            fit, is_new = stores.fits.request(workload_id, FitRequest(), clock())
        answers.append((fit.fit_id, is_new))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({fit_id for fit_id, _ in answers}) == 1
    assert sorted(is_new for _, is_new in answers) == [False, False, False, True]


def test_list_is_newest_first_and_pages_do_not_overlap(
    database: Database, clock: FakeClock, workload_id: WorkloadId
) -> None:
    asked = []
    for _ in range(3):
        clock.advance(1)
        with database.transaction() as stores:
            fit, _ = stores.fits.request(workload_id, FitRequest(), clock())
            stores.fits.request_cancel(fit.fit_id, clock())
        asked.append(fit.fit_id)

    with database.reading() as stores:
        first = stores.fits.page(workload_id, limit=2)
        assert first.next_key is not None
        second = stores.fits.page(workload_id, limit=2, before=first.next_key)
        latest = stores.fits.latest([workload_id, WorkloadId(999)])

    assert [fit.fit_id for fit in (*first.items, *second.items)] == asked[::-1]
    assert second.next_key is None
    assert {key: fit.fit_id for key, fit in latest.items()} == {workload_id: asked[-1]}


def test_cancel_ends_a_queued_fit_at_once(
    database: Database, clock: FakeClock, workload_id: WorkloadId
) -> None:
    with database.transaction() as stores:
        fit, _ = stores.fits.request(workload_id, FitRequest(), clock())
        assert stores.fits.queue_length() == 1

        stores.fits.request_cancel(fit.fit_id, clock())

        ended = stores.fits.get(DEFAULT_PROJECT, fit.fit_id)
        assert stores.fits.queue_length() == 0
    assert ended is not None
    assert (ended.state, ended.ended_at, ended.step) == (FitState.CANCELLED, clock(), "cancelled")


def test_cancel_of_a_running_fit_waits_for_its_fitter(
    database: Database, clock: FakeClock, workload_id: WorkloadId
) -> None:
    with database.transaction() as stores:
        stores.fits.request(workload_id, FitRequest(), clock())
        claim = stores.leases.claim_next("f", lease_s=LEASE_S, now=clock())
        assert claim is not None

        stores.fits.request_cancel(claim.fit.fit_id, clock())

        stored = stores.fits.get(DEFAULT_PROJECT, claim.fit.fit_id)
        assert stored is not None
        assert (stored.state, stored.cancel_requested) == (FitState.RUNNING, True)
        assert stored.ended_at is None
        assert not stores.leases.hold(claim)
        assert not stores.leases.release(claim, is_counted=False)
        assert stores.leases.cancel(claim, clock())


def test_cancel_ends_a_running_fit_whose_fitter_is_silent(
    database: Database, clock: FakeClock, workload_id: WorkloadId
) -> None:
    with database.transaction() as stores:
        stores.fits.request(workload_id, FitRequest(), clock())
        claim = stores.leases.claim_next("f", lease_s=LEASE_S, now=clock())
        assert claim is not None
        clock.advance(LEASE_S + 1)

        stores.fits.request_cancel(claim.fit.fit_id, clock())

        ended = stores.fits.get(DEFAULT_PROJECT, claim.fit.fit_id)
    assert ended is not None
    assert ended.state is FitState.CANCELLED


def test_fitters_alive_are_those_heard_of_lately(database: Database, clock: FakeClock) -> None:
    with database.transaction() as stores:
        stores.leases.fitter_seen("a", started_at=clock(), now=clock())
        stores.leases.fitter_seen("b", started_at=clock(), now=clock())
        clock.advance(60)
        stores.leases.fitter_seen("b", started_at=clock(), now=clock())

        assert stores.fits.fitters(clock(), clock()) == Fitters(alive=1)

        stores.leases.purge_fitters(clock())
        stores.leases.fitter_gone("b")
        clock.advance(-60)
        assert stores.fits.fitters(clock(), clock()) == Fitters(alive=0)


def test_fitter_whose_clock_was_ahead_does_not_live_for_ever(
    database: Database, clock: FakeClock
) -> None:
    with database.transaction() as stores:
        stores.leases.fitter_seen("ahead", started_at=clock(), now=clock())
        clock.advance(-3600)

        fitters = stores.fits.fitters(
            clock() - timedelta(seconds=30), clock() + timedelta(seconds=30)
        )

    assert fitters == Fitters(alive=0)


def test_what_a_version_has_seen_is_found_by_its_fit(
    services: Services, database: Database, clock: FakeClock, workload_id: WorkloadId
) -> None:
    instants = [clock() + timedelta(hours=number) for number in range(3)]
    for version, instant in enumerate(instants, 1):
        fit(services, "resnet")
        with database.engine.begin() as connection:
            of_version = FitRow.regressor_version == version
            connection.execute(sa.update(FitRow).where(of_version).values(seen_until=instant))

    with database.engine.begin() as connection:
        connection.execute(sa.delete(FitRow).where(FitRow.regressor_version == 3))

    with database.reading() as stores, recorded_queries(database) as queries:
        stored = [stores.regressors.load_artifact(workload_id, version) for version in (1, 2, 3)]

    assert [each.seen_until for each in stored] == [*instants[:2], stored[2].created_at]
    assert all("regressor.fit_id = fit.id" in query for query in queries)
