"""Databases whose language sorts identifiers in another order than that of their creation."""

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from app import fitter
from app.cli.processes import serving
from app.cli.surroundings import open_migrated_context
from app.domain.availability_errors import ForeignOrderError
from app.domain.identifiers import earliest_identifier, new_identifier
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage import migration
from app.storage.collations import require_time_order
from app.storage.database import Database
from app.storage.migration import migrate
from tests.support.terminal import restored_process

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]

_FIRST_WITH_ICU = 150_000
reordering = pytest.mark.parametrize("located", ["cs", "da", "et"], indirect=True)


@pytest.fixture
def located(database_url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database whose locale is the parameter."""
    url = sa.make_url(database_url)
    name, locale = f"{url.database}_located", str(request.param)
    server = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with server.connect() as connection:
        version = connection.exec_driver_sql("SHOW server_version_num").scalar_one()
        if int(version) < _FIRST_WITH_ICU:
            pytest.skip("databases of this server cannot have a locale of ICU")
        connection.exec_driver_sql(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
            f" LOCALE_PROVIDER icu ICU_LOCALE '{locale}'"
        )
        yield url.set(database=name).render_as_string(hide_password=False)
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def moved(located: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with a database that got its tables elsewhere, as by pg_dump."""
    with monkeypatch.context() as patch, closing(Database(located, pool_size=1)) as database:
        patch.setattr(migration, "require_time_order_on", lambda _: None)
        migrate(database)
    return settings.model_copy(update={"database_url": located})


@reordering
def test_empty_database_of_such_a_language_gets_no_tables(located: str) -> None:
    with closing(Database(located, pool_size=1)) as database:
        with pytest.raises(ForeignOrderError, match="cannot be used") as refused:
            migrate(database)

        assert sa.inspect(database.engine).get_table_names() == []
    assert "locale " in refused.value.reason
    assert "LOCALE 'C'" in refused.value.remedy


@pytest.mark.parametrize("located", ["en-US", "de", "tr", "ja", "und"], indirect=True)
def test_other_languages_sort_identifiers_by_their_creation(located: str) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [begin + timedelta(milliseconds=937 * step**2) for step in range(300)]
    created = [
        name
        for moment in moments
        for name in (earliest_identifier("run", moment), new_identifier("run", now=moment))
    ]
    with closing(Database(located, pool_size=1)) as database:
        migrate(database)
        require_time_order(database)
        with database.engine.connect() as connection:
            names = sa.func.unnest(sa.literal(created, sa.ARRAY(sa.Text))).column_valued("name")
            ordered = connection.scalars(sa.select(names).order_by(names)).all()

    assert ordered == created


@reordering
def test_service_fitter_and_commands_refuse_a_database_of_such_a_language(
    moved: Settings,
) -> None:
    with restored_process(), pytest.raises(ForeignOrderError):
        serving.serve(moved)
    with pytest.raises(ForeignOrderError):
        fitter.run(moved, threading.Event())
    with pytest.raises(ForeignOrderError), open_migrated_context(moved):
        pass


@reordering
def test_diagnosis_tells_that_identifiers_are_not_in_order(moved: Settings) -> None:
    with closing(Database(moved.url)) as database:
        diagnosis = Services(ServiceContext(database, moved)).diagnosis
        checks = {check.name: check for check in diagnosis.diagnose()}

    assert not checks["order"].is_ok
    assert "pg_dump" in checks["order"].remedy
