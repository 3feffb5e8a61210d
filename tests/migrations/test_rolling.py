"""Migrations run beside a service of the version before: they queue nobody and break nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic.config import Config

from app.cli.failures import RefusedError
from app.cli.schema import migrate_schema
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import (
    LOCK_TIMEOUT_S,
    MigrationBlockedError,
    current_revision,
    head_revision,
    migrate,
    missing_parts,
    require_head,
)
from tests.support.locks import has_to_wait
from tests.support.regressors import publish_regressor

_SHORT_S = 0.2
# Until here nobody ran the service; from here on the version before serves during a migration.
_FIRST_ROLLING = 3


@pytest.fixture
def postgresql(database: Database) -> Database:
    if database.is_sqlite:
        pytest.skip("SQLite's lock is the whole file's; one machine stops for a migration")
    return database


def test_migration_that_waits_for_a_lock_gives_up_cleanly_and_can_be_retried(
    postgresql: Database,
) -> None:
    migrate(postgresql, "0008")
    with postgresql.engine.connect() as reader:
        reader.execute(sa.text("SELECT 1 FROM price"))  # its transaction stays open

        with pytest.raises(MigrationBlockedError, match=r"waited 0\.2 s for a lock"):
            migrate(postgresql, lock_timeout_s=_SHORT_S)

        assert current_revision(postgresql) == "0008"
        tables = sa.inspect(postgresql.engine).get_table_names()
        assert "exchange_rate" not in tables

    migrate(postgresql, lock_timeout_s=_SHORT_S)
    require_head(postgresql)


def test_migration_that_waits_holds_no_lock_of_the_steps_before(postgresql: Database) -> None:
    migrate(postgresql, "0008")
    with postgresql.engine.connect() as reader:
        reader.execute(sa.text("SELECT 1 FROM fit"))  # what 0011 alters, after 0009 and 0010

        with pytest.raises(MigrationBlockedError):
            migrate(postgresql, lock_timeout_s=_SHORT_S)

        assert current_revision(postgresql) == "0010"

    assert migrate(postgresql, lock_timeout_s=_SHORT_S) == ("0010", head_revision())


_INSERT_FORECAST = sa.text(
    "INSERT INTO forecast (id, workload_id, regressor_version, created_at, request, answer)"
    " SELECT :id, workload_id, version, now(), '{}', '{}' FROM regressor"
)


def test_forecasts_are_recorded_while_their_index_is_built(
    postgresql: Database, services: Services
) -> None:
    publish_regressor(services, "resnet")
    migrate(postgresql, "0017")
    with postgresql.engine.connect() as early, ThreadPoolExecutor(1) as pool:
        early.execute(_INSERT_FORECAST, {"id": "fc_early"})  # its transaction stays open
        migrating = pool.submit(migrate, postgresql)
        assert has_to_wait(postgresql, migrating)
        with postgresql.engine.begin() as late:
            late.exec_driver_sql("SET LOCAL lock_timeout = '5s'")
            late.execute(_INSERT_FORECAST, {"id": "fc_late"})
        early.commit()

        assert migrating.result(30) == ("0017", head_revision())

    with postgresql.engine.connect() as reader:
        assert reader.scalar(sa.text("SELECT count(*) FROM forecast")) == 2


def test_migration_that_ends_a_deadlock_can_be_retried(
    postgresql: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(postgresql, "0008")

    def end_as_in_a_deadlock(config: Config, *_: object) -> None:
        statement = "DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40P01'; END $$"
        config.attributes["connection"].exec_driver_sql(statement)

    with monkeypatch.context() as patch:
        patch.setattr("app.storage.migration._run", end_as_in_a_deadlock)
        with pytest.raises(MigrationBlockedError, match="waited for each other"):
            migrate(postgresql)

    migrate(postgresql)
    require_head(postgresql)


def test_lock_timeout_ends_with_the_migration(postgresql: Database) -> None:
    migrate(postgresql, "0008")
    migrate(postgresql)

    with postgresql.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar_one() == "0"


@pytest.mark.slow
def test_operator_is_told_that_a_lock_is_held(postgresql: Database, settings: Settings) -> None:
    migrate(postgresql, "0008")
    with postgresql.engine.connect() as reader:
        reader.execute(sa.text("SELECT 1 FROM price"))

        with pytest.raises(RefusedError, match=f"waited {LOCK_TIMEOUT_S:g} s") as refused:
            migrate_schema(settings)

    assert "Steps before that are done" in str(refused.value)
    assert refused.value.remedy.startswith("Try again")
    assert "runbook" in refused.value.remedy


def _break_off(database: Database, index: str) -> None:
    """Leave an index as `CREATE INDEX CONCURRENTLY` does when it does not come to its end."""
    statement = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = CAST(:index AS regclass)"
    with database.engine.begin() as connection:
        connection.execute(sa.text(statement), {"index": index})


def test_index_whose_building_was_broken_off_is_built_anew(postgresql: Database) -> None:
    index = "ix_forecast_workload_id_id_scenario_sha256"
    migrate(postgresql, "0017")
    with postgresql.engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE INDEX {index} ON forecast (workload_id, id, scenario_sha256)"
        )
    _break_off(postgresql, index)

    migrate(postgresql)
    missing = missing_parts(postgresql)
    _break_off(postgresql, index)

    assert missing == []
    assert missing_parts(postgresql) == [f"index {index} (it is invalid: REINDEX it)"]


def _columns(database: Database) -> dict[tuple[str, str], sa.engine.interfaces.ReflectedColumn]:
    inspector = sa.inspect(database.engine)
    return {
        (table, column["name"]): column
        for table in inspector.get_table_names()
        for column in inspector.get_columns(table)
    }


def test_each_step_leaves_the_version_before_able_to_read_and_write(database: Database) -> None:
    after = _columns(database)
    for step in range(int(head_revision()) - 1, _FIRST_ROLLING - 1, -1):
        migrate(database, f"{step:04d}")
        before = _columns(database)
        tables = {table for table, _ in before}

        lost = sorted(before.keys() - after.keys())
        demanded = sorted(
            key
            for key in after.keys() - before.keys()
            if key[0] in tables and not after[key]["nullable"] and after[key]["default"] is None
        )
        altered = sorted(
            key
            for key in before.keys() & after.keys()
            if str(before[key]["type"]) != str(after[key]["type"])
            or (before[key]["nullable"] and not after[key]["nullable"])
        )

        assert (lost, demanded, altered) == ([], [], []), f"after {step:04d}"
        after = before
