"""Questions about many workloads ask the database once, and keep few regressors in memory."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.configurations import Configuration, Scenario, Work
from app.domain.errors import UnknownWorkloadError
from app.domain.forecasts import Forecast, ForecastRequest
from app.domain.identifiers import Slug
from app.services import served_regressors
from app.services.scheduling.grounds import grounds_of
from app.services.wiring import Services
from app.settings import Settings
from app.storage.tables import Base, WorkloadRow
from models import FittedPortfolio, loads
from tests.support.clock import FakeClock
from tests.support.outage import make_available, make_unavailable
from tests.support.queries import recorded_queries
from tests.support.regressors import fit, publish_regressor

pytestmark = pytest.mark.lengthy

N_WORKLOADS, FEW_QUERIES = 200, 8
SCENARIO = Scenario(
    Configuration(gpu_type="T4", workers=2), Work(dataset_size=2000.0), {"precision": "fp16"}
)


@pytest.fixture
def requests(services: Services) -> list[ForecastRequest]:
    """Return a question about each of many workloads, all with the same regressor."""
    publish_regressor(services)
    names = [Slug(f"w{number}") for number in range(N_WORKLOADS)]
    with Session(services.context.database.engine) as session, session.begin():
        template = session.execute(sa.select(WorkloadRow)).scalar_one()
        now = services.context.now()
        copies = [
            WorkloadRow(project_id=template.project_id, slug=name, created_at=now, updated_at=now)
            for name in names
        ]
        session.add_all(copies)
        session.flush()
        for table in map(Base.metadata.tables.get, ("regressor", "publication")):
            assert table is not None
            row = session.execute(sa.select(table)).mappings().one()
            session.execute(sa.insert(table), [{**row, "workload_id": copy.id} for copy in copies])
    return [ForecastRequest(workload=name, scenario=SCENARIO) for name in names]


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the regressors that are in memory."""
    loaded: list[weakref.ref[FittedPortfolio]] = []

    def load(data: bytes) -> FittedPortfolio:
        portfolio = loads(data)
        loaded.append(weakref.ref(portfolio))
        return portfolio

    def count() -> int:
        gc.collect()
        return sum(portfolio() is not None for portfolio in loaded)

    monkeypatch.setattr(served_regressors, "loads", load)
    return count


class TestWithoutRoom:
    """Of a process that keeps a single regressor."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"regressor_cache_size": 1})

    def test_parts_of_answers_let_go_of_regressors(
        self, services: Services, requests: list[ForecastRequest], alive: Callable[[], int]
    ) -> None:
        counts = []
        for part in services.forecasts.ask_parts(DEFAULT_PROJECT, requests):
            assert all(answer.duration_seconds.median > 0 for answer in part.answers)  # type: ignore[union-attr]
            counts.append(alive())
            del part

        assert len(counts) > 2
        assert max(counts) < N_WORKLOADS / 2

    def test_forecasts_of_an_order_keep_no_regressors(
        self, services: Services, requests: list[ForecastRequest], alive: Callable[[], int]
    ) -> None:
        beliefs = services.beliefs.read(DEFAULT_PROJECT, requests)

        assert alive() <= 1
        fits, is_within = grounds_of(beliefs, ranged=True)
        assert len(beliefs.known) == len(fits) == N_WORKLOADS
        assert is_within.all()


class TestWithRoomForHalf:
    """Of a process that keeps the regressors of half of the workloads."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"regressor_cache_size": N_WORKLOADS // 2})

    @pytest.mark.parametrize("ask", ["forecast", "order"])
    def test_those_in_memory_are_asked_before_others_displace_them(
        self, services: Services, requests: list[ForecastRequest], clock: FakeClock, ask: str
    ) -> None:
        def answered() -> int:
            if ask == "forecast":
                return len(answers_of(services, requests))
            return len(services.beliefs.read(DEFAULT_PROJECT, requests).known)

        answered()
        clock.advance(1.5)
        loaded_before = services.regressor_cache.figures.misses

        assert answered() == N_WORKLOADS
        loaded = services.regressor_cache.figures.misses - loaded_before
        assert loaded == N_WORKLOADS - N_WORKLOADS // 2


def test_each_of_many_is_loaded_by_two_queries(
    services: Services, requests: list[ForecastRequest]
) -> None:
    with recorded_queries(services.context.database) as queries:
        answers = answers_of(services, requests)

    assert len(answers) == N_WORKLOADS
    assert len(queries) < 2 * N_WORKLOADS + FEW_QUERIES


