"""Measure distributed data-parallel training over gloo, one process and one core a worker."""

# No "from __future__ import annotations" here: DDP compares the annotations of its
# communication hook with the classes themselves and refuses strings.
import argparse
import os
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from families import FAMILIES, loss_of
from measuring import (
    LEARNING_RATE,
    WARM_UP_STEPS,
    Axes,
    Measurement,
    Profile,
    Trial,
    available_cores,
    cpu_model,
    in_random_order,
    machine_name,
    measure_all,
)
from torch import Tensor
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

AXES = {
    "cnn": Axes((4096, 6144, 10240, 16384), (32, 128, 512), (1, 2), (16, 24)),
    "mlp": Axes((16384, 24576, 40960, 65536), (64, 256, 1024), (1, 2), (512, 768)),
    "transformer": Axes((2048, 3072, 5120, 8192), (16, 64, 256), (1, 2), (64, 128)),
}


class ReductionClock:
    """Times how long the gradients' all-reduce delays a step.

    DDP reduces gradients in buckets while the backward pass still computes others, so only the
    part after the last gradient is ready makes the step longer. This is measured from handing
    over the last bucket to the end of its reduction, including the wait for slower workers.

    Parameters
    ----------
    workers
        Number of processes over which the gradients are averaged.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._handed_over_at = 0.0
        self._reduced_at = 0.0

    def reduce(
        self,
        _state: object,
        bucket: dist.GradBucket,  # type: ignore[name-defined]  # torch's stubs lack it
    ) -> torch.futures.Future[Tensor]:
        """Average one bucket of gradients; the communication hook of DDP."""
        gradients = bucket.buffer().div_(self._workers)
        self._handed_over_at = time.perf_counter()
        work = dist.all_reduce(gradients, async_op=True)
        future: torch.futures.Future[Tensor] = work.get_future().then(self._note_end)
        return future

    def _note_end(self, future: torch.futures.Future[Any]) -> Tensor:
        self._reduced_at = time.perf_counter()
        gradients: Tensor = future.value()[0]
        return gradients

    def exposed_seconds(self) -> float:
        """Return the seconds that the last step waited for its reductions."""
        return max(0.0, self._reduced_at - self._handed_over_at)


class Replica:
    """One worker's copy of the model, with its share of the data set in memory.

    Parameters
    ----------
    trial
        What is being measured.
    rank
        Number of this worker, from 0.
    """

    def __init__(self, trial: Trial, rank: int) -> None:
        torch.manual_seed(rank)
        family = FAMILIES[trial.family]
        share = len(range(rank, trial.dataset_size, trial.workers))
        self._inputs, self._targets = family.generate(share)
        self._local_batch_size = trial.batch_size // trial.workers
        self._clock = ReductionClock(trial.workers)
        self._model = DistributedDataParallel(family.build(trial.width))
        self._model.register_comm_hook(None, self._clock.reduce)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=LEARNING_RATE, momentum=0.9)

    def warm_up(self) -> None:
        """Take a few unmeasured steps, for first allocations and first use of kernels."""
        for _ in range(WARM_UP_STEPS):
            self._step(slice(self._local_batch_size), Measurement())

    def train(self, epochs: int) -> Measurement:
        """Train and return the measurement between the barriers before and after."""
        measurement = Measurement(communication_seconds=0.0)
        dist.barrier()
        measurement.started_at = datetime.now(UTC)
        began = time.perf_counter()
        for _ in range(epochs):
            for batch in torch.randperm(len(self._inputs)).split(self._local_batch_size):
                self._step(batch, measurement)
        dist.barrier()
        measurement.duration_seconds = time.perf_counter() - began
        return measurement

    def _step(self, batch: Tensor | slice, measurement: Measurement) -> None:
        began = time.perf_counter()
        inputs, targets = self._inputs[batch], self._targets[batch]
        loaded = time.perf_counter()
        loss = loss_of(self._model(inputs), targets)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        computed = time.perf_counter()
        exposed_s = self._clock.exposed_seconds()
        measurement.data_loading_seconds += loaded - began
        measurement.compute_seconds += computed - loaded - exposed_s
        measurement.communication_seconds = (measurement.communication_seconds or 0.0) + exposed_s


def run_worker(rank: int, trial: Trial, rendezvous: str, results: SimpleQueue[Measurement]) -> None:
    """Run one worker of a trial; rank 0 reports the measurement.

    Parameters
    ----------
    rank
        Number of this worker, from 0.
    trial
        What is being measured.
    rendezvous
        Address of the rendezvous.
    results
        Where rank 0 puts the measurement.
    """
    began = time.perf_counter()
    torch.set_num_threads(1)
    cores = available_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=trial.workers)
    replica = Replica(trial, rank)
    replica.warm_up()
    setup_seconds = time.perf_counter() - began
    measurement = replica.train(trial.epochs)
    measurement.setup_seconds = setup_seconds
    if rank == 0:
        results.put(measurement)
    dist.destroy_process_group()


def measure(trial: Trial) -> Measurement:
    """Execute a trial in separate processes and return the measurement of rank 0."""
    results: SimpleQueue[Measurement] = get_context("forkserver").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = f"file://{folder}/meeting"
        start_processes(
            run_worker,
            args=(trial, rendezvous, results),
            nprocs=trial.workers,
            start_method="forkserver",
        )
    return results.get()


def plan(families: list[str], workers: range, *, seed: int) -> list[Trial]:
    """Return all trials of the families whose batch is divisible by the number of workers."""
    trials = [
        trial
        for family in families
        for trial in AXES[family].for_workers(workers).trials(f"ddp-{family}-cpu", family)
        if trial.batch_size % trial.workers == 0
    ]
    return in_random_order(trials, seed=seed)


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="CSV file; its rows are kept")
    parser.add_argument("--families", nargs="+", choices=sorted(AXES), default=sorted(AXES))
    parser.add_argument("--max-workers", type=int, default=len(available_cores()))
    parser.add_argument("--seconds-budget", type=float, default=1200.0)
    parser.add_argument("--machine", default=machine_name(cpu_model()))
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Measure until everything is measured or the budget is used up."""
    arguments = read_arguments()
    # Inherited by the workers: one thread each, and no traffic beyond this machine.
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    get_context("forkserver").set_forkserver_preload(["torch", "torch.distributed"])
    trials = plan(arguments.families, range(1, arguments.max_workers + 1), seed=arguments.seed)
    profile = Profile(arguments.out, arguments.machine)
    measure_all(trials, profile, measure, seconds_budget=arguments.seconds_budget)


if __name__ == "__main__":
    main()
