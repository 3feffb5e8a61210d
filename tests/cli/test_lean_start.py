"""A web process starts without the libraries that only fits and rare questions need."""

import subprocess
import sys

import pytest

_IMPORTED = (
    "import sys, app.cli.serving; print(*sorted({n.partition('.')[0] for n in sys.modules}))"
)


@pytest.fixture(scope="module")
def imported() -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "name", ["alembic", "lightgbm", "pandas", "psycopg", "ray", "scipy", "sklearn"]
)
def test_web_process_starts_without(name: str, imported: set[str]) -> None:
    assert "fastapi" in imported
    assert name not in imported
