"""The real service for trainings with real frameworks.

The frameworks have an environment of their own; the service runs with the interpreter that
`TRAINFARE_TEST_PYTHON` names.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings

_ROOT = Path(__file__).parents[2]
_LISTENING = re.compile(r"listening.*?url=(?P<url>\S+)")


@pytest.fixture(scope="session")
def service_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("service")
    kept = {name: value for name, value in os.environ.items() if "TRAINFARE_" not in name}
    python = os.environ.get("TRAINFARE_TEST_PYTHON", sys.executable)
    process = subprocess.Popen(
        [python, "-m", "app.cli", "serve", "--with-fitter", "--migrate", "--port", "0"],
        cwd=_ROOT,
        env={**kept, "PYTHONPATH": str(_ROOT), "TRAINFARE_DATA_DIR": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    heard: list[str] = []
    for line in process.stderr:
        heard.append(line)
        if found := _LISTENING.search(line):
            break
    else:
        raise AssertionError("the service did not come up: " + "".join(heard))
    try:
        yield found["url"]
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(autouse=True)
def surroundings(service_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment in which a user's script runs."""
    monkeypatch.setenv("TRAINFARE_URL", service_url)
    monkeypatch.setenv("TRAINFARE_SPOOL", str(tmp_path / "spool.jsonl"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def client(service_url: str, tmp_path: Path) -> Iterator[Client]:
    settings = ClientSettings(url=service_url, spool=tmp_path / "spool.jsonl")
    with Client(settings=settings) as client:
        yield client


@pytest.fixture
def workload(request: pytest.FixtureRequest) -> str:
    """A workload named for the test."""
    name: str = request.node.name
    return re.sub(r"[^a-z0-9._-]", "-", name.casefold())[:100]
