"""What is installed holds all that the service reads at run time; the locks pin all of it."""

import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.lengthy

_ROOT = Path(__file__).parents[2]
_DATA = (
    "app/api/templates",
    "app/pricing/data",
    "app/web/static",
    "app/web/templates",
    "migrations",
)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    source = tmp_path_factory.mktemp("source")
    for name in ("app", "models", "migrations"):
        shutil.copytree(_ROOT / name, source / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / name, source / name)
    return set(_pack(source, tmp_path_factory.mktemp("wheel")).namelist())


@pytest.fixture(scope="module")
def packed_client(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    source = tmp_path_factory.mktemp("client")
    shutil.copytree(_ROOT / "client" / "trainfare_client", source / "trainfare_client")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(_ROOT / "client" / name, source / name)
    return _pack(source, tmp_path_factory.mktemp("wheel"))


def _pack(source: Path, target: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-index", "-w", target, source], check=True)
    [wheel] = target.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_wheel_holds_every_module_and_data_file(packed: set[str]) -> None:
    for package in ("app", "models", "migrations"):
        for path in (_ROOT / package).rglob("*.py"):
            assert str(path.relative_to(_ROOT)) in packed
    for folder in _DATA:
        for path in (_ROOT / folder).rglob("*.*"):
            if path.suffix not in {".pyc", ".py"} and path.is_file():
                assert str(path.relative_to(_ROOT)) in packed


def test_client_wheel_holds_every_module_and_the_licence(packed_client: zipfile.ZipFile) -> None:
    names = packed_client.namelist()
    [licence] = [name for name in names if name.endswith("/licenses/LICENSE")]

    assert packed_client.read(licence) == (_ROOT / "LICENSE").read_bytes()
    for path in (_ROOT / "client" / "trainfare_client").rglob("*.*"):
        if path.suffix in {".py", ".typed"}:
            assert str(path.relative_to(_ROOT / "client")) in names


def test_client_admits_no_httpx_of_another_interface(packed_client: zipfile.ZipFile) -> None:
    """1.0 is another library; pip installs its pre-releases beside those of, say, PyTorch."""
    [metadata] = [name for name in packed_client.namelist() if name.endswith("/METADATA")]
    fields = message_from_bytes(packed_client.read(metadata))
    requirements = map(Requirement, fields.get_all("Requires-Dist", []))
    [httpx] = [requirement for requirement in requirements if requirement.name == "httpx"]

    assert httpx.specifier.contains("0.28.1")
    assert not httpx.specifier.contains("1.0.dev6", prereleases=True)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_lock_pins_by_hash_and_names_no_host(name: str) -> None:
    lines = (_ROOT / name).read_text().splitlines()
    pins = [line for line in lines if not line.startswith((" ", "#"))]

    assert all(re.match(r"[\w.\-]+(\[[\w\-, ]+\])?==\S+ .*\\$", line) for line in pins)
    assert not any("://" in line or "--index" in line or "file:" in line for line in lines)


def test_developers_lock_agrees_with_the_service_lock() -> None:
    def pins(name: str) -> set[str]:
        lines = (_ROOT / name).read_text().splitlines()
        return {line.split()[0] for line in lines if "==" in line}

    assert pins("requirements.lock") <= pins("requirements-dev.lock")


def test_lock_pins_what_is_asked_for_with_extras() -> None:
    """pip 23 takes `coverage==1` for no answer to `coverage[toml]`, and asks for the newest."""
    locked = [
        Requirement(line.removesuffix("\\"))
        for line in (_ROOT / "requirements-dev.lock").read_text().splitlines()
        if "==" in line
    ]
    extras = {canonicalize_name(pin.name): pin.extras for pin in locked}

    requirements = [
        requirement
        for installed in distributions()
        if (name := canonicalize_name(installed.name)) in extras
        for requirement in map(Requirement, installed.requires or [])
        if requirement.extras and _applies(requirement, extras[name])
    ]

    assert requirements
    for requirement in requirements:
        assert requirement.extras <= extras[canonicalize_name(requirement.name)], requirement


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    return requirement.marker is None or any(
        requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
    )
