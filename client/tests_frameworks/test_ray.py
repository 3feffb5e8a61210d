"""Ray Train on a local Ray cluster of several nodes."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import ray.train
from ray.cluster_utils import Cluster
from ray.train.torch import TorchTrainer
from trainfare_client import Client
from trainfare_client.collectors.ray import TrainfareCallback, recorded
from trainfare_client.collectors.torch import TorchCollector
from trainfare_client.errors import UnknownWorkloadError
from trainfare_client.settings import read_settings

_ROOT = Path(__file__).parents[2]
_MAX_LOOKS = 2000
_PLACE = "place"
"""A resource of which each worker takes one."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Ray keeps what workers had that died; there is enough of this for all tests.
    node = {"num_cpus": 2, "resources": {_PLACE: 100}}
    with pytest.MonkeyPatch.context() as patch:
        # By default workers give way to everything else, here to tests that run beside these.
        patch.setenv("RAY_worker_niceness", "0")
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.add_node(**node)
    # The workers import this module, wherever the user's script runs.
    surroundings = {"env_vars": {"PYTHONPATH": str(_ROOT)}}
    ray.init(address=cluster.address, log_to_driver=False, runtime_env=surroundings)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def _trainer(
    loop: Any, folder: Path, callbacks: list[Any], config: dict[str, Any] | None = None
) -> TorchTrainer:
    return TorchTrainer(
        loop,
        train_loop_config=config,
        scaling_config=ray.train.ScalingConfig(
            num_workers=2, resources_per_worker={_PLACE: 1}, placement_strategy="STRICT_SPREAD"
        ),
        run_config=ray.train.RunConfig(storage_path=str(folder), callbacks=callbacks),
    )


def _loop() -> None:
    import torch

    for step in range(5):
        value = torch.ones(2)
        torch.distributed.all_reduce(value)
        ray.train.report({"step": step, "value": float(value[0])})


def _failing_loop(config: dict[str, Any]) -> None:
    """Fail on one rank, while the other one waits for it."""
    import torch

    if ray.train.get_context().get_world_rank() == config["rank"]:
        raise MemoryError if config["memory"] else ValueError("shape")
    torch.distributed.all_reduce(torch.ones(2))


def _failing_collected_loop(config: dict[str, Any]) -> None:
    with TorchCollector(config["workload"], settings=config["settings"]):
        _failing_loop(config)


def test_loop_on_two_nodes_is_recorded_by_rank_0(
    cluster: Cluster, client: Client, workload: str, tmp_path: Path
) -> None:
    loop = recorded(_loop, workload, dataset_size=100, batch_size=20, epochs=1)

    _trainer(loop, tmp_path, []).fit()
    (run,) = client.runs.all(workload)

    assert run["status"] == "succeeded"
    assert run["configuration"]["workers"] == 2
    assert run["configuration"]["nodes"] == 2
    assert run["work"]["dataset_size"] == 100


def test_callback_records_a_job_from_its_controller(
    cluster: Cluster, client: Client, workload: str, tmp_path: Path
) -> None:
    callback = TrainfareCallback(workload, dataset_size=100, batch_size=20)

    _trainer(_loop, tmp_path, [callback]).fit()
    (run,) = client.runs.all(workload)

    assert run["status"] == "succeeded"
    assert run["configuration"]["workers"] == 2
    assert run["configuration"]["nodes"] == 2
    assert run["phases"]["setup_seconds"] > 0


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("memory", [False, True])
def test_failure_of_any_rank_is_the_users_and_recorded(
    cluster: Cluster, client: Client, workload: str, tmp_path: Path, *, rank: int, memory: bool
) -> None:
    loop = recorded(_failing_loop, workload, dataset_size=100)
    config = {"rank": rank, "memory": memory}

    with pytest.raises(ray.train.TrainingFailedError):
        _trainer(loop, tmp_path, [], config).fit()
    (run,) = client.runs.all(workload)

    assert run["status"] == ("out_of_memory" if memory else "failed")
    assert run["configuration"]["workers"] == 2


def test_failure_inside_a_collected_loop_is_recorded(
    cluster: Cluster, client: Client, workload: str, tmp_path: Path
) -> None:
    config = {"rank": 1, "memory": True, "workload": workload, "settings": read_settings()}

    with pytest.raises(ray.train.TrainingFailedError):
        _trainer(_failing_collected_loop, tmp_path, [], config).fit()
    (run,) = client.runs.all(workload)

    assert run["status"] == "out_of_memory"


def test_callback_knows_that_a_worker_lacked_memory(
    cluster: Cluster, client: Client, workload: str, tmp_path: Path
) -> None:
    callback = TrainfareCallback(workload)

    with pytest.raises(ray.train.TrainingFailedError):
        _trainer(_failing_loop, tmp_path, [callback], {"rank": 1, "memory": True}).fit()
    (run,) = client.runs.all(workload)

    assert run["status"] == "out_of_memory"


def _killed_loop(config: dict[str, Any]) -> None:
    """Be killed like by the kernel on one rank, while the other one waits for it."""
    import os
    import signal

    import torch

    if ray.train.get_context().get_world_rank() == config["rank"]:
        os.kill(os.getpid(), signal.SIGKILL)
    torch.distributed.all_reduce(torch.ones(2))


def _runs_so_far(client: Client, workload: str) -> list[Any]:
    try:
        return list(client.runs.all(workload))
    except UnknownWorkloadError:
        return []


@pytest.mark.parametrize("rank", [0, 1])
def test_worker_that_is_killed_leaves_a_run_with_its_outcome(
    cluster: Cluster, client: Client, workload: str, tmp_path: Path, *, rank: int
) -> None:
    loop = recorded(_killed_loop, workload, dataset_size=100)

    with pytest.raises(ray.train.TrainingFailedError):
        _trainer(loop, tmp_path, [], {"rank": rank}).fit()
    # A process beside the worker tells of it, perhaps after Ray has.
    (run,) = next(filter(None, (_runs_so_far(client, workload) for _ in range(_MAX_LOOKS))))

    assert run["status"] == "failed"
    assert run["configuration"]["workers"] == 2
    assert run["work"]["dataset_size"] == 100


def test_callback_knows_that_a_worker_was_killed(
    cluster: Cluster, client: Client, workload: str, tmp_path: Path
) -> None:
    callback = TrainfareCallback(workload)

    with pytest.raises(ray.train.TrainingFailedError):
        _trainer(_killed_loop, tmp_path, [callback], {"rank": 1}).fit()
    (run,) = client.runs.all(workload)

    assert run["status"] == "failed"


def test_callback_takes_what_other_versions_of_ray_tell(client: Client, workload: str) -> None:
    """Ray's internal hooks had other arguments in 2.46 and 2.49; an error would end the job."""
    callback = TrainfareCallback(workload, dataset_size=100, batch_size=20, epochs=1, workers=1)

    callback.after_controller_start()
    callback.after_report(metrics=[{}], checkpoint=None)
    callback.after_controller_finish(SimpleNamespace(error=None))

    assert [run["status"] for run in client.runs.all(workload)] == ["succeeded"]
