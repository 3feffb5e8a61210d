"""What a web process does without until somebody asks for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli.commands import application, with_only
from app.domain.threads import ONE_THREAD

pytestmark = pytest.mark.lengthy

_ASK = """
import sys
from fastapi.testclient import TestClient
from app.cli.processes.web import build
from app.settings import Settings

with TestClient(build(Settings(data_dir={folder!r}, database_url={url!r}))) as client:
    for path in {paths!r}:
        assert client.get(path).status_code in (200, 503), path
print(*sorted(name for name, module in sys.modules.items() if module and (
    "." not in name or "dialects" in name
    or name in ("pydantic.v1", "app.api.openapi", "app.domain.zstd"))))
"""
_COUNT_THREADS = """
from app.cli.processes.web import build
from app.settings import Settings

build(Settings(data_dir={folder!r}, database_url={url!r}))
import numpy
from threadpoolctl import threadpool_info

print(*(pool["num_threads"] for pool in threadpool_info()))
"""
_BEFORE_BUILDING = """
import sys
import app.cli.processes.serving

unneeded = {"app.main", "app.api.forecasts", "app.cli.commands", "pydantic.v1", "typer"}
print(*sorted(unneeded & set(sys.modules)))
"""
_LIST_BUILT = """
from fastapi.testclient import TestClient
from app.api.schemas.ci import CI_REPORT_IN
from app.api.schemas.forecasts import FORECAST_IN
from app.api.schemas.recommendations import RECOMMENDATION_IN
from app.cli.processes.web import build
from app.settings import Settings

with TestClient(build(Settings(data_dir={folder!r}, database_url={url!r}))) as client:
    assert client.get("/v1/workloads").status_code == 200
    for body in (CI_REPORT_IN, FORECAST_IN, RECOMMENDATION_IN):
        print(body.pydantic_complete)
    assert client.post("/v1/forecasts", json={{"workload": 1}}).status_code == 422
    print(FORECAST_IN.pydantic_complete)
"""
_UNNEEDED = {
    "alembic",
    "app.domain.zstd",
    "jinja2",
    "lightgbm",
    "limits",
    "models",
    "numpy",
    "psycopg",
    "pydantic.v1",
    "scipy",
}


def _imported_after(database_url: str, folder: Path, *paths: str) -> set[str]:
    script = _ASK.format(folder=str(folder), url=database_url, paths=paths)
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    return set(answer.stdout.split())


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    shutil.copy(sqlite_template, tmp_path / "lean.db")
    return f"sqlite:///{tmp_path / 'lean.db'}"


def test_lists_probes_and_metrics_import_no_numerical_library(
    sqlite_url: str, tmp_path: Path
) -> None:
    imported = _imported_after(
        sqlite_url, tmp_path, "/v1/workloads", "/healthz", "/readyz", "/metrics"
    )

    assert not imported & _UNNEEDED


def test_process_that_nobody_scrapes_imports_nothing_of_prometheus(
    sqlite_url: str, tmp_path: Path
) -> None:
    assert "prometheus_client" not in _imported_after(sqlite_url, tmp_path, "/v1/workloads")
    assert "prometheus_client" in _imported_after(sqlite_url, tmp_path, "/metrics")


def test_process_on_sqlite_imports_no_dialect_of_postgresql(
    sqlite_url: str, tmp_path: Path
) -> None:
    imported = _imported_after(sqlite_url, tmp_path, "/v1/workloads")

    assert "sqlalchemy.dialects.sqlite" in imported
    assert "sqlalchemy.dialects.postgresql" not in imported


def test_page_imports_its_templates_when_it_is_shown(sqlite_url: str, tmp_path: Path) -> None:
    assert "jinja2" in _imported_after(sqlite_url, tmp_path, "/")


def test_reference_is_not_described_anew(sqlite_url: str, tmp_path: Path) -> None:
    imported = _imported_after(sqlite_url, tmp_path, "/openapi.json", "/docs")

    assert "jinja2" in imported
    assert "app.api.openapi" not in imported


def test_bodies_are_built_when_the_first_one_comes(sqlite_url: str, tmp_path: Path) -> None:
    script = _LIST_BUILT.format(folder=str(tmp_path), url=sqlite_url)

    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )

    assert answer.stdout.split() == ["False", "False", "False", "True"]


@pytest.mark.parametrize("name", [*typer.main.get_command(application).commands])  # type: ignore[attr-defined] # a group
def test_command_is_made_alone_and_as_among_all(name: str) -> None:
    def described(application: typer.Typer) -> str:
        group: Any = typer.main.get_command(application)
        command = group.commands[name]
        return str(command.get_help(command.make_context(name, [], resilient_parsing=True)))

    alone: Any = typer.main.get_command(with_only(name))

    assert list(alone.commands) == [name]
    assert described(with_only(name)) == described(application)


@pytest.mark.parametrize("name", ["", "servee", "--version"])
def test_what_is_no_command_is_looked_for_among_all(name: str) -> None:
    assert with_only(name) is application


@pytest.mark.parametrize("chosen", [None, "2"])
def test_linear_algebra_takes_one_thread_unless_the_operator_chose(
    chosen: str | None, sqlite_url: str, tmp_path: Path
) -> None:
    script = _COUNT_THREADS.format(folder=str(tmp_path), url=sqlite_url)
    environment = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    if chosen is not None:
        environment["OPENBLAS_NUM_THREADS"] = chosen

    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )

    expected = min(int(chosen or 1), len(os.sched_getaffinity(0)))
    assert set(answer.stdout.split()) == {str(expected)}


def test_neither_commands_nor_application_are_imported_before_it_is_built() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _BEFORE_BUILDING], capture_output=True, text=True, check=True
    )

    assert answer.stdout.split() == []
