"""Measure training on a single GPU over model, data set, batch size and precision."""

from __future__ import annotations

import argparse
import gc
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from families import FAMILIES, loss_of
from measuring import (
    LEARNING_RATE,
    WARM_UP_STEPS,
    Axes,
    Measurement,
    Profile,
    Trial,
    cpu_model,
    in_random_order,
    machine_name,
    measure_all,
)
from trainfare_client.collectors.energy import EnergyMeter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
AUTOCAST_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

AXES = {
    "cnn": Axes((16384, 32768, 65536), (128, 1024, 8192, 16384), (1, 2), (64, 128)),
    "mlp": Axes((65536, 131072, 262144), (256, 2048, 16384, 65536), (1, 2), (2048, 4096)),
    "transformer": Axes((16384, 32768, 65536), (64, 512, 4096, 16384), (1, 2), (256, 512)),
}


class Timeline:
    """Instants on the device's own clock, recorded without making the host wait.

    Parameters
    ----------
    device
        The device of the work; on a CPU the host's clock is used.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_gpu = device.type == "cuda"
        self._steps: list[tuple[torch.cuda.Event | float, ...]] = []

    def instant(self) -> torch.cuda.Event | float:
        """Return the instant at which all work queued so far will be done."""
        if not self._is_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add_step(self, *instants: torch.cuda.Event | float) -> None:
        """Add a step's instants: its start, the end of loading, its end."""
        self._steps.append(instants)

    def phases(self) -> tuple[float, float]:
        """Return the seconds of loading and of computing; the device must be idle."""
        loading = sum(_seconds_between(begin, loaded) for begin, loaded, _ in self._steps)
        computing = sum(_seconds_between(loaded, end) for _, loaded, end in self._steps)
        return loading, computing


def _seconds_between(begin: torch.cuda.Event | float, end: torch.cuda.Event | float) -> float:
    if isinstance(begin, float) or isinstance(end, float):
        assert isinstance(begin, float)
        assert isinstance(end, float)
        return end - begin
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / 1000.0


def wait_for(device: torch.device) -> None:
    """Wait until the device has done all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@cache
def data_of(family: str, samples: int) -> tuple[Tensor, Tensor]:
    """Return a family's data set, generated once and kept in host memory."""
    torch.manual_seed(0)
    return FAMILIES[family].generate(samples)


class Trainer:
    """A model on the device with its data set in host memory.

    Parameters
    ----------
    trial
        What is being measured.
    device
        Where the model trains.
    """

    def __init__(self, trial: Trial, device: torch.device) -> None:
        self._device = device
        self._batch_size = trial.batch_size
        self._inputs, self._targets = data_of(trial.family, trial.dataset_size)
        torch.manual_seed(0)
        self._model = FAMILIES[trial.family].build(trial.width).to(device)
        self._autocast = partial(
            torch.autocast,
            device.type,
            dtype=AUTOCAST_TYPES.get(trial.precision),
            enabled=trial.precision in AUTOCAST_TYPES,
        )
        self._scaler = torch.amp.GradScaler(device.type, enabled=trial.precision == "fp16")
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=LEARNING_RATE, momentum=0.9)

    def warm_up(self) -> None:
        """Take a few unmeasured steps, for first allocations and first use of kernels."""
        for _ in range(WARM_UP_STEPS):
            self._step(slice(self._batch_size), Timeline(self._device))
        wait_for(self._device)

    def train(self, epochs: int, measurement: Measurement) -> None:
        """Train and record what it took until the device was idle again."""
        timeline = Timeline(self._device)
        energy = EnergyMeter()
        energy.begin()
        measurement.started_at = datetime.now(UTC)
        began = time.perf_counter()
        for _ in range(epochs):
            for batch in torch.randperm(len(self._inputs)).split(self._batch_size):
                self._step(batch, timeline)
        wait_for(self._device)
        measurement.duration_seconds = time.perf_counter() - began
        watts = energy.mean_watts()
        if watts is not None:
            measurement.energy_joules = round(watts * measurement.duration_seconds, 3)
        measurement.data_loading_seconds, measurement.compute_seconds = timeline.phases()

    def _step(self, batch: Tensor | slice, timeline: Timeline) -> None:
        begin = timeline.instant()
        inputs = self._inputs[batch].to(self._device)
        targets = self._targets[batch].to(self._device)
        loaded = timeline.instant()
        with self._autocast():
            loss = loss_of(self._model(inputs), targets)
        self._optimizer.zero_grad()
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        timeline.add_step(begin, loaded, timeline.instant())


def allow_tf32(*, allowed: bool) -> None:
    """Set whether 32-bit matrix products may be computed in TF32."""
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed


def measure(trial: Trial, device: torch.device) -> Measurement:
    """Execute a trial on the device; running out of memory is a measurement too."""
    measurement = Measurement()
    allow_tf32(allowed=trial.precision == "tf32")
    began = time.perf_counter()
    try:
        trainer = Trainer(trial, device)
        trainer.warm_up()
        measurement.setup_seconds = time.perf_counter() - began
        trainer.train(trial.epochs, measurement)
    except torch.OutOfMemoryError:
        measurement.status = "out_of_memory"
        measurement.duration_seconds = time.perf_counter() - began
    if device.type == "cuda":
        measurement.gpu_type = torch.cuda.get_device_name(device)
        measurement.peak_gpu_memory_bytes = torch.cuda.max_memory_allocated(device)
    return measurement


def measure_alone(trial: Trial, device: torch.device) -> Measurement:
    """Measure after freeing the memory of earlier trials and resetting its peak."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    return measure(trial, device)


def axes_of(family: str, *, fraction: float, precisions: Sequence[str]) -> Axes:
    """Return a family's axes with a fraction of each data set and the given precisions."""
    axes = AXES[family]
    sizes = [max(1, round(size * fraction)) for size in axes.dataset_sizes]
    return replace(axes, dataset_sizes=sizes, precisions=precisions)


def plan(arguments: argparse.Namespace) -> list[Trial]:
    """Return all trials that the command line selects."""
    kind = "gpu" if arguments.device.type == "cuda" else arguments.device.type
    fraction, precisions = arguments.dataset_fraction, arguments.precisions
    trials = [
        trial
        for family in arguments.families
        for trial in axes_of(family, fraction=fraction, precisions=precisions).trials(
            f"{family}-{kind}", family
        )
    ]
    return in_random_order(trials, seed=arguments.seed)


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="CSV file; its rows are kept")
    parser.add_argument("--families", nargs="+", choices=sorted(AXES), default=sorted(AXES))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument(
        "--dataset-fraction", type=float, default=1.0, help="smaller data sets, to try the script"
    )
    parser.add_argument("--seconds-budget", type=float, default=1200.0)
    parser.add_argument("--machine", help="first part of the runs' identifiers")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Measure until everything is measured or the budget is used up."""
    arguments = read_arguments()
    device = arguments.device
    is_gpu = device.type == "cuda"
    processor = torch.cuda.get_device_name(device) if is_gpu else cpu_model()
    profile = Profile(arguments.out, arguments.machine or machine_name(processor))
    measure_all(
        plan(arguments),
        profile,
        partial(measure_alone, device=device),
        seconds_budget=arguments.seconds_budget,
    )


if __name__ == "__main__":
    main()
