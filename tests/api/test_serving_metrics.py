"""Metrics tell what the caches do and how recorded forecasts came true."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, generate_latest

from app.api.metrics.queue import RealisedMetrics
from app.domain.accuracy import RealisedAccuracy
from app.services.realised import WINDOW
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.outage import make_unavailable
from tests.support.queries import recorded_queries
from tests.support.realised import QUESTION, realise_forecast
from tests.support.regressors import publish_regressor

LABELS = 'project="default",workload="fitted"'


def _value(client: TestClient, metric: str) -> float | None:
    text = client.get("/metrics").text
    lines = [line for line in text.splitlines() if line.startswith(f"{metric} ")]
    return float(lines[0].partition(" ")[2]) if lines else None


def test_metrics_count_what_each_cache_answered(client: TestClient, services: Services) -> None:
    publish_regressor(services)
    for _ in range(4):
        client.post("/v1/forecasts", json=QUESTION)

    # Once to load, once to remember the bytes: the memo answers then, the bytes from then on.
    assert _value(client, 'trainfare_cache_misses_total{cache="regressors"}') == 1.0
    assert _value(client, 'trainfare_cache_hits_total{cache="regressors"}') == 3.0
    assert _value(client, 'trainfare_cache_entries{cache="regressors"}') == 1.0
    assert _value(client, 'trainfare_cache_misses_total{cache="answers"}') == 1.0
    assert _value(client, 'trainfare_cache_hits_total{cache="answers"}') == 1.0
    assert _value(client, 'trainfare_cache_misses_total{cache="bodies"}') == 2.0
    assert _value(client, 'trainfare_cache_hits_total{cache="bodies"}') == 2.0
    assert _value(client, 'trainfare_cache_entries{cache="bodies"}') == 1.0


def test_metrics_name_no_workload_unless_asked(client: TestClient, services: Services) -> None:
    realise_forecast(client, services)

    assert "fitted" not in client.get("/metrics").text


class TestAsked:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"metrics_workloads": 1})

    def test_metrics_tell_error_and_coverage(self, client: TestClient, services: Services) -> None:
        realise_forecast(client, services)
        realise_forecast(client, services, ratio=4.0)

        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 2.0
        assert _value(client, f"trainfare_realised_mape{{{LABELS}}}") == pytest.approx(0.375)
        coverage = f'trainfare_realised_coverage{{confidence="0.9",{LABELS}}}'
        assert _value(client, coverage) == 0.5

    def test_coverage_tells_how_many_runs_are_behind_it(
        self, client: TestClient, services: Services
    ) -> None:
        realise_forecast(client, services)
        realise_forecast(client, services, ratio=4.0, confidence=0.5)
        realise_forecast(client, services, confidence=0.99)

        judged = f"trainfare_realised_judged_runs{{confidence=%s,{LABELS}}}"
        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 3.0
        assert _value(client, judged % '"0.9"') == 1.0
        assert _value(client, judged % '"0.5"') == 1.0
        assert _value(client, judged % '"0.99"') is None

    def test_figures_are_whole_while_another_scrape_replaces_them(
        self, client: TestClient, services: Services
    ) -> None:
        realise_forecast(client, services)
        registry = CollectorRegistry()
        metrics = RealisedMetrics(registry)
        metrics.show(services.realised.accuracy())

        def replaced_meanwhile() -> Iterator[RealisedAccuracy]:
            told.append(generate_latest(registry))
            yield from services.realised.accuracy()

        told: list[bytes] = []
        metrics.show(replaced_meanwhile())

        assert told == [generate_latest(registry)]

    def test_runs_of_something_else_than_was_asked_do_not_count(
        self, client: TestClient, services: Services
    ) -> None:
        realise_forecast(client, services, ratio=4.0)
        realise_forecast(client, services, configuration={"gpu_type": "T4", "workers": 2})
        realise_forecast(client, services, configuration={"workers": 4, "nodes": 2})

        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 2.0

    def test_links_to_forecasts_of_long_ago_are_not_read(
        self, services: Services, database: Database
    ) -> None:
        since = services.context.now() - WINDOW
        with database.reading() as stores, recorded_queries(database) as queries:
            stores.forecasts.realised(since, str.__eq__)

        assert "run.forecast_id >= " in queries[0]

    def test_metrics_name_the_project_as_people_do(
        self, client: TestClient, services: Services, database: Database
    ) -> None:
        realise_forecast(client, services)
        with database.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE project SET name = 'vision'")

        labels = LABELS.replace("default", "vision")
        assert _value(client, f"trainfare_realised_runs{{{labels}}}") == 1.0

    def test_forecasts_of_long_ago_are_told_no_more(
        self, client: TestClient, services: Services, clock: FakeClock
    ) -> None:
        realise_forecast(client, services)
        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 1.0
        clock.advance(WINDOW.total_seconds() + 1)

        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") is None

    def test_figures_stay_while_the_database_is_away(
        self, client: TestClient, services: Services, database: Database
    ) -> None:
        realise_forecast(client, services)
        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 1.0
        make_unavailable(database)

        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 1.0

    def test_figures_are_read_once_a_minute(
        self, client: TestClient, services: Services, clock: FakeClock
    ) -> None:
        realise_forecast(client, services)
        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 1.0
        realise_forecast(client, services, ratio=1.01)
        before = _value(client, f"trainfare_realised_runs{{{LABELS}}}")
        clock.advance(61)

        assert before == 1.0
        assert _value(client, f"trainfare_realised_runs{{{LABELS}}}") == 2.0


def test_replayed_answers_count_under_the_route_that_gave_them(client: TestClient) -> None:
    key = {"Idempotency-Key": "monday"}
    for policy in ("shortest_service_first", "shortest_service_first", "deadline_risk"):
        client.post("/v1/schedules:rank", json={"jobs": [], "policy": policy}, headers=key)

    text = client.get("/metrics").text

    assert 'method="POST",route="/v1/schedules:rank",status="200"} 2.0' in text
    assert 'method="POST",route="/v1/schedules:rank",status="422"} 1.0' in text
    assert 'method="POST",route="(none)"' not in text
