"""Where a collector runs, as launchers, CI and git tell it."""

from pathlib import Path

import pytest
from trainfare_client.collectors.surroundings import Place, read_labels, read_place

# As Slurm sets them in a job's script (sbatch --nodes=2 --ntasks=8), in what srun starts there, and
# in the shell that salloc or `srun --pty` opens on the first node.
_SLURM_JOB = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}
_SLURM_STEP = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "2"}
_SLURM_SHELL = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_NUM_NODES": "1"}
_MPIRUN = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, Place()),
        (_SLURM_JOB, Place()),
        (_SLURM_JOB | _SLURM_STEP, Place(5, 8, 2)),
        (_SLURM_JOB | _SLURM_STEP | {"LOCAL_WORLD_SIZE": "1"}, Place(5, 8, 2)),
        (_SLURM_JOB | _MPIRUN, Place(3, 4)),
        (_SLURM_JOB | _SLURM_SHELL, Place(0, 1, 1)),
        (
            _SLURM_JOB | _SLURM_SHELL | _MPIRUN | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            Place(3, 4, 2),
        ),
        (_SLURM_JOB | {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}, Place(0, 4, 1)),
        ({"RANK": "x", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, Place(0, 2, 1)),
    ],
)
def test_place_is_read_from_the_launcher(environ: dict[str, str], place: Place) -> None:
    assert read_place(environ) == place


def test_job_of_github_is_linked() -> None:
    environ = {
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_RUN_ID": "7",
        "GIT_COMMIT": "abc",
    }

    assert read_labels(environ) == {
        "git_sha": "abc",
        "ci_url": "https://github.example/a/b/actions/runs/7",
    }


def test_place_without_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = read_labels({})
    monkeypatch.setenv("PATH", "")

    assert outside == read_labels({}) == {}
