"""Projects keep to their limits, also when many ask at once and from several processes."""

import asyncio
import contextlib
import io
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.access_errors import ProjectLimitError
from app.domain.errors import NotFoundError
from app.domain.fits import Fit, FitRequest
from app.domain.identifiers import RunId, Slug
from app.domain.quotas import Limit, Quota
from app.domain.workloads import RefitMode, RefitPolicy, WorkloadDeclaration
from app.services.context import ServiceContext
from app.services.rates import RequestRates
from app.services.refitting.refits import RefitService
from app.services.uploads.terms import UploadFormat, UploadOptions, UploadResult
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.outage import make_available, make_unavailable
from tests.support.queries import recorded_queries

_OWNER = Principal(DEFAULT_PROJECT, frozenset(Scope))


def _limit(services: Services, **limits: int | None) -> Quota:
    changes: Mapping[Limit, int | None] = {Limit(name): value for name, value in limits.items()}
    return services.projects.limit("default", changes)


def _upload(services: Services, workload: str, rows: int, *, dry_run: bool = False) -> UploadResult:
    lines = "".join(f"{workload},{100 + row},1\n" for row in range(rows))
    body = io.BytesIO(f"workload,duration_seconds,workers\n{lines}".encode())
    options = UploadOptions(dry_run=dry_run)
    return services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.CSV, options)


def _fit(services: Services, workload: str) -> tuple[Fit, bool]:
    return services.fits.request_fit(DEFAULT_PROJECT, Slug(workload), FitRequest())


def _stored(services: Services, workload: str) -> int:
    page = services.runs.list_page(DEFAULT_PROJECT, Slug(workload), page_size=1000)
    return len(page.items)


def test_upload_beyond_the_limit_of_runs_stores_nothing(services: Services) -> None:
    _upload(services, "a", 3)
    _limit(services, runs=5)
    _upload(services, "a", 2)

    with pytest.raises(ProjectLimitError, match="may have 5 stored runs"):
        _upload(services, "b", 1)

    assert _stored(services, "a") == 5
    with pytest.raises(NotFoundError):
        _stored(services, "b")


def test_duplicates_and_dry_runs_are_not_counted(services: Services) -> None:
    _limit(services, runs=2)
    body = b"workload,duration_seconds,external_id\na,1,x\na,2,y\n"
    for _ in range(3):
        services.uploads.upload(DEFAULT_PROJECT, io.BytesIO(body), UploadFormat.CSV)

    assert _upload(services, "a", 9, dry_run=True).created == 9
    assert _stored(services, "a") == 2


def test_removed_runs_make_room(services: Services) -> None:
    _limit(services, runs=3)
    _upload(services, "a", 2)
    _upload(services, "b", 1)
    [run, _] = services.runs.list_page(DEFAULT_PROJECT, Slug("a")).items

    services.runs.delete(_OWNER, RunId(run.run_id))
    _upload(services, "c", 1)
    services.workloads.delete(_OWNER, Slug("a"))
    services.workloads.delete(_OWNER, Slug("b"))
    _upload(services, "c", 2)

    with pytest.raises(ProjectLimitError):
        _upload(services, "c", 1)


def test_run_that_two_remove_at_once_makes_room_for_one(services: Services) -> None:
    _limit(services, runs=9)
    _upload(services, "a", 3)
    run = services.runs.list_page(DEFAULT_PROJECT, Slug("a")).items[0]
    barrier = Barrier(4)

    def remove(_number: int) -> None:
        barrier.wait()
        with contextlib.suppress(NotFoundError):
            services.runs.delete(_OWNER, RunId(run.run_id))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remove, range(4)))

    with services.context.database.transaction() as stores:
        assert stores.quotas.add_runs(DEFAULT_PROJECT, 0) == 2


