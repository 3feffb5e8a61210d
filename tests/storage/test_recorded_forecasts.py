"""The ledger finds forecasts by their names and by what they were asked for."""

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from app.domain.availability_errors import StorageUnavailableError
from app.domain.forecasts import LedgerQuestion, LedgerRecord
from app.domain.identifiers import ForecastId, WorkloadId, new_identifier, new_identifiers
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage import forecasts
from app.storage.database import PAGE_BYTES, Database
from app.storage.migration import migrate
from app.storage.tables import ForecastRow
from tests.support.regressors import store_runs

_ANSWER = orjson.dumps(
    {
        "configuration": {"gpu_type": "T4", "instance_type": None, "nodes": 1, "workers": 1},
        "work": {"dataset_size": None, "batch_size": None, "epochs": None},
        "parameters": {},
    }
)


@pytest.fixture
def context(services: Services) -> ServiceContext:
    return services.context


def digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def record(context: ServiceContext, workload_id: WorkloadId, *scenarios: str) -> list[ForecastId]:
    keys = [ForecastId(key) for key in new_identifiers("fc", len(scenarios))]
    questions = [LedgerQuestion(workload_id, 1, b"{}", digest(name)) for name in scenarios]
    with context.database.transaction() as stores:
        stores.forecasts.add_many(
            [
                LedgerRecord(question, key, context.now() + timedelta(seconds=second), _ANSWER)
                for second, (question, key) in enumerate(zip(questions, keys, strict=True))
            ]
        )
    return keys


def record_at(
    context: ServiceContext, workload_id: WorkloadId, scenario: str, instant: datetime
) -> ForecastId:
    key = ForecastId(new_identifier("fc", now=instant))
    record = LedgerRecord(
        LedgerQuestion(workload_id, 1, b"{}", digest(scenario)), key, instant, _ANSWER
    )
    with context.database.transaction() as stores:
        stores.forecasts.add_many([record])
    return key


def find(
    context: ServiceContext,
    workload_id: WorkloadId,
    names: Sequence[str],
    scenarios: list[str],
    since: datetime | None = None,
) -> list[tuple[str, str | None]]:
    digests, since = list(map(digest, scenarios)), since or context.now()
    with context.database.reading() as stores:
        recorded = stores.forecasts.recorded(workload_id, names, digests, since)
    return [(each.forecast_id, each.scenario_sha256) for each in recorded]


def test_damaged_file_is_unavailable_and_not_the_record_s_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sqlite_url = f"sqlite:///{tmp_path}/damaged.db"
    with closing(Database(sqlite_url)) as database:
        migrate(database)
        workload_id = store_runs(ServiceContext(database, Settings(database_url=sqlite_url)), "w")
        with database.engine.connect() as connection:
            root = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'forecast' AND rootpage > 0"
            pages = connection.exec_driver_sql(root).scalars().all()
    with (tmp_path / "damaged.db").open("r+b") as opened:
        for page in pages:
            opened.seek((page - 1) * PAGE_BYTES)
            opened.write(b"\xff" * PAGE_BYTES)

    with closing(Database(sqlite_url)) as database:
        context = ServiceContext(database, Settings(database_url=sqlite_url))
        with pytest.raises(StorageUnavailableError):
            record(context, workload_id, "a")

    assert "database cannot be used" in caplog.messages


def test_names_and_scenarios_are_found_once_and_in_order(context: ServiceContext) -> None:
    workload_id = store_runs(context, "w")
    a, b, c, again = record(context, workload_id, "a", "b", "c", "a")

    found = find(context, workload_id, [a, b], ["a"])

    assert found == [(a, digest("a")), (b, None), (again, digest("a"))]
    assert find(context, workload_id, [], ["c"]) == [(c, digest("c"))]
    assert find(context, workload_id, ["fc_none"], ["none"]) == []


def test_other_workloads_keep_theirs(context: ServiceContext) -> None:
    mine, other = store_runs(context, "w"), store_runs(context, "other")
    [theirs] = record(context, other, "a")

    assert find(context, mine, [theirs], ["a"]) == []


def test_what_earlier_releases_wrote_is_found(context: ServiceContext) -> None:
    workload_id = store_runs(context, "w")
    early, late = record(context, workload_id, "a", "a")
    with context.database.engine.begin() as connection:
        whole = sa.update(ForecastRow).where(ForecastRow.id == early)
        connection.execute(whole.values(scenario_sha256=digest("a")))

    found = find(context, workload_id, [], ["a"])

    assert found == [(early, digest("a")), (late, digest("a"))]


def test_scenarios_are_looked_for_among_the_newest_and_names_everywhere(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "MAX_SEARCHED", 2)
    workload_id = store_runs(context, "w")
    early, _, late = record(context, workload_id, "a", "b", "a")

    assert find(context, workload_id, [], ["a"]) == [(late, digest("a"))]
    assert find(context, workload_id, [early], ["a"]) == [(early, digest("a")), (late, digest("a"))]


def test_scenarios_are_looked_for_since_an_instant_and_names_at_any_time(
    context: ServiceContext,
) -> None:
    workload_id, now = store_runs(context, "w"), context.now()
    hours = {hour: now - timedelta(hours=hour) for hour in range(4)}
    old = [record_at(context, workload_id, "a", hours[hour]) for hour in (3, 2)]
    new = [record_at(context, workload_id, "a", hours[hour]) for hour in (1, 0)]

    assert [key for key, _ in find(context, workload_id, [], ["a"], hours[1])] == new
    assert [key for key, _ in find(context, workload_id, old[:1], ["a"], hours[1])] == [
        old[0],
        *new,
    ]


def test_search_for_scenarios_reads_one_index(context: ServiceContext) -> None:
    if not context.database.is_sqlite:
        pytest.skip("on PostgreSQL the plan follows the size of the table")
    workload_id = store_runs(context, "w")
    record(context, workload_id, "a")
    asked: list[tuple[str, Any]] = []
    sa.event.listen(
        context.database.engine,
        "before_cursor_execute",
        lambda _, __, statement, parameters, *___: asked.append((statement, parameters)),
    )

    find(context, workload_id, [], ["a"])

    [(statement, parameters)] = [each for each in asked if "scenario_sha256" in each[0]]
    with context.database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    details = [row[3] for row in plan]
    index = "COVERING INDEX ix_forecast_workload_id_id_scenario_sha256 (workload_id=? AND id>?)"
    assert f"SEARCH forecast USING {index}" in details
    assert not any(detail.startswith("SCAN forecast") for detail in details)
