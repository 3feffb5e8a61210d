"""Processes that the service starts run its own modules, whatever the current folder holds."""

import subprocess
from pathlib import Path

import pytest

from app.cli.processes.supervisor import environment_of
from app.domain.own_modules import module_command
from app.services.computing.processes import ProcessComputer
from app.settings import Settings
from tests.support.fit_tasks import make_task
from tests.support.regressors import QUICK

pytestmark = pytest.mark.lengthy


@pytest.fixture(autouse=True)
def foreign_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the folder of another program with packages of our names and of Python's."""
    for name in ("app", "models", "migrations", "queue"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('a foreign {name}')")
    monkeypatch.chdir(tmp_path)


def test_command_is_run_beside_foreign_packages() -> None:
    ended = subprocess.run(
        module_command("app.cli", "migrate", "--help"),
        env=environment_of(Settings()),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stderr == ""
    assert "Migrate the database's schema" in ended.stdout


def test_fit_is_computed_beside_foreign_packages() -> None:
    computer = ProcessComputer(beat_s=0.05)

    outcome = computer.compute(make_task(QUICK), lambda _share, _step: None)

    computer.close()
    assert outcome.artifact