def test_uploads_to_a_workload_that_is_removed_are_counted(services: Services) -> None:
    _limit(services, runs=1000)
    barrier = Barrier(4)

    def act(number: int) -> None:
        barrier.wait()
        for _ in range(5):
            if number:
                _upload(services, "a", 2)
                continue
            with contextlib.suppress(NotFoundError):
                services.workloads.delete(_OWNER, Slug("a"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(act, range(4)))

    listed = services.workloads.list_page(DEFAULT_PROJECT).items
    with services.context.database.transaction() as stores:
        counted = stores.quotas.add_runs(DEFAULT_PROJECT, 0)
    assert counted == sum(sum(entry.runs.values()) for entry in listed)


def test_limit_that_is_lifted_and_set_again_counts_anew(services: Services) -> None:
    _limit(services, runs=1)
    _limit(services, runs=None)
    _upload(services, "a", 5)

    assert _limit(services, runs=5) == Quota(runs=5)
    with pytest.raises(ProjectLimitError):
        _upload(services, "a", 1)


def test_uploads_at_once_never_exceed_the_limit(services: Services) -> None:
    _limit(services, runs=10, workloads=3)
    barrier = Barrier(6)

    def upload(number: int) -> bool:
        barrier.wait()
        try:
            _upload(services, f"w{number}", 4)
        except ProjectLimitError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        accepted = list(pool.map(upload, range(6)))

    assert sum(accepted) == 2
    counts = services.workloads.list_page(DEFAULT_PROJECT).items
    assert sum(sum(count.runs.values()) for count in counts) == 8


def test_limit_set_during_uploads_counts_all_of_them(services: Services) -> None:
    barrier = Barrier(5)

    def upload(number: int) -> None:
        barrier.wait()
        _upload(services, f"w{number}", 5)

    def limit(_number: int) -> None:
        barrier.wait()
        _limit(services, runs=1000)

    with ThreadPoolExecutor(5) as pool:
        ends = [pool.submit(limit if n == 0 else upload, n) for n in range(5)]
    for end in ends:
        end.result()

    with services.context.database.transaction() as stores:
        assert stores.quotas.add_runs(DEFAULT_PROJECT, 0) == 20


def test_new_workloads_beyond_the_limit_are_refused(services: Services) -> None:
    _limit(services, workloads=1)
    _upload(services, "a", 1)
    _upload(services, "a", 1)
    services.workloads.declare(DEFAULT_PROJECT, Slug("a"), WorkloadDeclaration())

    with pytest.raises(ProjectLimitError, match="may have 1 workloads"):
        services.workloads.declare(DEFAULT_PROJECT, Slug("b"), WorkloadDeclaration())
    with pytest.raises(ProjectLimitError):
        _upload(services, "b", 1)


def test_fits_of_a_day_are_limited_until_the_day_is_over(
    services: Services, clock: FakeClock
) -> None:
    for name in "abc":
        _upload(services, name, 1)
    _limit(services, fits_per_day=2)
    _fit(services, "a")
    clock.advance(3600)
    _fit(services, "b")

    assert _fit(services, "a")[1] is False
    with pytest.raises(ProjectLimitError, match="2 fits in 24 hours") as refused:
        _fit(services, "c")
    assert refused.value.retry_after_s == 23 * 3600
    _limit(services, fits_per_day=1)
    with pytest.raises(ProjectLimitError, match="1 fits in 24 hours") as lowered:
        _fit(services, "c")
    assert lowered.value.retry_after_s == 24 * 3600
    clock.advance(24 * 3600)
    assert _fit(services, "c")[1] is True


def test_fits_of_a_removed_workload_still_count(services: Services) -> None:
    _upload(services, "a", 1)
    _limit(services, fits_per_day=1)
    _fit(services, "a")
    services.workloads.delete(_OWNER, Slug("a"))
    _upload(services, "a", 1)

    with pytest.raises(ProjectLimitError, match="1 fits in 24 hours"):
        _fit(services, "a")


def test_fits_of_an_operator_do_not_count(services: Services) -> None:
    for name in "ab":
        _upload(services, name, 1)
    _limit(services, fits_per_day=1)

    assert RefitService(services.context).request_all(timedelta(), at_most=1) == 1

    assert _fit(services, "b")[1] is True


def test_waiting_fits_are_limited(services: Services) -> None:
    for name in "ab":
        _upload(services, name, 1)
    _limit(services, queued_fits=1, fits_per_day=9)
    first, _ = _fit(services, "a")

    with pytest.raises(ProjectLimitError, match="1 waiting fits"):
        _fit(services, "b")
    services.fits.cancel(DEFAULT_PROJECT, first.fit_id)
    assert _fit(services, "b")[1] is True


def test_fits_asked_for_at_once_never_exceed_the_limit(services: Services) -> None:
    for number in range(5):
        _upload(services, f"w{number}", 1)
    _limit(services, queued_fits=2)
    barrier = Barrier(5)

    def ask(number: int) -> bool:
        barrier.wait()
        try:
            return _fit(services, f"w{number}")[1]
        except ProjectLimitError:
            return False

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(ask, range(5))) == 2


def test_upload_is_stored_although_no_refit_may_be_queued(services: Services) -> None:
    policy = RefitPolicy(mode=RefitMode.AUTO)
    for name in "ab":
        declaration = WorkloadDeclaration(refit_policy=policy)
        services.workloads.declare(DEFAULT_PROJECT, Slug(name), declaration)
    _limit(services, queued_fits=1)

    assert _upload(services, "a", 1).created == 1
    assert _upload(services, "b", 1).created == 1

    assert services.fits.list_page(DEFAULT_PROJECT, Slug("a")).items
    assert not services.fits.list_page(DEFAULT_PROJECT, Slug("b")).items


