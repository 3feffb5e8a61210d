"""One real service with a fitter for all tests of the client, and a spool for each."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings

from app.storage.database import Database
from app.storage.migration import migrate
from client.tests.ci_steps import Step
from client.tests.forge import Forge, running_forge
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


@pytest.fixture
def step(
    service_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Step:
    """A step in a folder of its own, with a spool of its own."""
    systems = ("GITLAB_CI", "JENKINS_URL", "BUILDKITE", "CIRCLECI", "TF_BUILD")
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", *systems):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINFARE_SPOOL", str(tmp_path / "spool.jsonl"))
    monkeypatch.setenv("TRAINFARE_TIMEOUT_S", "20")
    monkeypatch.chdir(tmp_path)
    return Step(service_url, capsys, monkeypatch)


@pytest.fixture
def github(step: Step, tmp_path: Path) -> Step:
    event = {
        "pull_request": {
            "number": 17,
            "head": {"ref": "deeper", "sha": "abc123", "repo": {"full_name": "ada/nets"}},
            "base": {"ref": "main", "repo": {"full_name": "ada/nets"}},
        }
    }
    (tmp_path / "event.json").write_text(json.dumps(event))
    step.set_environment(
        GITHUB_ACTIONS="true",
        GITHUB_EVENT_PATH=str(tmp_path / "event.json"),
        GITHUB_REPOSITORY="ada/nets",
        GITHUB_RUN_ID=tmp_path.name,
        GITHUB_SHA="merge-commit",
        GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"),
        GITHUB_OUTPUT=str(tmp_path / "output.txt"),
    )
    return step


@pytest.fixture
def forge() -> Iterator[Forge]:
    with running_forge() as forge:
        yield forge
