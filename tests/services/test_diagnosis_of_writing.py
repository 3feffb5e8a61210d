"""The diagnosis tells of a database that answers, but takes nothing that is written."""

from collections.abc import Iterator
from contextlib import closing

import orjson
import pytest

from app.domain.health import Check
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.regressors import publish_regressor


def _diagnosed(database: Database, settings: Settings) -> Check:
    services = Services(ServiceContext(database, settings, FakeClock()))
    try:
        checks = {check.name: check for check in services.diagnosis.diagnose()}
    finally:
        services.close()
    return checks["writing"]


def _rows(database: Database) -> dict[str, list[bytes]]:
    """Return all rows of each table as JSON."""
    with database.reading() as stores:
        return {
            table.name: [orjson.dumps(row) for row in stores.dumps.read(table)]
            for table in stores.dumps.tables()
        }


def test_diagnosis_changes_no_row(services: Services, database: Database) -> None:
    publish_regressor(services, "resnet")
    before = _rows(database)

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert checks["writing"].is_ok
    assert _rows(database) == before


def test_diagnosis_names_only_what_this_database_has(services: Services) -> None:
    named = {check.name for check in services.diagnosis.diagnose()}

    own = {"disk"} if services.context.database.is_sqlite else {"sessions", "order"}
    assert named & {"disk", "sessions", "order"} == own


@pytest.fixture
def limited_role(database: Database) -> Iterator[str]:
    """A role of PostgreSQL that may change all tables, but use no sequence."""
    if database.is_sqlite:
        pytest.skip("SQLite knows no users")
    name = f"limited_{database.engine.url.database}"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {name}")
        connection.exec_driver_sql(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
    yield name
    with database.engine.begin() as connection:
        connection.exec_driver_sql(f"DROP OWNED BY {name}")
        connection.exec_driver_sql(f"DROP ROLE {name}")


def _with_options(database: Database, options: str) -> Database:
    url = database.engine.url.update_query_dict({"options": options})
    return Database(url.render_as_string(hide_password=False), pool_size=2)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("-c default_transaction_read_only=on", "in a read-only transaction"),
        ("-c role=pg_read_all_data", "permission denied for table "),
    ],
)
def test_postgresql_that_is_only_read_is_named(
    settings: Settings, database: Database, options: str, reason: str
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite has a test of its own")

    with closing(_with_options(database, options)) as limited:
        check = _diagnosed(limited, settings)

    assert not check.is_ok
    assert check.detail.startswith("is refused: ")
    assert reason in check.detail
    assert "standby" in check.remedy


def test_postgresql_that_is_only_read_is_not_ready(settings: Settings, database: Database) -> None:
    if database.is_sqlite:
        pytest.skip("a file that is only read is found by writing to it alone")

    with closing(_with_options(database, "-c default_transaction_read_only=on")) as limited:
        services = Services(ServiceContext(limited, settings, FakeClock()))
        ready, told = services.health.check_readiness(), services.diagnosis.diagnose()
        services.close()

    assert [check.name for check in ready if not check.is_ok] == ["writing", "fitter"]
    assert [check.name for check in told].count("writing") == 1


def test_sequences_that_a_user_may_not_use_are_named(
    settings: Settings, database: Database, limited_role: str
) -> None:
    with closing(_with_options(database, f"-c role={limited_role}")) as limited:
        check = _diagnosed(limited, settings)

    assert not check.is_ok
    assert "permission denied for sequence workload_id_seq" in check.detail


def test_file_of_sqlite_that_is_only_read_is_named(settings: Settings, database: Database) -> None:
    if not database.is_sqlite:
        pytest.skip("PostgreSQL has a test of its own")

    # Its connection keeps the files beside it, without which nobody could even read.
    with database.engine.connect(), closing(Database(_only_read(database))) as limited:
        check = _diagnosed(limited, settings)

    assert not check.is_ok
    assert check.detail == "is refused: attempt to write a readonly database"


def _only_read(database: Database) -> str:
    return f"sqlite:///file:{database.file}?mode=ro&uri=true"
