"""A terminal, and one real service with a fitter for all tests of the client's commands."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from app.cli.processes.guarded_protocol import GuardedProtocol
from app.services.wiring import Services
from tests.support.direct import PLAIN, RECORDED, Stage
from tests.support.regressors import publish_regressor
from tests.support.server import running_service
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(capsys, monkeypatch)


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    copy = tmp_path / "trainfare.db"
    shutil.copy(sqlite_template, copy)
    return f"sqlite:///{copy}"


@pytest.fixture(scope="module")
def service_url(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    copy = tmp_path_factory.mktemp("service") / "trainfare.db"
    shutil.copy(sqlite_template, copy)
    with running_service(f"sqlite:///{copy}", "--with-fitter") as service:
        yield service.url


@pytest.fixture
def stage(services: Services, application: FastAPI) -> Iterator[Stage]:
    """An application that has answered what is asked of it again."""
    publish_regressor(services)
    stage = Stage(application, services)
    stage.exchange([PLAIN, PLAIN, RECORDED, RECORDED], GuardedProtocol)
    stage.exchange([PLAIN, RECORDED])
    assert stage.n_direct == 0
    yield stage
    services.close()
