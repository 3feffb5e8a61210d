"""A restore makes good what a schema lacks, as `trainfare doctor` advises."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.services.backups import BackupService
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.storage.database import Database
from app.storage.migration import missing_parts
from tests.support.regressors import store_runs

pytestmark = pytest.mark.lengthy


@pytest.fixture
def beside(services: Services) -> Iterator[Database]:
    """The same database by connections of its own, as a command has them."""
    database = Database(services.context.settings.url)
    yield database
    database.close()


@pytest.mark.parametrize(
    "loss",
    [
        "DROP TABLE price",
        "DROP TABLE fitter",
        "DROP TABLE run_count",
        "DROP INDEX ix_audit_project_id_id",
        "ALTER TABLE ci_report DROP COLUMN document",
    ],
)
def test_restore_brings_back_what_was_dropped(
    services: Services, beside: Database, tmp_path: Path, loss: str
) -> None:
    store_runs(services.context, "resnet")
    context = ServiceContext(beside, services.context.settings, services.context.now)
    backups, path = BackupService(context), tmp_path / "all.tfb"
    summary = backups.create(path)
    with beside.engine.begin() as connection:
        connection.exec_driver_sql(loss)
    assert missing_parts(beside)

    backups.restore(path, overwrite=True)

    assert not missing_parts(beside)
    assert backups.create(tmp_path / "again.tfb").rows == summary.rows


def test_restore_keeps_the_tables_of_a_schema_that_lacks_nothing(
    services: Services, beside: Database, tmp_path: Path
) -> None:
    store_runs(services.context, "resnet")
    context = ServiceContext(beside, services.context.settings, services.context.now)
    backups, path = BackupService(context), tmp_path / "all.tfb"
    backups.create(path)
    with beside.engine.begin() as connection:
        connection.exec_driver_sql("CREATE INDEX ix_own ON run (duration_seconds)")

    backups.restore(path, overwrite=True)

    indexes = {index["name"] for index in sa.inspect(beside.engine).get_indexes("run")}
    assert "ix_own" in indexes
