"""Tries the service and the client on every Python that they name and that is found here.

Each Python gets environments of its own. The client, with its two dependencies, runs its part of
an upload, a spool and a flush against the real service; the service, with the locked ones, runs
its demo by make. Prints one line a Python; the exit code is 1 when one failed or none was found.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from tests.support.server import running_service

ROOT: Final = Path(__file__).parents[1]
_CLASSIFIER: Final = "Programming Language :: Python :: "
_SCRIPT: Final = """
import asyncio, sys
from pathlib import Path
from trainfare_client import AsyncClient, Client, ClientSettings, record

url, spool = sys.argv[1], Path(sys.argv[2])
away = ClientSettings(url="http://127.0.0.1:9", spool=spool, attempts=1)
here = ClientSettings(url=url, spool=spool)
name = "python-%d.%d" % sys.version_info[:2]
with record(name, dataset_size=8, epochs=1, settings=away, quiet=True) as run:
    run.step(samples=8)

async def count():
    async with AsyncClient(settings=here) as client:
        return len([run async for run in client.runs.all(name)])

with Client(settings=here) as client:
    assert client.flush().created == 1
assert asyncio.run(count()) == 1
"""


def named_versions(project: Path) -> list[str]:
    """Return the versions of Python that a distribution names in its classifiers."""
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        classifier.removeprefix(_CLASSIFIER)
        for classifier in metadata["classifiers"]
        if classifier.startswith(_CLASSIFIER)
    ]


def _found_python(version: str) -> str | None:
    """Return an interpreter of a version that is here, by pyenv or on the path."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(pyenv[0]) if pyenv else shutil.which(f"python{version}")


def _try_client(python: str, folder: str, url: str) -> bool:
    """Return whether the client works with an interpreter."""
    subprocess.run([python, "-m", "venv", f"{folder}/client"], check=True)
    venv_python = f"{folder}/client/bin/python"
    pip = [venv_python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(ROOT / "client")], check=True, stderr=subprocess.DEVNULL)
    script = [venv_python, "-c", _SCRIPT, url, f"{folder}/spool.jsonl"]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(script, check=False, cwd=folder, env=environ).returncode == 0


def _try_service(python: str, folder: str) -> bool:
    """Return whether the demo works with an interpreter, as a newcomer would run it."""
    variables = [f"VENV={folder}/service", f"PYTHON={python}", "PORT=0", "ARGS=--exit"]
    demo = subprocess.run(
        ["make", "demo", *variables],
        check=False,
        cwd=ROOT,
        env=os.environ
        | {"TRAINFARE_DATA_DIR": folder, "TRAINFARE_DATABASE_URL": f"sqlite:///{folder}/demo.db"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if demo.returncode != 0:
        sys.stderr.write(demo.stdout)
    return demo.returncode == 0


def _try_python(version: str, url: str) -> bool | None:
    """Try what names a version; return whether all of it works, None if it is not found."""
    python = _found_python(version)
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        client = version not in named_versions(ROOT / "client") or _try_client(python, folder, url)
        service = version not in named_versions(ROOT) or _try_service(python, folder)
        return client and service


def _judge(version: str, url: str) -> bool | None:
    works = _try_python(version, url)
    outcome = {True: "works", False: "FAILED", None: "not found here"}[works]
    sys.stdout.write(f"Python {version}: {outcome}\n")
    sys.stdout.flush()
    return works


def main() -> int:
    """Try all; return the exit code."""
    named = {*named_versions(ROOT), *named_versions(ROOT / "client")}
    versions = sorted(named, key=lambda version: tuple(map(int, version.split("."))))
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/trainfare.db"
        with running_service(database, "--migrate") as service:
            found = [
                works for version in versions if (works := _judge(version, service.url)) is not None
            ]
    return 0 if found and all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
