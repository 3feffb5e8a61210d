"""What the documents tell to install, run and set exists; nothing of ours is in a package index."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from app.cli.commands import application
from app.cli.profiling.training import environment_of
from app.settings import Settings, unknown_variables
from tests.pythons import named_versions

_ROOT = Path(__file__).parents[2]
_MAKEFILE = (_ROOT / "Makefile").read_text(encoding="utf-8")
_DOCUMENTS = [
    _ROOT / "README.md",
    _ROOT / "CONTRIBUTING.md",
    _ROOT / "client" / "README.md",
    _ROOT / "examples" / "README.md",
    *sorted((_ROOT / "docs").rglob("*.md")),
    *sorted((_ROOT / "templates").iterdir()),
    *sorted((_ROOT / "deploy").rglob("*.yaml")),
]
_FROM_AN_INDEX = re.compile(r"pip install (?:-\S+ )*['\"]?trainfare\S*")
_COMMAND = re.compile(
    r"(?:^|`|\$ |-- |/bin/|exec -T api )trainfare ([a-z][^`\n|>;&#]*)", re.MULTILINE
)
_VARIABLE = re.compile(r"\bTRAINFARE_[A-Z_]+\b(?!\.\.\.)")
_TRAINFARE: Any = typer.main.get_command(application)
_OF_PROFILED_COMMANDS = environment_of(
    dict.fromkeys(
        ("workers", "dataset_size", "batch_size", "epochs", "param.name", "param.precision"), ""
    )
)


def _unknown_word(words: list[str]) -> str | None:
    """Return the first word of a command line that is no command or option of `trainfare`."""
    command = _TRAINFARE
    for word in itertools.takewhile(lambda word: word != "--", words):
        name = word.partition("=")[0].rstrip(",.:)]").lstrip("[")
        if name.startswith("--"):
            if command.context_settings.get("ignore_unknown_options"):  # the client's own command
                return None
            options = [(*each.opts, *each.secondary_opts) for each in command.params]
            if name not in {"--help", *itertools.chain(*options)}:
                return name
        elif commands := getattr(command, "commands", None):
            if name not in commands:
                return name
            command = commands[name]
    return None


@pytest.mark.parametrize("path", _DOCUMENTS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_named_commands_options_and_settings_exist(path: Path) -> None:
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))

    commands = [words.split() for words in _COMMAND.findall(text)]
    assert [words for words in commands if _unknown_word(words) is not None] == []
    variables = set(_VARIABLE.findall(text)) - _OF_PROFILED_COMMANDS.keys()
    assert unknown_variables(variables) == {}


def test_guide_lists_each_setting_with_its_default() -> None:
    guide = (_ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `TRAINFARE_(\w+)` \| ([^|]+) \|", guide, re.MULTILINE))
    issuer_related = {name for name in Settings.model_fields if name.startswith("oidc_")}

    for name in Settings.model_fields.keys() - issuer_related:
        default = Settings.model_fields[name].default
        assert default is None or listed[name.upper()] == str(default)
    assert listed.keys() == {name.upper() for name in Settings.model_fields.keys() - issuer_related}
    names = {name.removeprefix("oidc_").upper() for name in issuer_related}
    assert {name for name in names if f"`{name}`" not in guide} == set()


@pytest.mark.parametrize("path", _DOCUMENTS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_documents_install_nothing_of_ours_from_an_index(path: Path) -> None:
    assert _FROM_AN_INDEX.findall(path.read_text(encoding="utf-8")) == []


def test_messages_install_nothing_of_ours_from_an_index() -> None:
    sources = [*(_ROOT / "app").rglob("*.py"), *(_ROOT / "client").rglob("*.py")]

    for path in sources:
        assert _FROM_AN_INDEX.findall(path.read_text(encoding="utf-8")) == [], path


def test_gitlab_template_demands_where_the_client_comes_from() -> None:
    template = (_ROOT / "templates" / "gitlab-ci.yml").read_text(encoding="utf-8")
    job: dict[str, Any] = yaml.safe_load(template)[".trainfare-report"]

    assert "TRAINFARE_CLIENT" not in job["variables"]
    assert "${TRAINFARE_CLIENT:?" in job["script"][0]


def test_first_key_is_made_once_the_migration_is_done() -> None:
    guide = (_ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    kubernetes = guide.partition("### Kubernetes")[2]

    steps = [
        kubernetes.index(step)
        for step in (
            "docker build -t REGISTRY/trainfare:",
            "kustomize edit set image trainfare=REGISTRY/trainfare:",
            "kubectl apply -k deploy/kubernetes/base",
            "wait --for=condition=complete --timeout=10m job/trainfare-migrate",
            "rollout status deploy/trainfare-fitter",
            "exec deploy/trainfare-fitter -- trainfare keys create",
            "rollout status deploy/trainfare-api",
        )
    ]
    assert steps == sorted(steps)


def test_named_version_of_the_image_is_that_of_the_manifests() -> None:
    layer = (_ROOT / "deploy" / "kubernetes" / "base" / "kustomization.yaml").read_text()
    guide = (_ROOT / "docs" / "operating.md").read_text(encoding="utf-8")

    [image] = yaml.safe_load(layer)["images"]
    assert set(re.findall(r"REGISTRY/trainfare:([\d.]+)", guide)) == {image["newTag"]}


@pytest.mark.lengthy
def test_every_named_python_is_tried_in_a_fresh_clone(tmp_path: Path) -> None:
    [recipe] = re.findall(r"^pythons:.*\n\t\$\(BIN\)/python (.+)$", _MAKEFILE, re.MULTILINE)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    process = subprocess.run(
        [sys.executable, *recipe.split()],
        cwd=_ROOT,
        env=environment | {"HOME": str(tmp_path), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert process.stdout.splitlines() == [
        f"Python {version}: not found here" for version in named_versions(_ROOT / "client")
    ], process.stderr


def test_pythons_that_are_named_are_those_that_make_takes() -> None:
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    [[low, high]] = re.findall(r"not \(3, (\d+)\) <= sys.version_info < \(3, (\d+)\)", _MAKEFILE)
    versions = named_versions(_ROOT)
    first, last = versions[0], versions[-1]

    assert versions == [f"3.{minor}" for minor in range(int(low), int(high))]
    [names] = re.findall(r"for python in (.+); do", _MAKEFILE)
    assert names.split() == ["python3", *(f"python{version}" for version in reversed(versions))]
    assert f"Python {first} to {last} with its venv module is needed" in _MAKEFILE
    assert f"only Python {first} to {last}, make" in readme
    client = named_versions(_ROOT / "client")
    for text in (readme, (_ROOT / "client" / "README.md").read_text(encoding="utf-8")):
        assert f"Python {client[0]} to {client[-1]}" in text
