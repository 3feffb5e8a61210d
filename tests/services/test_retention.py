"""Old forecasts are removed portion by portion; what a run names, and what is new, stays."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.access import DEFAULT_PROJECT, Project
from app.domain.errors import NotFoundError
from app.domain.identifiers import ForecastId, ProjectId
from app.services.context import ServiceContext
from app.services.retention import RetentionService
from app.services.wiring import Services
from app.storage.tables import ForecastRow, RunRow
from tests.support.ledger import record_forecasts
from tests.support.regressors import store_runs

_MONTH = timedelta(days=30)


@pytest.fixture
def context(services: Services) -> ServiceContext:
    return services.context


def kept_forecasts(context: ServiceContext) -> set[str]:
    with Session(context.database.engine) as session:
        return set(session.scalars(sa.select(ForecastRow.id)))


def name_by_a_run(context: ServiceContext, forecast_id: ForecastId) -> None:
    with Session(context.database.engine) as session, session.begin():
        one = session.scalars(sa.select(RunRow).limit(1)).one()
        one.forecast_id = forecast_id


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_old_ones_go_but_those_that_runs_name(context: ServiceContext, at_once: int) -> None:
    now, workload_id = context.now(), store_runs(context, "w")
    old = record_forecasts(context, workload_id, *[now - 2 * _MONTH] * 5)
    new = record_forecasts(context, workload_id, now - _MONTH + timedelta(seconds=1), now)
    name_by_a_run(context, old[2])
    service = RetentionService(context, forecasts_at_once=at_once)

    assert service.count_forecasts(_MONTH) == 4
    assert service.prune_forecasts(_MONTH) == 4
    assert kept_forecasts(context) == {old[2], *new}
    assert service.prune_forecasts(_MONTH) == 0


def test_other_projects_keep_theirs(context: ServiceContext) -> None:
    now, other = context.now(), ProjectId("prj_other")
    with context.database.transaction() as stores:
        stores.access.add_project(Project(other, "other"), now)
    mine = record_forecasts(context, store_runs(context, "w"), now - 2 * _MONTH)
    theirs = record_forecasts(
        context, store_runs(context, "w", project_id=other), *[now - 2 * _MONTH] * 2
    )
    service = RetentionService(context)

    assert service.count_forecasts(_MONTH, project="other") == 2
    assert service.prune_forecasts(_MONTH, project="other") == 2
    assert kept_forecasts(context) == set(mine)
    assert kept_forecasts(context).isdisjoint(theirs)
    with context.database.reading() as stores:
        assert [entry.action for entry in stores.access.list_audit(other)] == ["forecast.prune"]
        assert stores.access.list_audit(DEFAULT_PROJECT) == []


def test_portion_of_a_project_reads_no_ledger_whole(context: ServiceContext) -> None:
    if not context.database.is_sqlite:
        pytest.skip("PostgreSQL plans by how many rows there are")
    record_forecasts(context, store_runs(context, "w"), context.now() - 2 * _MONTH)
    removals: list[tuple[str, tuple[str, ...]]] = []

    def remember(*told: Any) -> None:
        statement, parameters = told[2:4]
        if statement.startswith("DELETE"):
            removals.append((statement, parameters))

    sa.event.listen(context.database.engine, "before_cursor_execute", remember)
    RetentionService(context).prune_forecasts(_MONTH, project="default")

    [(statement, parameters)] = removals
    with context.database.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        read = [step.detail for step in plan if " forecast " in step.detail]
    assert {step[step.index("(") :] for step in read} == {"(id>? AND id<?)", "(id=?)"}


@pytest.mark.parametrize("project", ["nobody", ""])
def test_unknown_project_removes_nothing(context: ServiceContext, project: str) -> None:
    old = record_forecasts(context, store_runs(context, "w"), context.now() - 2 * _MONTH)

    with pytest.raises(NotFoundError, match=f"'{project}'"):
        RetentionService(context).prune_forecasts(_MONTH, project=project)

    assert kept_forecasts(context) == set(old)
