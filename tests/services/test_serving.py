"""Which regressor answers: fresh, bounded in memory, and there while the database is away."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import NoRegressorError, RegressorUnavailableError, UnknownWorkloadError
from app.domain.fits import FitRequest, PublishMode
from app.domain.identifiers import ProjectId, Slug
from app.services.context import ServiceContext
from app.services.serving import RegressorCache
from app.services.wiring import Services
from app.settings import Settings
from tests.support.clock import FakeClock
from tests.support.outage import make_available, make_unavailable
from tests.support.regressors import fit, publish_regressor, store_runs

FITTED = Slug("fitted")


@pytest.fixture
def statements(services: Services) -> Callable[[], int]:
    """Count the statements that the services' own database executes."""
    count = 0

    @sa.event.listens_for(services.context.database.engine, "before_cursor_execute")
    def _count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal count
        count += statement.startswith("SELECT")

    return lambda: count


def test_fresh_regressor_is_served_without_the_database(
    services: Services, clock: FakeClock, statements: Callable[[], int]
) -> None:
    publish_regressor(services)
    cache = RegressorCache(services.context)
    assert cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now()) is None
    cache.get(DEFAULT_PROJECT, FITTED)
    before = statements()

    served = cache.get(DEFAULT_PROJECT, FITTED)

    assert served is cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now())
    assert statements() == before


def test_freshness_costs_one_query(
    services: Services, clock: FakeClock, statements: Callable[[], int]
) -> None:
    publish_regressor(services)
    cache = RegressorCache(services.context)
    first = cache.get(DEFAULT_PROJECT, FITTED)
    clock.advance(1.5)
    before = statements()

    second = cache.get(DEFAULT_PROJECT, FITTED)

    assert second is first
    assert statements() == before + 1
    assert (cache.figures.hits, cache.figures.misses) == (1, 1)


def test_newer_version_answers_after_the_refresh(services: Services, clock: FakeClock) -> None:
    publish_regressor(services)
    cache = RegressorCache(services.context)
    cache.get(DEFAULT_PROJECT, FITTED)
    fit(services, "fitted")

    within = cache.get(DEFAULT_PROJECT, FITTED).version
    clock.advance(1.5)

    assert within == 1
    assert cache.get(DEFAULT_PROJECT, FITTED).version == 2


def test_version_that_nobody_published_answers_when_it_is_named(services: Services) -> None:
    store_runs(services.context, "fitted")
    fit(services, "fitted", FitRequest(regressors=("log_linear",), publish=PublishMode.NEVER))
    cache = RegressorCache(services.context)

    assert cache.get(DEFAULT_PROJECT, FITTED, 1).version == 1
    with pytest.raises(NoRegressorError) as caught:
        cache.get(DEFAULT_PROJECT, FITTED)
    assert (caught.value.found, caught.value.needed) == (12, 1)


@pytest.mark.parametrize("bound", [{"regressor_cache_size": 1}, {"regressor_cache_bytes": 1}])
def test_least_used_regressors_leave_first(
    services: Services, settings: Settings, bound: dict[str, int]
) -> None:
    small = settings.model_copy(update=bound)
    context = services.context
    cache = RegressorCache(ServiceContext(context.database, small, context.now))
    publish_regressor(services)
    publish_regressor(services, workload="other")
    first = cache.get(DEFAULT_PROJECT, FITTED)

    last = cache.get(DEFAULT_PROJECT, Slug("other"))

    assert cache.in_memory(DEFAULT_PROJECT, last.workload, None, services.context.now()) is last
    assert cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now()) is None
    assert cache.get(DEFAULT_PROJECT, FITTED) is not first


def test_version_of_a_dropped_regressor_is_forgotten(
    services: Services, settings: Settings
) -> None:
    small = settings.model_copy(update={"regressor_cache_size": 2})
    context = services.context
    cache = RegressorCache(ServiceContext(context.database, small, context.now))
    names = [Slug(f"w{number}") for number in range(4)]
    for name in names:
        publish_regressor(services, workload=name)
        cache.get(DEFAULT_PROJECT, name)

    assert list(cache._pointers) == [(DEFAULT_PROJECT, name) for name in names[2:]]


