"""What a CI report reads, and that it needs no second connection while it holds one."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.ci import CiReport, CiReportRequest
from app.domain.identifiers import Slug
from app.services.judging import past
from app.services.wiring import Services
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.queries import recorded_queries
from tests.support.regressors import fit, law_seconds, publish_regressor

_SLUG = Slug("fitted")


def _report(services: Services, count: int, branch: str | None = None) -> CiReport:
    run = {
        "duration_seconds": law_seconds(4, 2000.0),
        "configuration": {"gpu_type": "T4", "workers": 4},
        "work": {"dataset_size": 2000},
        "parameters": {"precision": "fp16"},
    }
    reports: list[CiReport] = []

    def render(report: CiReport) -> dict[str, object]:
        reports.append(report)
        return {"runs": []}

    request = CiReportRequest([run] * count, _SLUG, branch=branch, base_branch="main")
    services.ci.report(DEFAULT_PROJECT, request, render)
    return reports[0]


@pytest.fixture
def with_one_connection(services: Services) -> Iterator[Services]:
    """A process that has just started, with one connection for everything."""
    context = services.context
    database = Database(context.settings.url, pool_size=1)
    process = Services(replace(context, database=database))
    yield process
    process.close()
    database.close()


def test_report_after_which_the_watch_begins_with_another_version(
    services: Services,
    with_one_connection: Services,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(past, "_MAX_RUNS", 4)
    publish_regressor(services, _SLUG)
    for _ in range(2):
        clock.advance(60.0)
        _report(services, 3)
        clock.advance(60.0)
        fit(services, _SLUG)
    clock.advance(60.0)

    # Its runs displace those that came before the second of three versions.
    report = _report(with_one_connection, 1)

    assert len(report.runs) == 1


@pytest.mark.parametrize(("branch", "n_loaded"), [("main", 2), ("wider", 1)])
def test_only_reports_of_the_base_branch_load_the_version_that_watches_durations(
    services: Services,
    with_one_connection: Services,
    clock: FakeClock,
    branch: str,
    n_loaded: int,
) -> None:
    publish_regressor(services, _SLUG)
    clock.advance(60.0)
    _report(services, 3)
    clock.advance(60.0)
    fit(services, _SLUG)
    clock.advance(60.0)

    with recorded_queries(with_one_connection.context.database) as statements:
        _report(with_one_connection, 1, branch)

    assert sum(".artifact" in statement for statement in statements) == n_loaded
