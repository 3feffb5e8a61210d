"""The diagnosis tells of a schema whose revision is not recorded in one row."""

import pytest

from app.domain.health import Check
from app.services.wiring import Services
from app.storage.database import Database
from app.storage.migration import head_revision


def _schema_check(services: Services) -> Check:
    return {check.name: check for check in services.diagnosis.diagnose()}["schema"]


def _execute(database: Database, *statements: str) -> None:
    with database.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.mark.parametrize("known", ["0001", "9998"])
def test_two_recorded_revisions_are_named(
    services: Services, database: Database, known: str
) -> None:
    _execute(database, f"INSERT INTO alembic_version VALUES ('{known}')")

    check = _schema_check(services)

    assert not check.is_ok
    assert check.detail == (
        f"alembic_version has 2 rows: {', '.join(sorted([known, head_revision()]))}"
    )
    assert "leave one row in alembic_version" in check.remedy


def test_a_table_without_a_recorded_revision_is_named(
    services: Services, database: Database
) -> None:
    _execute(database, "DELETE FROM alembic_version")

    check = _schema_check(services)

    assert not check.is_ok
    assert check.detail == "alembic_version has 0 rows"
    assert head_revision() in check.remedy


def test_one_recorded_revision_is_as_it_should_be(services: Services) -> None:
    check = _schema_check(services)

    assert check.is_ok
    assert check.detail == f"revision {head_revision()}"
