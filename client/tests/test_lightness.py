"""What importing and installing the client costs, counted and not timed."""

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
import trainfare_client

_PACKAGE = Path(trainfare_client.__file__).parent


def _loaded_by(statement: str) -> set[str]:
    program = (
        f"import sys; before = set(sys.modules); {statement};"
        "print(*sorted(set(sys.modules) - before))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(_PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(answer.stdout.split())


def test_two_dependencies_are_named() -> None:
    needed = [line for line in requires("trainfare-client") or () if "extra ==" not in line]
    names = {re.split(r"[<>=~! \[;]", line)[0] for line in needed}

    assert names == {"filelock", "httpx"}


def test_import_loads_itself_and_nothing_of_others() -> None:
    loaded = {name.partition(".")[0] for name in _loaded_by("import trainfare_client")}

    assert loaded <= {"trainfare_client"} | set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "statement",
    [
        "from trainfare_client import Client, AsyncClient; Client(); AsyncClient()",
        "from trainfare_client.spool import Spool",
        "from trainfare_client.console import main",
        "from trainfare_client.importers.command import main",
    ],
)
def test_dependencies_are_loaded_when_they_are_used(statement: str) -> None:
    top_level = {name.partition(".")[0] for name in _loaded_by(statement)}

    assert not top_level & {"httpx", "filelock", "torch", "app", "numpy", "backports"}


def test_synchronous_client_is_generated_from_the_asynchronous_one() -> None:
    script = _PACKAGE.parent / "generate_sync.py"

    subprocess.run([sys.executable, script, "--check"], check=True)
