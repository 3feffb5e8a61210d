"""Which other workloads' summaries are read where there are more than a prior needs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import ProjectId, WorkloadId
from app.storage.count_tables import RunCountRow
from app.storage.database import Database
from app.storage.summaries import FEW_RUNS, MANY_RUNS
from app.storage.tables import (
    ProjectRow,
    PublicationRow,
    RegressorRow,
    WorkloadParameterRow,
    WorkloadRow,
)
from models.pooling.summaries import MAX_SUMMARISED

_NOW = datetime(2026, 5, 4, tzinfo=UTC)


def _add_workload(
    database: Database,
    slug: str,
    *,
    parameters: Sequence[str] = (),
    runs: Mapping[str, int] | None = None,
    published: timedelta = timedelta(0),
    project_id: ProjectId = DEFAULT_PROJECT,
) -> WorkloadId:
    """Store a workload whose published version is 2, with a summary that names it."""
    with Session(database.engine) as session, session.begin():
        row = WorkloadRow(project_id=project_id, slug=slug, created_at=_NOW, updated_at=_NOW)
        session.add(row)
        session.flush()
        if runs is not None:
            session.add(RunCountRow(workload_id=row.id, newest_run_id=None, by_status=runs))
        for name in parameters:
            session.add(WorkloadParameterRow(workload_id=row.id, name=name, type="number"))
        for version in (1, 2):
            session.add(
                RegressorRow(
                    workload_id=row.id,
                    version=version,
                    fit_id="fit_1",
                    created_at=_NOW,
                    artifact=b"",
                    artifact_sha256="",
                    artifact_bytes=0,
                    report={},
                    summary={"of": f"{slug} {version}"},
                )
            )
        session.flush()
        published_at = _NOW + published
        session.add(PublicationRow(workload_id=row.id, version=2, published_at=published_at))
        return WorkloadId(row.id)


def _names(database: Database, workload_id: WorkloadId, limit: int) -> list[str]:
    with database.reading() as stores:
        return [slug for slug, _ in stores.summaries.of_others(workload_id, limit=limit)]


def test_all_others_of_the_project_contribute_where_the_limit_allows(database: Database) -> None:
    with Session(database.engine) as session, session.begin():
        session.add(ProjectRow(id="prj_2", name="theirs", created_at=_NOW))
    mine = _add_workload(database, "mine")
    _add_workload(database, "theirs", project_id=ProjectId("prj_2"))
    _add_workload(database, "b")
    _add_workload(database, "a", runs={"failed": 4})

    with database.reading() as stores:
        summaries = stores.summaries.of_others(mine, limit=2)

    assert summaries == [("a", {"of": "a 2"}), ("b", {"of": "b 2"})]


def test_versions_without_a_summary_take_no_place(database: Database) -> None:
    mine = _add_workload(database, "mine")
    _add_workload(database, "unsummarised", runs={"succeeded": 50})
    _add_workload(database, "other")
    with Session(database.engine) as session, session.begin():
        session.execute(
            sa.update(RegressorRow)
            .where(RegressorRow.summary["of"].as_string() == "unsummarised 2")
            .values(summary=None)
        )

    assert _names(database, mine, 1) == ["other"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(
            {"runs": {"succeeded": FEW_RUNS}},
            {"runs": {"succeeded": FEW_RUNS - 1, "failed": 90}, "parameters": ("depth", "width")},
            id="enough runs before shared parameters",
        ),
        pytest.param(
            {"runs": {"succeeded": 20}, "parameters": ("depth", "width")},
            {"runs": {"succeeded": 99}, "parameters": ("depth", "colour", "heads")},
            id="shared parameters before more runs",
        ),
        pytest.param(
            {"runs": {"succeeded": 21}},
            {"runs": {"succeeded": 20}, "published": timedelta(days=9)},
            id="more runs before a later publication",
        ),
        pytest.param(
            {"runs": {"succeeded": MANY_RUNS}, "published": timedelta(seconds=1)},
            {"runs": {"succeeded": MANY_RUNS + 9}},
            id="the later publication of many runs",
        ),
        pytest.param(
            {"runs": {"succeeded": 1}}, {"runs": None}, id="counted runs before unknown ones"
        ),
    ],
)
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids=["first", "last"])
def test_most_telling_workloads_contribute_where_there_are_too_many(
    database: Database,
    better: dict[str, object],
    worse: dict[str, object],
    names: tuple[str, str],
) -> None:
    mine = _add_workload(database, "mine", parameters=("depth", "width"), runs={"succeeded": 30})
    stored = dict(zip(names, (better, worse), strict=True))
    for slug in sorted(stored):
        _add_workload(database, slug, **stored[slug])  # type: ignore[arg-type]

    assert _names(database, mine, 1) == [names[0]]
    assert _names(database, mine, 2) == ["a", "b"]


def test_many_runs_are_as_many_as_a_summary_regards() -> None:
    assert MANY_RUNS == MAX_SUMMARISED
