"""Job traces: read from CSV, or generated like those of published GPU clusters."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from models import FloatArray

_NAMES = {
    "submitted": ("submitted_s", "submit_time", "submitted_at"),
    "duration": ("duration_s", "duration", "duration_seconds"),
    "gpus": ("gpus", "gpu_num", "workers"),
    "workload": ("workload", "name", "jobname", "user", "vc"),
}
_FEATURES = ("dataset_size", "batch_size", "epochs")
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How the duration depends on the workers: ``serial + parallel / w + exchange log2(w)``."""

    serial: float = 0.05
    exchange: float = 0.004

    def of(self, workers: FloatArray) -> FloatArray:
        """Return the relative durations on numbers of workers."""
        return self.serial + (1.0 - self.serial) / workers + self.exchange * np.log2(workers)


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a trace; `duration_s` is its true duration on its `gpus`."""

    ref: str
    workload: str
    submitted_s: float
    duration_s: float
    gpus: int
    features: Mapping[str, float] = field(default_factory=dict)
    shape: Shape = field(default_factory=Shape)

    def seconds_on(self, workers: int) -> float:
        """Return the true duration on another number of workers."""
        ratio = self.shape.of(np.array([float(workers), float(self.gpus)]))
        return float(self.duration_s * ratio[0] / ratio[1])


@dataclass(frozen=True, slots=True)
class Trace:
    """Past jobs, from which forecasts are learned, and jobs to replay."""

    past: list[Job]
    replayed: list[Job]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Properties of a generated trace: published orders of magnitude, and assumptions.

    It resembles published GPU clusters but is not a fit to their traces. Three figures are those of
    the Helios study for its GPU jobs (Hu et al. 2021, in its comparison with Philly and its section
    on jobs): the median duration, the mean duration, and 3.72 GPUs per job on average. They only
    represent the shape of the distribution; your own trace (``--trace``) is preferable. All else is
    an assumption, and ``--vary`` shows what depends on it.

    Parameters
    ----------
    median_s, mean_s
        Median and mean duration, 206 s and 6,652 s in the study; a log-normal distribution with
        both is an assumption.
    shortest_s, longest_s
        Limits to which durations are clipped, so that no single job decides a replay; an
        assumption.
    gpu_counts, gpu_shares
        Numbers of GPUs that jobs ask for, and their shares. That most ask for one and that the mean
        is 3.7 follows the study; the shares of the others are an assumption.
    rhythm
        Amplitude of the daily rhythm of submissions, as a share of their mean; an assumption (both
        studies show a rhythm).
    early_end
        Share of the jobs that end early, at a random moment; an assumption (Jeon et al. 2019 and
        the Helios study report larger shares of failed and cancelled jobs, of which many end at
        once and are not worth a replay).
    noise
        Log standard deviation of a run around its workload's law; an assumption.

    References
    ----------
    Hu, Sun, Yan, Wen, Zhang (2021), Characterization and prediction of deep learning workloads in
    large-scale GPU datacenters, SC'21. Jeon, Venkataraman, Phanishayee, Qian, Xiao, Yang (2019),
    Analysis of large-scale multi-tenant GPU clusters for DNN training workloads, USENIX ATC.
    """

    median_s: float = 206.0
    mean_s: float = 6652.0
    shortest_s: float = 10.0
    longest_s: float = 1.0 * _DAY_S
    gpu_counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    gpu_shares: tuple[float, ...] = (0.62, 0.07, 0.08, 0.17, 0.04, 0.02)
    rhythm: float = 0.5
    early_end: float = 0.1
    noise: float = 0.15

    @property
    def sigma(self) -> float:
        """The log standard deviation of a log-normal with this mean and median."""
        return float(np.sqrt(2.0 * np.log(self.mean_s / self.median_s)))


@dataclass(frozen=True, slots=True)
class _Template:
    """A workload that users submit repeatedly."""

    name: str
    unit_s: float
    shape: Shape

    def seconds(self, gpus: int, size: float, epochs: float) -> float:
        relative = float(self.shape.of(np.array([float(gpus)]))[0])
        return 5.0 + self.unit_s * size * epochs * relative


def generate(
    statistics: Statistics,
    *,
    jobs: int,
    workloads: int,
    past_runs: int,
    capacity: int,
    load: float,
    seed: int,
) -> Trace:
    """Return a trace whose replayed jobs need `load` times the available GPUs.

    Durations are drawn first, and the epochs of each job follow from its workload's law, so that
    durations have the published distribution but depend on what a forecast can know. It cannot know
    the noise of each run and whether the run ends early.
    """
    rng = np.random.default_rng(seed)
    templates = [
        _Template(
            f"workload-{index}",
            float(rng.lognormal(-6.0, 1.0)),
            Shape(float(rng.uniform(0.02, 0.15)), float(rng.uniform(0.0, 0.01))),
        )
        for index in range(workloads)
    ]
    popularity = rng.dirichlet(np.full(workloads, 1.0))
    past = [
        _job(rng, statistics, template, f"past-{template.name}-{run}", 0.0, capacity, early=False)
        for template in templates
        for run in range(past_runs)
    ]
    chosen = rng.choice(workloads, size=jobs, p=popularity)
    drawn = [
        _job(rng, statistics, templates[choice], f"job-{index}", 0.0, capacity, early=True)
        for index, choice in enumerate(chosen.tolist())
    ]
    work = sum(job.duration_s * job.gpus for job in drawn)
    instants = _instants(rng, jobs, work / (load * capacity), statistics.rhythm)
    replayed = [
        _submitted_at(job, submitted_s)
        for job, submitted_s in zip(drawn, instants.tolist(), strict=True)
    ]
    return Trace(past, replayed)