def test_limits_of_all_projects_are_read_by_one_query(services: Services) -> None:
    for name in ("a", "b", "c"):
        services.access.create_key("admin", [Scope.ADMIN], project=name)
    services.projects.limit("b", {Limit.RUNS: 5})

    with recorded_queries(services.context.database) as queries:
        listed = [(project.name, quota.runs) for project, quota in services.projects.list_all()]

    assert listed == [("a", None), ("b", 5), ("c", None), ("default", None)]
    assert len(queries) == 1


def test_limits_are_listed_and_audited(services: Services) -> None:
    _limit(services, runs=5, requests_per_minute=60)

    [(project, quota)] = services.projects.list_all()

    assert (project.name, quota) == ("default", Quota(runs=5, requests_per_minute=60))
    [entry] = services.access.list_audit("default", limit=1)
    assert (entry.action, entry.detail) == (
        "project.limit",
        {"runs": 5, "requests_per_minute": 60},
    )
    with pytest.raises(NotFoundError):
        services.projects.limit("nobody", {})


@pytest.fixture
def replicas(settings: Settings, clock: FakeClock) -> Iterator[list[RequestRates]]:
    databases = [Database(settings.url, pool_size=2) for _ in range(3)]
    yield [RequestRates(ServiceContext(database, settings, clock)) for database in databases]
    for database in databases:
        database.close()


async def _spend(replicas: list[RequestRates], requests: int, limit: int) -> int:
    asked = [
        replicas[number % len(replicas)].take(DEFAULT_PROJECT, limit) for number in range(requests)
    ]
    return sum(allowance.is_allowed for allowance in await asyncio.gather(*asked))


def test_replicas_share_the_limit_of_a_project(
    replicas: list[RequestRates], clock: FakeClock
) -> None:
    allowed = asyncio.run(_spend(replicas, 300, 60))
    clock.advance(60)
    next_minute = asyncio.run(_spend(replicas, 300, 60))

    assert (allowed, next_minute) == (60, 60)


def test_one_busy_replica_may_spend_the_whole_limit(replicas: list[RequestRates]) -> None:
    assert asyncio.run(_spend(replicas[:1], 100, 60)) == 60
    assert asyncio.run(_spend(replicas[1:], 10, 60)) == 0


def test_rates_go_on_in_each_process_while_the_database_is_away(
    replicas: list[RequestRates], database: Database
) -> None:
    make_unavailable(database)
    try:
        assert asyncio.run(_spend(replicas[:1], 100, 60)) == 60
    finally:
        make_available(database)


def test_clock_that_runs_late_gets_no_second_window(
    database: Database, settings: Settings, clock: FakeClock
) -> None:
    late, ahead = FakeClock(), FakeClock()
    ahead.advance(61)
    first, second = (
        RequestRates(ServiceContext(database, settings, each)) for each in (ahead, late)
    )

    assert asyncio.run(_spend([first], 30, 20)) == 20
    assert asyncio.run(_spend([second], 30, 20)) == 0


def test_replica_whose_clock_is_ahead_shares_the_minute_of_the_others(
    database: Database, settings: Settings, clock: FakeClock
) -> None:
    ahead = FakeClock()
    ahead.advance(6 * 3600)
    first, second = (
        RequestRates(ServiceContext(database, settings, each, shared_now=lambda _: clock()))
        for each in (ahead, clock)
    )

    assert asyncio.run(_spend([first], 15, 20)) == 15
    assert asyncio.run(_spend([second], 30, 20)) == 5
    clock.advance(60)
    assert asyncio.run(_spend([second], 30, 20)) == 20


def test_minute_that_a_clock_left_in_the_future_begins_anew(
    database: Database, settings: Settings, clock: FakeClock
) -> None:
    ahead = FakeClock()
    ahead.advance(6 * 3600)
    before, after = (
        RequestRates(ServiceContext(database, settings, each)) for each in (ahead, clock)
    )

    assert asyncio.run(_spend([before], 30, 20)) == 20
    assert asyncio.run(_spend([after], 30, 20)) == 20
    assert asyncio.run(_spend([after], 30, 20)) == 0


def test_each_minute_begins_anew(database: Database, settings: Settings, clock: FakeClock) -> None:
    services = Services(ServiceContext(database, settings, clock))

    assert asyncio.run(_spend([services.rates], 3, 2)) == 2
    clock.advance(120)
    assert asyncio.run(_spend([services.rates], 3, 2)) == 2
