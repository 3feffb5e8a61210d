"""Each importer's page has a block that runs as it stands, as a person would paste it."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from trainfare_client import Client
from trainfare_client.importers.sources import SOURCES

from client.tests.kubernetes_objects import exported, job, node, pod, template
from client.tests.mlflow_stores import written_database
from client.tests.wandb_logs import exit_record, run_record, written_run

pytestmark = pytest.mark.lengthy

_FOLDER = Path(__file__).parents[2] / "docs" / "integrations"
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PREEMPTED = {
    "Cluster": "tiger",
    "JobID": "7",
    "JobIDRaw": "7",
    "JobName": "slurm-page",
    "State": "PREEMPTED",
    "ElapsedRaw": "60",
    "Start": "2026-11-01T10:00:00",
    "NNodes": "1",
    "AllocCPUS": "8",
    "AllocTRES": "cpu=8,gres/gpu:a100=4",
    "Partition": "gpu",
    "Comment": "epochs=3",
    "Restarts": "0",
}
_COMPLETED = {
    **_PREEMPTED,
    "State": "COMPLETED",
    "Start": "2026-11-01T12:00:00",
    "Restarts": "1",
}
# As Slurm's own, it shows the columns that it is asked for, and only the last start of a job.
_SACCT = """\
#!{python}
import sys
starts = {starts}
(columns,) = (word[9:].split(",") for word in sys.argv if word.startswith("--format="))
print("|".join(columns))
for start in starts if "--duplicates" in sys.argv else starts[-1:]:
    print("|".join(start[column] for column in columns))
"""
_DATA_JS = (
    'window.BENCHMARK_DATA = {"entries": {"Go": [{"commit": {"id": "1f2e3d"}, "date":'
    ' 1795259000000, "benches": [{"name": "action-page", "value": 5, "unit": "ms"}]}]}}'
)


def _nothing(folder: Path) -> None:
    """The page's block brings all that it needs."""


def _slurm(folder: Path, *starts: dict[str, str]) -> None:
    """A cluster's command that prints what Slurm would of a job."""
    command = folder / "bin" / "sacct"
    command.write_text(_SACCT.format(python=sys.executable, starts=starts or (_COMPLETED,)))
    command.chmod(0o755)


def _kubernetes(folder: Path) -> None:
    """A cluster's command that prints what kubectl would."""
    described = template(TRAINFARE_WORKLOAD="kubernetes-page")
    owner = job(template=described)
    listed = exported(folder, owner, pod(of=owner), node(), name="listed.json")
    command = folder / "bin" / "kubectl"
    command.write_text(f"#!/bin/sh\nexec cat {listed}\n")
    command.chmod(0o755)


def _mlflow(folder: Path) -> None:
    """A database with one run."""
    written_database(folder / "mlflow.db", "mlflow-page", depth="4", learning_rate="0.1")


def _wandb(folder: Path) -> None:
    """A folder with one run."""
    record = run_record(config={"depth": 4, "optimizer": {"lr": 0.1}}, project="wandb-page")
    written_run(folder, record, exit_record())


def _repository(folder: Path) -> None:
    """A repository with the branch that the action writes."""
    history = folder / "dev" / "bench" / "data.js"
    history.parent.mkdir(parents=True)
    history.write_text(_DATA_JS)
    author = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for command in (
        ["init", "--quiet"],
        ["add", "dev"],
        [*author, "commit", "--quiet", "--message", "Benchmarks"],
        ["update-ref", "refs/remotes/origin/gh-pages", "HEAD"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)


_PAGES: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "csv": (_nothing, "resnet50", 2),
    "slurm": (_slurm, "slurm-page", 1),
    "kubernetes": (_kubernetes, "kubernetes-page", 1),
    "mlflow": (_mlflow, "mlflow-page", 1),
    "wandb": (_wandb, "wandb-page", 1),
    "github-action-benchmark": (_repository, "action-page", 1),
    "bencher": (_nothing, "fit-small", 1),
}


def test_every_source_has_a_page() -> None:
    pages = {page.stem for page in _FOLDER.glob("*.md")}
    tried_elsewhere = {"spark"}

    assert pages >= set(_PAGES) | tried_elsewhere
    assert {"slurm" if name == "sacct" else name for name in SOURCES} == (
        set(_PAGES) | tried_elsewhere
    )


@pytest.mark.parametrize("page", _PAGES)
def test_block_runs_and_its_runs_arrive(
    page: str, client: Client, service_url: str, tmp_path: Path
) -> None:
    prepare, workload, expected = _PAGES[page]
    _written_command(tmp_path)
    prepare(tmp_path)

    answer = _block_run(page, service_url, tmp_path)

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("workload,external_id,")
    assert len(list(client.runs.all(workload))) == expected


def test_job_that_was_preempted_joins_again_when_it_has_ended(
    client: Client, service_url: str, tmp_path: Path
) -> None:
    restarted = [{**start, "JobName": "slurm-night"} for start in (_PREEMPTED, _COMPLETED)]
    _written_command(tmp_path)

    _slurm(tmp_path, restarted[0])
    _block_run("slurm", service_url, tmp_path)
    _slurm(tmp_path, *restarted)
    answer = _block_run("slurm", service_url, tmp_path)

    assert answer.returncode == 0, answer.stderr
    statuses = {run["external_id"]: run["status"] for run in client.runs.all("slurm-night")}
    assert statuses == {"slurm:tiger/7": "preempted", "slurm:tiger/7/restart-1": "succeeded"}


def _written_command(folder: Path) -> None:
    """The command that the pages type."""
    command = folder / "bin" / "trainfare"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m trainfare_client "$@"\n')
    command.chmod(0o755)


def _block_run(page: str, service_url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (block,) = _BLOCK.findall((_FOLDER / f"{page}.md").read_text())
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={
            "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "TRAINFARE_URL": service_url,
        },
        capture_output=True,
        text=True,
        check=False,
    )
