"""Transactions on PostgreSQL that others overtake between two of their statements."""

from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from functools import partial

import pytest
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT, ApiKey, Principal, Scope
from app.domain.access_errors import UnauthenticatedError
from app.domain.configurations import Purchase
from app.domain.errors import NotFoundError
from app.domain.fits import Fit
from app.domain.identifiers import Slug
from app.domain.prices import Price
from app.domain.quotas import Limit, Quota
from app.services.context import ServiceContext
from app.services.project_removal import ProjectRemovalService
from app.services.wiring import Services
from app.storage.access import AccessStore
from app.storage.count_tables import RunCountRow
from app.storage.fits import FitStore
from app.storage.prices import PriceStore
from app.storage.quotas import QuotaStore
from app.storage.removal import RemovalStore
from app.storage.run_counts import RunCountStore
from tests.support.locks import require_several_writers, wait_for_a_lock
from tests.support.overtaking import after_first
from tests.support.regressors import QUICK, store_runs

_CALLER = Principal(DEFAULT_PROJECT, frozenset(Scope))


@pytest.fixture
def context(services: Services) -> ServiceContext:
    require_several_writers(services.context.database)
    return services.context


def test_fit_is_queued_while_its_limit_is_lifted(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_runs(context, "w")
    services.projects.limit("default", {Limit.FITS_PER_DAY: 1})

    def lift() -> None:
        services.projects.limit("default", {Limit.FITS_PER_DAY: None})

    after_first(monkeypatch, QuotaStore, "get", lift)

    assert services.fits.request_fit(DEFAULT_PROJECT, Slug("w"), QUICK)[1]


@pytest.mark.parametrize("removed", ["run", "workload"])
def test_limit_set_beside_a_removal_counts_what_is_left(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    store_runs(context, "a")
    run_id = services.runs.list_page(DEFAULT_PROJECT, Slug("a")).items[0].run_id
    limited: list[Future[Quota]] = []

    with ThreadPoolExecutor(1) as pool:

        def limit() -> None:
            limits = {Limit.RUNS: 100}
            limited.append(pool.submit(services.projects.limit, "default", limits))
            wait_for_a_lock(context.database, *limited)

        after_first(monkeypatch, QuotaStore, "add_runs", limit)
        if removed == "run":
            services.runs.delete(_CALLER, run_id)
        else:
            services.workloads.delete(_CALLER, Slug("a"))
        limited[0].result()

    with context.database.transaction() as stores:
        counted = stores.quotas.add_runs(DEFAULT_PROJECT, 0)
    assert counted == (11 if removed == "run" else 0)


def test_first_keys_of_a_project_are_created_at_once(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    another: list[Future[tuple[ApiKey, str]]] = []

    def create() -> tuple[ApiKey, str]:
        return services.access.create_key("ci", [Scope.READ], project="vision")

    with ThreadPoolExecutor(1) as pool:

        def create_another() -> None:
            another.append(pool.submit(create))
            wait_for_a_lock(context.database, *another)

        after_first(monkeypatch, AccessStore, "add_project", create_another)
        projects = {create()[0].project_id, another[0].result()[0].project_id}

    assert len(projects) == 1


def test_key_of_a_project_that_is_just_removed_gets_a_new_one(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = services.access.create_key("ci", [Scope.READ], project="vision")[0]
    another: list[Future[tuple[ApiKey, str]]] = []

    with ThreadPoolExecutor(1) as pool:

        def create() -> None:
            another.append(
                pool.submit(services.access.create_key, "ci", [Scope.READ], project="vision")
            )
            wait_for_a_lock(context.database, *another)

        after_first(monkeypatch, RemovalStore, "remove_project", create)
        ProjectRemovalService(context).remove("vision")
        created = another[0].result()[0]

    assert created.project_id != first.project_id
    assert [key.key_id for key, _ in services.access.list_keys()] == [created.key_id]


def test_keys_are_listed_while_one_of_a_new_project_is_created(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.access.create_key("ci", [Scope.READ])

    def create() -> None:
        services.access.create_key("ci", [Scope.READ], project="vision")

    after_first(monkeypatch, AccessStore, "list_projects", create)
    after_first(monkeypatch, AccessStore, "list_keys", create)

    assert "default" in {project.name for _, project in services.access.list_keys()}


def test_fit_that_another_caller_has_just_queued_is_returned(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_runs(context, "w")
    services.projects.limit("default", {Limit.QUEUED_FITS: 1})
    first: list[tuple[Fit, bool]] = []

    def request() -> tuple[Fit, bool]:
        return services.fits.request_fit(DEFAULT_PROJECT, Slug("w"), QUICK)

    after_first(monkeypatch, FitStore, "active", lambda: first.append(request()))
    fit, is_new = request()

    assert (fit.fit_id, is_new) == (first[0][0].fit_id, False)


def test_workload_that_is_removed_is_not_recounted(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {name: store_runs(context, name) for name in ("a", "b")}
    with context.database.transaction() as stores:
        for key in keys.values():
            stores.run_counts.recount(key)
    with context.database.engine.begin() as connection:
        connection.execute(sa.update(RunCountRow).values(by_status={}))

    def remove() -> None:
        services.workloads.delete(_CALLER, Slug("a"))

    after_first(monkeypatch, RunCountStore, "wrong", remove)

    assert services.diagnosis.recount().workloads == [Slug("b")]
    assert services.diagnosis.recount().workloads == []


def test_price_is_withdrawn_once(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = Price(Decimal(2), "USD", Purchase.ON_DEMAND, context.now(), "own", gpu_type="T4")
    [stored] = services.prices.add(_CALLER, [price])
    assert stored.price_id is not None
    withdraw = partial(services.prices.withdraw, _CALLER, stored.price_id)
    second: list[Future[None]] = []

    with ThreadPoolExecutor(1) as pool:

        def withdraw_again() -> None:
            second.append(pool.submit(withdraw))
            wait_for_a_lock(context.database, *second)

        after_first(monkeypatch, PriceStore, "withdraw", withdraw_again)
        withdraw()

    with pytest.raises(NotFoundError):
        second[0].result()


def test_requests_of_a_project_that_is_just_removed_are_refused(
    services: Services, context: ServiceContext
) -> None:
    project_id = services.access.create_key("ci", [Scope.READ], project="vision")[0].project_id
    with context.database.transaction() as stores:
        assert stores.quotas.take_requests(project_id, 1, wanted=1, limit=2) == (1, 1)
    removed: list[str] = []

    @sa.event.listens_for(context.database.engine, "before_cursor_execute")
    def remove(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if "FROM rate_window" in statement and not removed:
            removed.append(project_id)
            ProjectRemovalService(context).remove("vision")

    with pytest.raises(UnauthenticatedError), context.database.transaction() as stores:
        stores.quotas.take_requests(project_id, 1, wanted=1, limit=2)
