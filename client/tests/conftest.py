"""One real service with a fitter for all tests of the client, and a spool for each."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings

from app.storage.database import Database
from app.storage.migration import migrate
from client.tests.importing import Importing
from tests.support.server import running_service


@pytest.fixture(scope="session")
def service_database(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('service')}/trainfare.db"
    database = Database(url)
    migrate(database)
    database.close()
    return url


@pytest.fixture(scope="session")
def service_url(service_database: str) -> Iterator[str]:
    with running_service(service_database, "--with-fitter") as service:
        yield service.url


@pytest.fixture
def settings(service_url: str, tmp_path: Path) -> ClientSettings:
    return ClientSettings(url=service_url, spool=tmp_path / "spool.jsonl", first_pause_s=0)


@pytest.fixture
def client(settings: ClientSettings) -> Iterator[Client]:
    with Client(settings=settings) as client:
        yield client


@pytest.fixture
def workload(request: pytest.FixtureRequest) -> str:
    """A workload named for the test."""
    name: str = request.node.name
    return re.sub(r"[^a-z0-9._-]", "-", name.casefold())[:100]


@pytest.fixture
def importing(capsys: pytest.CaptureFixture[str]) -> Importing:
    """The command for imports that need no service."""
    return Importing(capsys)


@pytest.fixture
def uploading(capsys: pytest.CaptureFixture[str], service_url: str) -> Importing:
    """The command for imports into the service."""
    return Importing(capsys, service_url)
