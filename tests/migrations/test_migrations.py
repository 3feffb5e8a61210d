"""The migrations lead from empty to the tables of the code, down and up again."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

import migrations
from app.cli.schema import migrate_schema
from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import (
    ForeignTablesError,
    SchemaAheadError,
    SchemaMismatchError,
)
from app.domain.identifiers import Slug
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import (
    current_revision,
    head_revision,
    known_revisions,
    migrate,
    require_head,
    require_migrated,
)
from app.storage.tables import Base
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor


def test_head_equals_the_tables_of_the_code(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        difference = compare_metadata(context, Base.metadata)

    assert difference == []
    assert current_revision(database) == head_revision()


def test_schema_is_checked_while_an_upload_writes(database: Database, clock: FakeClock) -> None:
    impatient = database.with_own_connection(0.1)

    with database.transaction() as stores:
        stores.workloads.claim(DEFAULT_PROJECT, [Slug("w")], clock())
        require_migrated(impatient)
    impatient.close()


def test_tables_of_another_program_stay_as_they_are(database: Database) -> None:
    migrate(database, "base")
    with database.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE workload (name TEXT)")
        connection.exec_driver_sql("DROP TABLE alembic_version")

    with pytest.raises(ForeignTablesError, match="has workload already"):
        migrate(database)

    assert sa.inspect(database.engine).get_table_names() == ["workload"]


def test_each_step_goes_down_and_up_again(database: Database) -> None:
    for step in range(int(head_revision()) - 1, 0, -1):
        migrate(database, f"{step:04d}")
        assert current_revision(database) == f"{step:04d}"
    migrate(database, "base")
    tables = set(sa.inspect(database.engine).get_table_names())
    migrate(database)

    assert tables <= {"alembic_version"}
    require_head(database)


_LASTING = ("project", "workload", "run", "fit", "regressor", "publication", "audit")
"""Tables that all schemas from 0006 on have."""


def _rows(database: Database) -> dict[str, int]:
    with database.engine.connect() as connection:
        return {
            name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one()
            for name in _LASTING
        }


def test_way_down_and_up_again_keeps_what_all_schemas_on_it_hold(
    database: Database, services: Services
) -> None:
    publish_regressor(services, "resnet")
    before = _rows(database)

    migrate(database, "0006")
    below = _rows(database)
    migrate(database)

    assert min(before.values()) > 0
    assert below == before
    assert _rows(database) == before


def test_references_are_kept_again_after_a_migration(database: Database) -> None:
    migrate(database, "0016")
    migrate(database)

    with (
        pytest.raises(sa.exc.IntegrityError),
        database.engine.begin() as connection,
    ):
        connection.exec_driver_sql(
            "INSERT INTO rate_window (project_id, minute, taken) VALUES ('none', 1, 1)"
        )


def test_migrating_twice_changes_nothing(database: Database) -> None:
    migrate(database)

    require_head(database)


def test_those_that_migrate_at_once_each_tell_what_they_found(
    database: Database, settings: Settings
) -> None:
    migrate(database, "base")
    count = 3
    barrier = Barrier(count)

    def migrate_too(_number: int) -> str:
        barrier.wait()
        return migrate_schema(settings)

    with ThreadPoolExecutor(count) as pool:
        said = sorted(pool.map(migrate_too, range(count)))

    head = head_revision()
    is_there, went = f"The schema is at {head} already.", f"The schema went from none to {head}."
    assert said == [is_there, is_there, went]


def test_schema_behind_the_code_is_refused(database: Database) -> None:
    migrate(database, "0001")

    with pytest.raises(SchemaMismatchError, match="schema 0001, this release needs"):
        require_head(database)


def test_schema_ahead_of_the_code_is_refused_and_left_alone(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(SchemaAheadError, match="9999 of a later release"):
        migrate(database)


def test_migrations_carry_existing_rows_along(database: Database) -> None:
    with database.engine.connect() as connection:
        names = connection.execute(sa.text("SELECT name FROM project")).scalars().all()

    assert names == ["default"]


def test_revisions_told_by_files_are_those_of_the_migrations() -> None:
    script = ScriptDirectory(str(Path(migrations.__file__).parent))

    assert known_revisions() == {step.revision for step in script.walk_revisions()}
    assert script.get_heads() == [head_revision()]
