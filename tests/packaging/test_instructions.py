"""What the documents tell to install and to run exists: nothing of ours is in a package index."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

_ROOT = Path(__file__).parents[2]
_MAKEFILE = (_ROOT / "Makefile").read_text(encoding="utf-8")
_DOCUMENTS = [
    _ROOT / "README.md",
    *sorted((_ROOT / "docs").rglob("*.md")),
    *sorted((_ROOT / "templates").iterdir()),
    *sorted((_ROOT / "deploy").rglob("*.yaml")),
]
_FROM_AN_INDEX = re.compile(r"pip install (?:-\S+ )*['\"]?trainfare\S*")


@pytest.mark.parametrize("path", _DOCUMENTS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_documents_install_nothing_of_ours_from_an_index(path: Path) -> None:
    assert _FROM_AN_INDEX.findall(path.read_text(encoding="utf-8")) == []


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


def test_client_is_tried_on_every_python_in_a_fresh_clone(tmp_path: Path) -> None:
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
        f"Python {version}: not found here" for version in ("3.10", "3.11", "3.12", "3.13")
    ], process.stderr