def test_regressor_of_another_project_does_not_exist(services: Services) -> None:
    publish_regressor(services)
    cache = RegressorCache(services.context)
    cache.get(DEFAULT_PROJECT, FITTED)

    with pytest.raises(UnknownWorkloadError):
        cache.get(ProjectId("other"), FITTED)


def test_removed_workload_answers_no_longer(services: Services, clock: FakeClock) -> None:
    publish_regressor(services)
    cache = RegressorCache(services.context)
    served = cache.get(DEFAULT_PROJECT, FITTED)
    with services.context.database.transaction() as stores:
        stores.workloads.delete(served.workload_id)
    clock.advance(1.5)

    with pytest.raises(UnknownWorkloadError):
        cache.get(DEFAULT_PROJECT, FITTED)

    assert cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now()) is None


def test_damaged_artefact_is_unavailable(services: Services) -> None:
    publish_regressor(services)
    with services.context.database.engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE regressor SET artifact = :data, artifact_sha256 = :sha"),
            {
                "data": b"{}",
                "sha": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            },
        )

    with pytest.raises(RegressorUnavailableError):
        RegressorCache(services.context).get(DEFAULT_PROJECT, FITTED)


def test_named_version_answers_whatever_became_of_the_published_one(
    services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    fit(services, "fitted")
    with services.context.database.engine.begin() as connection:
        damage = sa.text("UPDATE regressor SET artifact = :data WHERE version = 2")
        connection.execute(damage, {"data": b"damaged"})
    cache = RegressorCache(services.context)
    cache.get(DEFAULT_PROJECT, FITTED, 1)
    clock.advance(1.5)

    assert cache.get(DEFAULT_PROJECT, FITTED, 1).version == 1
    with pytest.raises(RegressorUnavailableError):
        cache.get(DEFAULT_PROJECT, FITTED)


def test_known_regressor_answers_while_the_database_is_away(
    services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    cache, prices = RegressorCache(services.context), services.prices
    cache.get(DEFAULT_PROJECT, FITTED)
    prices.book(DEFAULT_PROJECT)
    clock.advance(1.5)
    make_unavailable(services.context.database)

    stale = cache.get(DEFAULT_PROJECT, FITTED)
    again = cache.in_memory(DEFAULT_PROJECT, FITTED, None, services.context.now())
    book = prices.book(DEFAULT_PROJECT)
    make_available(services.context.database)
    clock.advance(1.5)

    assert stale.is_stale
    assert cache.figures.hits == 2
    assert again is not None
    assert again.is_stale
    assert book.facts.prices == ()
    assert not cache.get(DEFAULT_PROJECT, FITTED).is_stale


def test_nothing_known_is_unavailable_while_the_database_is_away(services: Services) -> None:
    cache = RegressorCache(services.context)
    make_unavailable(services.context.database)

    with pytest.raises(StorageUnavailableError):
        cache.get(DEFAULT_PROJECT, FITTED)
    with pytest.raises(StorageUnavailableError):
        services.prices.book(DEFAULT_PROJECT)

    make_available(services.context.database)


def test_prices_are_read_again_when_they_are_old(
    services: Services, clock: FakeClock, statements: Callable[[], int]
) -> None:
    prices = services.prices
    first = prices.book(DEFAULT_PROJECT)
    before = statements()

    assert prices.book(DEFAULT_PROJECT) is first
    assert statements() == before
    clock.advance(1.5)
    assert prices.book(DEFAULT_PROJECT) is first
    assert statements() == before + 3  # prices, exchange rates, grid factors
    clock.advance(7200.0)
    assert prices.book(DEFAULT_PROJECT) is not first
