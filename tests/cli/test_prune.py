"""`trainfare prune` removes old forecasts that no run names, and says how many."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.ci import StoredReport
from app.domain.idempotency import IdempotencyTicket
from app.domain.identifiers import CiReportId, WorkloadId, new_identifier
from app.services.context import ServiceContext
from app.services.retention import RetentionService
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.ledger import record_forecasts
from tests.support.regressors import fit, publish_regressor, store_runs
from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def database_set(terminal: Terminal, sqlite_url: str, tmp_path: Path) -> None:
    terminal.set(database_url=sqlite_url, data_dir=tmp_path)


@pytest.fixture
def recorded(terminal: Terminal, sqlite_url: str) -> WorkloadId:
    """Two forecasts of a hundred days ago and one of today; an answer kept two days ago."""
    database = Database(sqlite_url)
    context = ServiceContext(database, Settings(database_url=sqlite_url))
    workload_id = store_runs(context, "resnet")
    today = datetime.now(UTC)
    record_forecasts(context, workload_id, *[today - timedelta(days=100)] * 2, today)
    ticket = IdempotencyTicket(DEFAULT_PROJECT, "/v1/runs", "nightly")
    with database.transaction() as stores:
        stores.idempotency.begin(ticket, "digest", today - timedelta(days=2), 1.0)
        stores.idempotency.begin(replace(ticket, key="today"), "digest", today, 1.0)
    database.close()
    return workload_id


@pytest.mark.usefixtures("recorded")
def test_old_forecasts_are_counted_then_removed(terminal: Terminal) -> None:
    prune = ("prune", "--forecasts-older-than", "90d")

    assert terminal.type(*prune, "--dry-run").out == (
        "2 recorded forecasts to be removed; none was.\n1 lapsed answer to be removed; none was.\n"
    )
    assert terminal.type(*prune, "--json").document == {"removed": {"forecasts": 2, "answers": 1}}
    assert terminal.type(*prune).out == "0 recorded forecasts removed.\n0 lapsed answers removed.\n"
    assert "forecast.prune" in terminal.type("audit").out


def test_old_ci_reports_are_counted_then_removed(terminal: Terminal, sqlite_url: str) -> None:
    database, today = Database(sqlite_url), datetime.now(UTC)
    context = ServiceContext(database, Settings(database_url=sqlite_url))
    with database.transaction() as stores:
        for days in (400, 300, 0):
            at = today - timedelta(days=days)
            report_id = CiReportId(new_identifier("ci", now=at))
            stores.ci.add(DEFAULT_PROJECT, StoredReport(report_id, at, {"runs": []}))
    prune = ("prune", "--reports-older-than", "200d")

    assert terminal.type(*prune, "--dry-run", "--json").document == {
        "removable": {"reports": 2, "answers": 0}
    }
    service = RetentionService(context, reports_at_once=1)
    assert service.prune_reports(timedelta(days=350)) == 1
    database.close()
    assert terminal.type(*prune).out == "1 CI report removed.\n0 lapsed answers removed.\n"
    assert terminal.type(*prune, "--json").document == {"removed": {"reports": 0, "answers": 0}}
    assert "ci.prune" in terminal.type("audit").out


def test_age_must_be_told(terminal: Terminal) -> None:
    result = terminal.type("prune")

    assert result.exit_code == 2
    assert "--forecasts-older-than" in result.err
    assert "--regressors-older-than" in result.err
    assert "--reports-older-than" in result.err


@pytest.mark.usefixtures("recorded")
def test_age_in_minutes_or_months_is_refused(terminal: Terminal) -> None:
    result = terminal.type("prune", "--forecasts-older-than", "3m")

    assert result.exit_code == 2
    assert "Write a number and s, min, h, d or w" in result.err


@pytest.mark.usefixtures("recorded")
def test_both_kinds_are_told_each_for_itself(terminal: Terminal) -> None:
    prune = ("prune", "--forecasts-older-than", "90d", "--regressors-older-than", "180d")

    assert terminal.type(*prune, "--dry-run", "--json").document == {
        "removable": {"forecasts": 2, "regressors": 0, "answers": 1}
    }
    assert terminal.type(*prune).out == (
        "2 recorded forecasts removed.\n0 artefacts removed.\n1 lapsed answer removed.\n"
    )
    assert "regressor.prune" in terminal.type("audit").out


def test_artefacts_of_old_regressors_are_counted_then_removed(
    terminal: Terminal, sqlite_url: str
) -> None:
    clock, database = FakeClock(), Database(sqlite_url)
    clock.instant = datetime.now(UTC) - timedelta(days=100)
    services = Services(ServiceContext(database, Settings(database_url=sqlite_url), clock))
    publish_regressor(services)
    clock.advance(1.0)
    fit(services, "fitted")
    database.close()
    prune = ("prune", "--regressors-older-than", "90d")

    assert terminal.type(*prune, "--dry-run").out == (
        "1 artefact to be removed; none was.\n0 lapsed answers to be removed; none was.\n"
    )
    assert terminal.type(*prune, "--json").document == {"removed": {"regressors": 1, "answers": 0}}
    assert terminal.type(*prune).out == "0 artefacts removed.\n0 lapsed answers removed.\n"


def test_unknown_project_is_refused(terminal: Terminal) -> None:
    result = terminal.type("prune", "--forecasts-older-than", "90d", "--project", "nobody")

    assert result.exit_code == 1
    assert "nobody" in result.err


@pytest.mark.usefixtures("recorded")
def test_other_projects_keep_all_of_theirs(terminal: Terminal) -> None:
    terminal.type("keys", "create", "--name", "ci", "--scope", "read", "--project", "vision")

    result = terminal.type("prune", "--forecasts-older-than=90d", "--project=vision", "--json")

    assert result.document == {"removed": {"forecasts": 0, "answers": 0}}
