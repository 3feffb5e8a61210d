"""Databases built by the migrations once a session and copied for each test."""

import gc
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from app.api.watching import OneReading
from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import migrate
from tests.support.clock import FakeClock
from tests.support.compiled import share_compiled_statements
from tests.support.postgresql import folder_in_memory

POSTGRESQL_URL = os.environ.get("TRAINFARE_TEST_POSTGRESQL_URL")
"""A superuser's URL; `make test` starts a server and sets it."""

_WITH_RAY = ("*/ray_cluster.py", "*/ray_nodes.py", "*/test_ray_*.py", "*/soak/*")
"""What imports Ray, which has no build for Python 3.15 yet."""

hypothesis_settings.register_profile(
    "project", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
hypothesis_settings.register_profile(
    "ci", hypothesis_settings.get_profile("project"), derandomize=True
)
hypothesis_settings.load_profile("ci" if os.environ.get("CI") else "project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the statistical checks too")


def pytest_configure(config: pytest.Config) -> None:
    if find_spec("ray") is None:
        config.option.ignore_glob = [*(config.option.ignore_glob or []), *_WITH_RAY]
    # Nothing that is imported or collected becomes garbage: looking for cycles in it is lost time.
    gc.disable()
    share_compiled_statements()
    memory = folder_in_memory()
    if memory is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
    # A shell lets what it runs in the background ignore SIGINT, and so would what tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _put_soak_in_the_middle(items)
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="statistical check: --slow runs it")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def _put_soak_in_the_middle(items: list[pytest.Item]) -> None:
    """Let no core idle while the other one is left with the five minutes of these tests.

    At the start, CI tests the frameworks too.
    """
    soak = [item for item in items if item.path.parent.name == "soak"]
    others = [item for item in items if item.path.parent.name != "soak"]
    middle = len(others) // 2
    items[:] = [*others[:middle], *soak, *others[middle:]]


def pytest_collection_finish() -> None:
    """Let the collector see what tests create, and not all tests and modules each time again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _patient_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a database that is there may not answer within the limit of a probe."""
    defaults = OneReading.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "limit_s", 60.0)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """What outlives its test harms all that follow.

    A thread would speak in their logs; without the garbage collector they would take gigabytes.
    """
    before = set(threading.enumerate())
    yield
    assert "ledger" not in {thread.name for thread in set(threading.enumerate()) - before}
    is_collecting = gc.isenabled()
    gc.enable()
    assert is_collecting


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    database = Database(f"sqlite:///{path}")
    migrate(database)
    database.close()
    return path


_FIRST_WITH_STRATEGIES = 150_000
Administer = Callable[[str], None]
"""Executes a statement on the server of PostgreSQL, outside of any test's database."""


@pytest.fixture(scope="session")
def administer() -> Iterator[Administer]:
    if POSTGRESQL_URL is None:
        pytest.skip("TRAINFARE_TEST_POSTGRESQL_URL is not set")
    with psycopg.connect(POSTGRESQL_URL, autocommit=True) as connection:

        def execute(statement: str) -> None:
            connection.execute(statement.encode())

        yield execute


def _postgresql_url(name: str) -> str:
    assert POSTGRESQL_URL is not None
    url = sa.make_url(POSTGRESQL_URL).set(drivername="postgresql+psycopg", database=name)
    return url.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def postgresql_template(administer: Administer) -> Iterator[str]:
    name = f"template_{uuid.uuid4().hex[:12]}"
    administer(f"CREATE DATABASE {name}")
    database = Database(_postgresql_url(name))
    migrate(database)
    with database.engine.connect() as connection:
        version = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
    database.close()
    # Older servers always copy files.
    yield f"{name} STRATEGY FILE_COPY" if version >= _FIRST_WITH_STRATEGIES else name
    administer(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh migrated database, on each of the two engines in turn."""
    if request.param == "sqlite":
        copy = tmp_path / "trainfare.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), copy)
        yield f"sqlite:///{copy}"
        return
    administer: Administer = request.getfixturevalue("administer")
    name = f"test_{uuid.uuid4().hex[:12]}"
    template = request.getfixturevalue("postgresql_template")
    administer(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield _postgresql_url(name)
    administer(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path,
        database_url=database_url,
        database_pool_size=8,
        # A test waits for its database and its answers, however slow the machine is.
        database_patience_s=60,
        request_timeout_s=600,
        upload_timeout_s=600,
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings.url, pool_size=settings.database_pool_size)
    yield database
    database.close()


@pytest.fixture
def services(database: Database, settings: Settings, clock: FakeClock) -> Iterator[Services]:
    services = Services(ServiceContext(database, settings, clock))
    yield services
    services.close()


@pytest.fixture
def application(settings: Settings, services: Services) -> FastAPI:
    return build_app(settings, services)


@pytest.fixture
def client(application: FastAPI) -> Iterator[TestClient]:
    with TestClient(application, raise_server_exceptions=False) as client:
        yield client
