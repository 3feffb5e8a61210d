"""Shared by the measuring scripts: the plan of trials, their order, and the CSV of runs."""

from __future__ import annotations

import csv
import os
import platform
import random
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

WARM_UP_STEPS = 3
LEARNING_RATE = 0.01

COLUMNS = (
    "workload",
    "external_id",
    "status",
    "duration_seconds",
    "started_at",
    "gpu_type",
    "instance_type",
    "provider",
    "region",
    "nodes",
    "workers",
    "dataset_size",
    "batch_size",
    "epochs",
    "cost_usd",
    "param.width",
    "param.precision",
    "phase.setup_seconds",
    "phase.data_loading_seconds",
    "phase.compute_seconds",
    "phase.communication_seconds",
    "label.family",
    "label.repetition",
    "label.cpu_model",
    "label.cores",
    "label.torch_version",
    "resource.peak_gpu_memory_bytes",
    "resource.energy_joules",
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration with its work, to measure once."""

    workload: str
    family: str
    workers: int
    dataset_size: int
    batch_size: int
    epochs: int
    width: int
    precision: str = "fp32"
    repetition: int = 1

    @override
    def __str__(self) -> str:
        return (
            f"{self.workload}/p{self.workers}-n{self.dataset_size}-b{self.batch_size}"
            f"-e{self.epochs}-w{self.width}-{self.precision}-r{self.repetition}"
        )


@dataclass(frozen=True, slots=True)
class Axes:
    """The values of each axis at which a family is measured."""

    dataset_sizes: Sequence[int]
    batch_sizes: Sequence[int]
    epochs: Sequence[int]
    widths: Sequence[int]
    workers: Sequence[int] = (1,)
    precisions: Sequence[str] = ("fp32",)

    def for_workers(self, workers: Sequence[int]) -> Axes:
        """Return the same axes with the given numbers of workers."""
        return replace(self, workers=workers)

    def trials(self, workload: str, family: str) -> Iterator[Trial]:
        """Yield the full factorial grid, one trial per configuration."""
        grid = product(
            self.workers,
            self.dataset_sizes,
            self.batch_sizes,
            self.epochs,
            self.widths,
            self.precisions,
        )
        for point in grid:
            yield Trial(workload, family, *point)


@dataclass(slots=True)
class Measurement:
    """The result of one trial as measured by rank 0."""

    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: str = "succeeded"
    duration_seconds: float = 0.0
    setup_seconds: float = 0.0
    data_loading_seconds: float = 0.0
    compute_seconds: float = 0.0
    communication_seconds: float | None = None
    gpu_type: str = ""
    peak_gpu_memory_bytes: int | None = None
    energy_joules: float | None = None


def in_random_order(trials: Iterable[Trial], *, seed: int) -> list[Trial]:
    """Return the trials in random order, every fourth of them three times.

    The order is random so that a drift of the machine does not align with an axis. Repetitions
    are shuffled in as well, since two in a row would share the machine's momentary state.
    """
    generator = random.Random(seed)
    planned = list(trials)
    generator.shuffle(planned)
    repetitions = [replace(trial, repetition=r) for trial in planned[::4] for r in (2, 3)]
    planned += repetitions
    generator.shuffle(planned)
    return planned


def cpu_model() -> str:
    """Return the processor's name as the kernel reports it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        match = re.search(r"^model name\s*:\s*(.+)$", information.read_text(), re.MULTILINE)
        if match:
            return match.group(1).strip()
    return platform.processor() or platform.machine()


def available_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine_name(processor: str) -> str:
    """Return a short name of the machine for the runs' identifiers."""
    slug = re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-")
    return f"{slug}-{len(available_cores())}c"


class Profile:
    """A CSV file of runs that grows by one row per run and knows which it already contains.

    Parameters
    ----------
    path
        The file; it is created with its header if missing.
    machine
        Name of the machine; the first part of each run's identifier.
    """

    def __init__(self, path: Path, machine: str) -> None:
        self._path = path
        self._machine = machine
        self._labels = (cpu_model(), len(available_cores()), torch.__version__)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(COLUMNS)
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise ValueError(f"{path} has other columns than this script writes.")
            self._measured = {row["external_id"] for row in reader}

    def __contains__(self, trial: Trial) -> bool:
        return self.external_id(trial) in self._measured

    def external_id(self, trial: Trial) -> str:
        """Return the run's identifier, which is the same whenever the trial is planned again."""
        return f"{self._machine}/{trial}"

    def add(self, trial: Trial, measurement: Measurement) -> None:
        """Append a run and flush it, so that it survives an interruption."""
        identifier = self.external_id(trial)
        processor, cores, version = self._labels
        row: dict[str, object] = {
            "workload": trial.workload,
            "external_id": identifier,
            "status": measurement.status,
            "started_at": measurement.started_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "gpu_type": measurement.gpu_type,
            "nodes": 1,
            "workers": trial.workers,
            "dataset_size": trial.dataset_size,
            "batch_size": trial.batch_size,
            "epochs": trial.epochs,
            "param.width": trial.width,
            "param.precision": trial.precision,
            "label.family": trial.family,
            "label.repetition": trial.repetition,
            "label.cpu_model": processor,
            "label.cores": cores,
            "label.torch_version": version,
            "resource.peak_gpu_memory_bytes": measurement.peak_gpu_memory_bytes,
            "resource.energy_joules": measurement.energy_joules,
            **_seconds_of(measurement),
        }
        self._append([row.get(column) for column in COLUMNS])
        self._measured.add(identifier)

    def _append(self, cells: Iterable[object]) -> None:
        with self._path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(cells)


def _seconds_of(measurement: Measurement) -> dict[str, str]:
    if measurement.status != "succeeded":
        # The phases of a failed run are unknown, and unknown values are left out, not 0.
        return {"duration_seconds": f"{measurement.duration_seconds:.6f}"}
    seconds = {
        "duration_seconds": measurement.duration_seconds,
        "phase.setup_seconds": measurement.setup_seconds,
        "phase.data_loading_seconds": measurement.data_loading_seconds,
        "phase.compute_seconds": measurement.compute_seconds,
        "phase.communication_seconds": measurement.communication_seconds,
    }
    return {name: f"{value:.6f}" for name, value in seconds.items() if value is not None}


def measure_all(
    trials: Sequence[Trial],
    profile: Profile,
    measure: Callable[[Trial], Measurement],
    *,
    seconds_budget: float,
) -> None:
    """Measure trials in order until the budget is used up, and report each on stderr.

    Parameters
    ----------
    trials
        What to measure; trials already in the profile are skipped.
    profile
        Where every run is written as soon as it ends.
    measure
        Executes one trial.
    seconds_budget
        No trial starts after this many seconds.
    """
    remaining = [trial for trial in trials if trial not in profile]
    print(
        f"{len(trials) - len(remaining)} of {len(trials)} runs are there already", file=sys.stderr
    )
    began = time.monotonic()
    for number, trial in enumerate(remaining, start=1):
        elapsed = time.monotonic() - began
        if elapsed > seconds_budget:
            print(f"budget spent, {len(remaining) - number + 1} runs not measured", file=sys.stderr)
            return
        measurement = measure(trial)
        profile.add(trial, measurement)
        print(
            f"[{number}/{len(remaining)} {elapsed:.0f}s] {trial} "
            f"{measurement.status} {measurement.duration_seconds:.3f}s",
            file=sys.stderr,
            flush=True,
        )
