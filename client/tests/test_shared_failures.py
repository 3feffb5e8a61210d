"""A job of several ranks that fails: any rank may tell of it, and it is told once."""

from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings
from trainfare_client.collectors.ray_jobs import ray_job
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place
from trainfare_client.spool import Spool


def recorder(settings: ClientSettings, workload: str, rank: int, job: str | None) -> Recorder:
    place = Place(rank=rank, workers=2, nodes=2, job=job)
    return Recorder(workload, {"settings": settings, "dataset_size": 10}, place=place)


def test_rank_that_fails_tells_of_it_and_the_others_do_not_again(
    settings: ClientSettings, client: Client, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (recorder(settings, workload, rank, workload) for rank in (0, 1))

    second.finish("out_of_memory")
    first.finish("failed")

    (run,) = client.runs.all(workload)
    assert run["status"] == "out_of_memory"
    assert run["configuration"]["workers"] == 2
    assert "another rank has reported" in capsys.readouterr().err
    assert Spool(settings.spool).waiting() == 0


def test_job_that_succeeds_is_told_by_rank_0_alone(
    settings: ClientSettings, client: Client, workload: str
) -> None:
    first, second = (recorder(settings, workload, rank, workload) for rank in (0, 1))

    second.finish()
    first.finish()

    assert [run["status"] for run in client.runs.all(workload)] == ["succeeded"]


def test_rank_of_a_job_without_a_name_leaves_the_telling_to_rank_0(
    settings: ClientSettings, tmp_path: Path, workload: str
) -> None:
    recorder(settings, workload, 1, None).finish("failed")

    assert Spool(settings.spool).waiting() == 0


@pytest.mark.filterwarnings("default")  # Ray's own
def test_process_that_only_imports_ray_is_in_no_ray_job_and_starts_none() -> None:
    ray = pytest.importorskip("ray")

    assert ray_job() is None
    assert not ray.is_initialized()


def test_process_without_ray_is_in_no_ray_job() -> None:
    assert ray_job() is None
