"""Lists of workloads read the workloads that they show, and no others."""

from collections.abc import Sequence
from datetime import UTC, datetime

from app.domain.access import DEFAULT_PROJECT, Project
from app.domain.identifiers import ProjectId, Slug
from app.storage.database import Database

_NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def test_page_searches_its_project_s_newest_workloads(
    database: Database, plans: Sequence[str]
) -> None:
    with database.reading() as stores:
        stores.workloads.page(DEFAULT_PROJECT, limit=10)

    assert "SEARCH workload USING INDEX ix_workload_project_id_id (project_id=?)" in plans
    assert not [plan for plan in plans if plan.startswith(("SCAN workload", "SCAN publication"))]


def test_pages_show_each_workload_of_a_project_once_the_newest_first(database: Database) -> None:
    other = ProjectId("other")
    with database.transaction() as stores:
        stores.access.add_project(Project(other, "Other"), _NOW)
        for name in ("a", "b", "c", "d", "e"):
            stores.workloads.claim(DEFAULT_PROJECT, [Slug(name)], _NOW)
            stores.workloads.claim(other, [Slug(f"other-{name}")], _NOW)

    pages, before = list[list[str]](), None
    for _ in range(3):
        with database.reading() as stores:
            page = stores.workloads.page(DEFAULT_PROJECT, limit=2, before=before)
        pages.append([workload.slug for workload in page.items])
        before = None if page.next_key is None else int(page.next_key)

    assert (pages, before) == ([["e", "d"], ["c", "b"], ["a"]], None)
