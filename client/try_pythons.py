"""Tries the client on every Python from 3.10 to 3.13 that is found on this machine.

Each gets an environment of its own with the client and its two dependencies, and runs the
client's part of an upload, a spool and a flush against the real service. Prints one line a
Python; the exit code is 1 when one failed or none but this one was found.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.server import running_service

VERSIONS: Final = ("3.10", "3.11", "3.12", "3.13")
HERE: Final = Path(__file__).parent
SCRIPT: Final = """
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


def found_pythons() -> dict[str, str]:
    """Return an interpreter for each version that is here, by pyenv or on the path."""
    pythons = {}
    for version in VERSIONS:
        pyenv = glob.glob(str(Path(f"~/.pyenv/versions/{version}.*/bin/python").expanduser()))
        python = next(iter(sorted(pyenv)), None) or shutil.which(f"python{version}")
        if python is not None:
            pythons[version] = python
    return pythons


def try_python(python: str, url: str) -> bool:
    """Return whether the client works with an interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", f"{folder}/venv"], check=True)
        venv_python = f"{folder}/venv/bin/python"
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([venv_python, *install, str(HERE)], check=True, stderr=subprocess.DEVNULL)
        script = [venv_python, "-c", SCRIPT, url, f"{folder}/spool.jsonl"]
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(script, check=False, cwd=folder, env=environ).returncode == 0


def main() -> int:
    """Try all; return the exit code."""
    pythons = found_pythons()
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/trainfare.db"
        with running_service(database, "--migrate") as service:
            results = {
                version: try_python(python, service.url) for version, python in pythons.items()
            }
    for version in VERSIONS:
        outcome = {True: "works", False: "FAILED", None: "not found here"}[results.get(version)]
        sys.stdout.write(f"Python {version}: {outcome}\n")
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