def _job(
    rng: np.random.Generator,
    statistics: Statistics,
    template: _Template,
    ref: str,
    submitted_s: float,
    capacity: int,
    *,
    early: bool,
) -> Job:
    gpus = min(int(rng.choice(statistics.gpu_counts, p=statistics.gpu_shares)), capacity)
    target_s = rng.lognormal(np.log(statistics.median_s), statistics.sigma)
    target_s = float(np.clip(target_s, statistics.shortest_s, statistics.longest_s))
    size = float(rng.choice([1e4, 5e4, 2.5e5]))
    epochs = max((target_s - 5.0) / (template.seconds(gpus, size, 1.0) - 5.0), 1e-6)
    seconds = template.seconds(gpus, size, epochs) * float(rng.lognormal(0.0, statistics.noise))
    if early and rng.random() < statistics.early_end:
        seconds *= float(rng.uniform(0.02, 1.0))
    features = {"dataset_size": size, "epochs": epochs}
    return Job(ref, template.name, submitted_s, seconds, gpus, features, template.shape)


def _submitted_at(job: Job, submitted_s: float) -> Job:
    return Job(
        job.ref, job.workload, submitted_s, job.duration_s, job.gpus, job.features, job.shape
    )


def _instants(rng: np.random.Generator, jobs: int, span_s: float, rhythm: float) -> FloatArray:
    """Return instants of submission within a span, most frequent in the middle of each day."""
    days = max(round(span_s / _DAY_S), 1)
    grid = np.linspace(0.0, 1.0, 10_001)
    density = 1.0 + rhythm * np.sin(2.0 * np.pi * (days * grid - 0.25))
    cumulative = np.cumsum(density) / density.sum()
    return np.interp(np.sort(rng.random(jobs)), cumulative, grid) * span_s


def read(path: Path, *, history: float, capacity: int) -> Trace:
    """Return the trace of a CSV file: the first `history` share is the past.

    Nothing is learned from a job of the past that had not ended when the first replayed one was
    submitted.

    Columns: `submitted_s` (or `submit_time`), `duration_s` (or `duration`), `gpus` (or
    `gpu_num`), `workload` (or `name`, `user`, `vc`), and optionally `dataset_size`, `batch_size`,
    `epochs` and `param.NAME` with numbers, `state` (only completed jobs count). Durations on
    other numbers of workers than those of the trace follow `Shape`, an assumption.

    Raises
    ------
    SystemExit
        If a column is missing, no job is left, or none of the past had ended.
    """
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns = _columns(reader.fieldnames or [])
        jobs = sorted(_rows(reader, columns, capacity), key=lambda job: job.submitted_s)
    if not jobs:
        raise SystemExit(f"{path} has no job with GPUs and a duration.")
    cut = int(history * len(jobs))
    start = jobs[min(cut, len(jobs) - 1)].submitted_s
    past = [job for job in jobs[:cut] if job.submitted_s + job.duration_s <= start]
    if not past or cut == len(jobs):
        raise SystemExit(f"{path} has no job that ended before another one was submitted.")
    return Trace(past, [_submitted_at(job, job.submitted_s - start) for job in jobs[cut:]])


def _columns(names: Sequence[str]) -> dict[str, str]:
    columns = {}
    for role, candidates in _NAMES.items():
        column = next((name for name in candidates if name in names), None)
        if column is None:
            raise SystemExit(f"The trace lacks a column {' or '.join(candidates)}.")
        columns[role] = column
    return columns


def _rows(
    reader: "csv.DictReader[str]", columns: Mapping[str, str], capacity: int
) -> Iterator[Job]:
    for index, row in enumerate(reader):
        gpus = int(float(row[columns["gpus"]] or 0))
        duration = float(row[columns["duration"]] or 0)
        state = (row.get("state") or "completed").casefold()
        if gpus < 1 or gpus > capacity or duration <= 0 or state not in {"completed", "pass"}:
            continue
        features = {
            name: float(value)
            for name, value in row.items()
            if value and (name in _FEATURES or name.startswith("param."))
        }
        submitted = _seconds(row[columns["submitted"]])
        yield Job(f"job-{index}", row[columns["workload"]], submitted, duration, gpus, features)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()
