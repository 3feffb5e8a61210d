"""What is remembered of answers keeps neither regressors nor prices in memory."""

import gc
import weakref
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import ProjectId, Slug
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.regressors import publish_regressor

pytestmark = pytest.mark.lengthy

NAMES = ("first", "second", "third")
MORE_PROJECTS = 256
"""So many as a process keeps prices of."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"regressor_cache_size": 1})


@pytest.fixture
def published(services: Services) -> Services:
    for name in NAMES:
        publish_regressor(services, name)
    return services


def ask(client: TestClient, name: str, **changes: Any) -> int:
    question = {
        "workload": name,
        "configuration": {"gpu_type": "T4", "workers": 4},
        "work": {"dataset_size": 1000},
        "parameters": {"precision": "fp16"},
        **changes,
    }
    return client.post("/v1/forecasts", json=question).status_code


def served(services: Services, name: str) -> "weakref.ref[object]":
    now = services.context.now()
    found = services.regressor_cache.in_memory(DEFAULT_PROJECT, Slug(name), None, now)
    assert found is not None
    return weakref.ref(found.portfolio)


def test_regressor_that_left_the_cache_leaves_memory(
    client: TestClient, published: Services
) -> None:
    portfolios = []
    for name in NAMES:
        codes = [ask(client, name) for _ in range(3)]
        assert codes == [200] * 3
        portfolios.append(served(published, name))

    gc.collect()

    assert len(published.forecasts.memo) == len(NAMES)
    assert [portfolio() is not None for portfolio in portfolios] == [False, False, True]


def test_refusal_that_is_remembered_holds_no_regressor(
    client: TestClient, published: Services
) -> None:
    ask(client, "first")
    refused = [ask(client, "first", configuration={"gpu_type": "X9000"}) for _ in range(3)]
    portfolio = served(published, "first")

    ask(client, "second")
    gc.collect()

    assert refused == [422] * 3
    assert portfolio() is None


def test_prices_that_hold_no_more_leave_memory(client: TestClient, published: Services) -> None:
    for _ in range(3):
        ask(client, "first")
    book = weakref.ref(published.prices.book(DEFAULT_PROJECT))

    published.prices.forget(DEFAULT_PROJECT)
    ask(client, "second")
    gc.collect()

    assert book() is None


def test_prices_of_a_project_that_asks_no_more_leave_memory(
    client: TestClient, published: Services
) -> None:
    ask(client, "first")
    book = weakref.ref(published.prices.book(DEFAULT_PROJECT))

    for number in range(MORE_PROJECTS):
        published.prices.book(ProjectId(f"other-{number}"))
    codes = [ask(client, "first"), ask(client, "second")]
    gc.collect()

    assert codes == [200] * 2
    assert book() is None


@pytest.mark.parametrize("size", [1, 2, 5])
def test_setting_bounds_all_answers_together(
    database: Database, settings: Settings, size: int
) -> None:
    bounded = settings.model_copy(update={"answer_cache_size": size})
    services = Services(ServiceContext(database, bounded))
    application = build_app(bounded, services)
    publish_regressor(services, "first")

    with TestClient(application) as client:
        for workers in range(1, 9):
            codes = [
                ask(client, "first", configuration={"gpu_type": "T4", "workers": workers})
                for _ in range(2)
            ]
            assert codes == [200] * 2
        kept = len(services.forecasts.memo) + len(application.state.answers)

    assert kept == size