def test_workload_removed_after_the_versions_were_read_is_unknown(
    services: Services, requests: list[ForecastRequest]
) -> None:
    removed = requests[7].workload
    prepared = services.regressor_cache.prepare(
        DEFAULT_PROJECT, [(request.workload, None) for request in requests]
    )
    services.workloads.delete(Principal(DEFAULT_PROJECT, frozenset(Scope)), removed)

    with pytest.raises(UnknownWorkloadError, match=removed):
        prepared.get(removed, None)
    assert prepared.get(requests[8].workload, None).version == 1


def answers_of(services: Services, requests: list[ForecastRequest]) -> list[Forecast]:
    answers = services.forecasts.forecast_many(DEFAULT_PROJECT, requests)
    return [answer for answer in answers if isinstance(answer, Forecast)]


def test_versions_of_regressors_in_memory_are_read_by_few_queries(
    services: Services, requests: list[ForecastRequest], clock: FakeClock
) -> None:
    before = answers_of(services, requests)
    clock.advance(1.5)

    with recorded_queries(services.context.database) as queries:
        after = answers_of(services, requests)

    assert len(queries) < FEW_QUERIES
    assert [answer.duration_seconds for answer in after] == [
        answer.duration_seconds for answer in before
    ]


def test_new_version_of_one_of_many_answers(
    services: Services, requests: list[ForecastRequest], clock: FakeClock
) -> None:
    asked = [*requests, ForecastRequest(workload=Slug("fitted"), scenario=SCENARIO)]
    first = answers_of(services, asked)
    fit(services, "fitted")
    clock.advance(1.5)

    second = answers_of(services, asked)

    assert {answer.regressor_version for answer in (*first, *second[:-1])} == {1}
    assert second[-1].regressor_version == 2


def test_new_currency_of_one_of_many_is_told(
    services: Services, requests: list[ForecastRequest], clock: FakeClock
) -> None:
    answers_of(services, requests)
    with Session(services.context.database.engine) as session, session.begin():
        session.execute(
            sa.update(WorkloadRow).where(WorkloadRow.slug == "w7").values(currency="EUR")
        )
    clock.advance(1.5)

    answers_of(services, requests)

    now = services.context.now()
    served = [
        services.regressor_cache.in_memory(DEFAULT_PROJECT, Slug(name), None, now)
        for name in ("w6", "w7")
    ]
    assert [each and each.currency for each in served] == ["USD", "EUR"]


def test_without_the_database_many_are_answered_from_memory(
    services: Services, requests: list[ForecastRequest], clock: FakeClock
) -> None:
    half = N_WORKLOADS // 2
    answers_of(services, requests[:half])
    clock.advance(1.5)
    make_unavailable(services.context.database)
    try:
        answers: list[Any] = services.forecasts.forecast_many(DEFAULT_PROJECT, requests)
    finally:
        make_available(services.context.database)

    from_memory, others = answers[:half], answers[half:]
    for answer in from_memory:
        assert "stale_regressor" in {warning.code for warning in answer.warnings}
    assert {type(answer).__name__ for answer in others} == {"StorageUnavailableError"}


def test_without_the_database_those_in_memory_are_stale_before_each_is_asked_for(
    services: Services, requests: list[ForecastRequest], clock: FakeClock
) -> None:
    asked = requests[:20]
    answers_of(services, asked)
    clock.advance(1.5)
    cache = services.regressor_cache
    make_unavailable(services.context.database)
    try:
        cache.prepare(DEFAULT_PROJECT, [(request.workload, None) for request in asked])
    finally:
        make_available(services.context.database)

    now = services.context.now()
    served = [cache.in_memory(DEFAULT_PROJECT, each.workload, None, now) for each in asked]
    assert [each and each.is_stale for each in served] == [True] * len(asked)


class TestWithoutPatience:
    """Of a process that takes each answer of the database for too late where it has another."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"database_patience_s": 0.0})

    def test_what_is_in_memory_answers_and_the_rest_is_waited_for(
        self, services: Services, requests: list[ForecastRequest], clock: FakeClock
    ) -> None:
        half = N_WORKLOADS // 2
        answers_of(services, requests[:half])
        clock.advance(1.5)
        unknown = [
            ForecastRequest(workload=Slug(f"unknown-{number}"), scenario=SCENARIO)
            for number in range(20)
        ]

        answers = services.forecasts.forecast_many(DEFAULT_PROJECT, [*requests, *unknown])

        assert all(isinstance(answer, Forecast) for answer in answers[:N_WORKLOADS])
        assert {type(answer).__name__ for answer in answers[N_WORKLOADS:]} == {
            "UnknownWorkloadError"
        }
