"""What a process knows of its environment: its rank, the cluster, the commit, the CI job."""

from __future__ import annotations

import math
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trainfare_client.variables import WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Mapping

# Slurm's come last: what mpirun starts in a job inherits them from its launcher. SLURM_NTASKS and
# SLURM_NNODES, which a job's script has too, say what srun would start, not what trains.
_RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD_SIZES: Final = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_LOCAL_WORLD_SIZES: Final = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")
_COMMITS: Final = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT")
_CI_URLS: Final = ("CI_JOB_URL", "CI_PIPELINE_URL", "BUILD_URL", "BUILDKITE_BUILD_URL")
_GIT_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True)
class Place:
    """The place of a process among those that train together.

    Attributes
    ----------
    rank
        From 0; only rank 0 uploads, unless another one fails in a known job.
    workers, nodes
        How many train together; None if unknown.
    job
        An id that the ranks of one job share and no other job has; None if unknown.
    """

    rank: int = 0
    workers: int | None = None
    nodes: int | None = None
    job: str | None = None


def read_place(environ: Mapping[str, str] = os.environ) -> Place:
    """Return the place that launchers state in the environment: torchrun, Slurm, MPI.

    Examples
    --------
    >>> read_place({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"})
    Place(rank=3, workers=8, nodes=2, job=None)
    """
    workers = _first_number(environ, _WORLD_SIZES)
    local = _first_number(environ, _LOCAL_WORLD_SIZES)
    nodes = _first_number(environ, ("SLURM_STEP_NUM_NODES",))
    # The step may be a mere shell on the first node, in which mpirun starts what trains on all.
    is_step = nodes is not None and workers == _first_number(environ, ("SLURM_STEP_NUM_TASKS",))
    if workers and local and not is_step:
        nodes = math.ceil(workers / local)
    return Place(_first_number(environ, _RANKS) or 0, workers, nodes)


def is_profiled(workload: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether `trainfare profile` runs this process, and reports its run itself.

    Examples
    --------
    >>> profiled = {"TRAINFARE_WORKLOAD": "cnn", "TRAINFARE_EXTERNAL_ID": "profile-1f2e3d-1"}
    >>> is_profiled("cnn", profiled), is_profiled("evaluation", profiled), is_profiled("cnn", {})
    (True, False, False)
    """
    session_run = environ.get("TRAINFARE_EXTERNAL_ID")
    return bool(session_run) and environ.get(WORKLOAD) == workload


def read_labels(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the labels `git_sha` and `ci_url`, each if it is known."""
    labels = {"git_sha": _commit(environ), "ci_url": _ci_url(environ)}
    return {name: value for name, value in labels.items() if value}


def _first_number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    texts = (environ.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isdecimal()), None)


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _commit(environ: Mapping[str, str]) -> str:
    commit = _first(environ, _COMMITS)
    if commit:
        return commit
    try:
        process = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""


def _ci_url(environ: Mapping[str, str]) -> str:
    server, repository, run = (
        environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    if server and repository and run:
        return f"{server}/{repository}/actions/runs/{run}"
    return _first(environ, _CI_URLS)
