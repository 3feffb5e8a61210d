"""Measure Ray Train jobs on a local Ray cluster of several nodes with the project's collector.

Each job trains a small model with a number of workers, a data set size and a number of CPUs per
worker. The collector uploads its run to a running service; at the end the script requests a fit
and exports the runs.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import ray
import ray.train
import torch
from ray.cluster_utils import Cluster
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from trainfare_client import Client
from trainfare_client.collectors.torch import TorchCollector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NODES = 4
CPUS_PER_NODE = 2
BATCH_SIZE = 256
FEATURES, WIDTH, CLASSES = 784, 512, 10
OBJECT_STORE_BYTES = 100_000_000
WORKERS = (1, 2, 3, 4)
SIZES = (8192, 16384, 32768, 65536)
CPUS_PER_WORKER = (1, 2)


@dataclass(frozen=True)
class Trial:
    """One job: its configuration and work, and its number among repetitions."""

    workers: int
    dataset_size: int
    cpus_per_worker: int
    repetition: int = 0

    @property
    def name(self) -> str:
        """Return the id of the job's run."""
        parts = (self.workers, self.dataset_size, self.cpus_per_worker, self.repetition)
        return "ray-" + "-".join(str(part) for part in parts)


def plan(repeated: int, seed: int) -> list[Trial]:
    """Return all configurations and the repetitions of some of them, in random order."""
    generator = random.Random(seed)
    grid = [Trial(*point) for point in itertools.product(WORKERS, SIZES, CPUS_PER_WORKER)]
    repetitions = [
        Trial(trial.workers, trial.dataset_size, trial.cpus_per_worker, 1)
        for trial in generator.sample(grid, repeated)
    ]
    trials = [*grid, *repetitions]
    generator.shuffle(trials)
    return trials


def train_loop(config: dict[str, Any]) -> None:
    """Train on one worker; every worker runs this."""
    if config["priority"]:
        raise_priority(config["priority"])
    torch.set_num_threads(config["cpus_per_worker"])
    torch.manual_seed(1)
    workers = ray.train.get_context().get_world_size()
    inputs = torch.randn(config["dataset_size"], FEATURES)
    dataset = TensorDataset(inputs, inputs.abs().sum(1).long() % CLASSES)
    loader: Any = DataLoader(
        dataset, batch_size=BATCH_SIZE // workers, sampler=_sampler(dataset, workers)
    )
    layers = (nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
    model: Any = nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))
    if workers > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    collector = TorchCollector(
        config["workload"],
        model=model,
        nodes=config["nodes"],
        batch_size=BATCH_SIZE,
        external_id=config["external_id"],
        parameters={"cpus_per_worker": config["cpus_per_worker"]},
    )
    for batch, targets in collector.watch(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), targets).backward()
        optimizer.step()
    collector.finish()


def raise_priority(nice: int) -> None:
    """Raise the priority of this process's threads on a shared machine; needs the permission."""
    for thread in Path("/proc/self/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)


def _sampler(dataset: TensorDataset, workers: int) -> DistributedSampler[Any] | None:
    return DistributedSampler(dataset, seed=1) if workers > 1 else None


def measure(trial: Trial, workload: str, folder: str, priority: int) -> None:
    """Run one job on the cluster, one worker per node."""
    TorchTrainer(
        train_loop,
        train_loop_config={
            "workload": workload,
            "dataset_size": trial.dataset_size,
            "cpus_per_worker": trial.cpus_per_worker,
            "nodes": trial.workers,
            "external_id": trial.name,
            "priority": priority,
        },
        scaling_config=ray.train.ScalingConfig(
            num_workers=trial.workers,
            resources_per_worker={"CPU": trial.cpus_per_worker},
            placement_strategy="SPREAD",
        ),
        run_config=ray.train.RunConfig(storage_path=folder),
    ).fit()


def missing(trials: Sequence[Trial], client: Client, workload: str) -> Iterator[Trial]:
    """Yield the trials whose runs are not stored yet, so that a restart continues."""
    workloads = {document["workload"] for document in client.workloads.all()}
    runs = client.runs.all(workload) if workload in workloads else ()
    names = {run["external_id"] for run in runs}
    yield from (trial for trial in trials if trial.name not in names)


def main() -> None:
    """Measure, request a fit, export the runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="ray-mlp-cpu")
    parser.add_argument("--repeated", type=int, default=8, help="configurations measured twice")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--priority", type=int, default=0, help="nice value of the trainings")
    parser.add_argument("--seconds-budget", type=float, default=1200.0)
    parser.add_argument("--out", type=Path, required=True, help="CSV file of all runs")
    arguments = parser.parse_args()
    cluster = Cluster(initialize_head=True, head_node_args=_node(include_dashboard=False))
    for _ in range(NODES - 1):
        cluster.add_node(**_node())
    # Ray's workers use the driver's working directory and find the service as it does.
    # More threads than cores: they must not spin while they wait.
    passive = {"env_vars": {"OMP_WAIT_POLICY": "PASSIVE"}}
    ray.init(address=cluster.address, log_to_driver=False, runtime_env=passive)
    started_at = time.monotonic()
    with Client() as client, tempfile.TemporaryDirectory() as folder:
        for trial in missing(plan(arguments.repeated, arguments.seed), client, arguments.workload):
            if time.monotonic() - started_at > arguments.seconds_budget:
                print("The time is used up; start again to go on.")
                break
            measure(trial, arguments.workload, folder, arguments.priority)
            print(f"{time.monotonic() - started_at:6.0f} s {trial}", flush=True)
        fit = client.fits.run(arguments.workload, seed=1)
        print(
            fit["state"],
            [candidate for candidate in fit["candidates"] or () if candidate.get("weight")],
        )
        export(arguments.workload, arguments.out)
    ray.shutdown()
    cluster.shutdown()


def _node(**options: Any) -> dict[str, Any]:
    return {"num_cpus": CPUS_PER_NODE, "object_store_memory": OBJECT_STORE_BYTES, **options}


def export(workload: str, file: Path) -> None:
    """Write the service's export of a workload's runs to a file."""
    url = os.environ.get("TRAINFARE_URL", "http://127.0.0.1:8000")
    runs_url = f"{url}/v1/workloads/{workload}/runs"
    response = httpx.get(runs_url, params={"page_size": 1000}, headers={"Accept": "text/csv"})
    file.write_bytes(response.raise_for_status().content)


if __name__ == "__main__":
    sys.exit(main())
