"""Discrete-event replays of a trace: fixed GPUs per job in queue order, or elastic ones."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy

from app.decisions.allocation import NOTHING, Options, allocate_one_kind
from benchmarks.scheduling.forecasting import Forecaster
from benchmarks.scheduling.traces import Job

Events = Generator[simpy.Event, object, None]


@dataclass(slots=True)
class Outcome:
    """Start and end of each job by its name, and the GPU-seconds used."""

    jobs: Sequence[Job]
    capacity: int
    starts: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    gpu_seconds: float = 0.0


def replay_fixed(
    jobs: Sequence[Job], capacity: int, key: Callable[[Job], float] | None = None
) -> Outcome:
    """Return the outcome if each job gets exactly the GPUs that it asks for, until its end.

    Parameters
    ----------
    jobs
        Jobs in the order of submission.
    capacity
        The number of GPUs.
    key
        The waiting job with the smallest key goes first, without overtaking if it does not fit;
        None: first come, first served.
    """
    outcome = Outcome(jobs, capacity)
    environment = simpy.Environment()
    cluster = _FixedCluster(environment, outcome, key)
    environment.process(_submit(environment, jobs, cluster.submit))
    environment.run()
    return outcome


def _submit(
    environment: simpy.Environment, jobs: Sequence[Job], submit: Callable[[Job], None]
) -> Events:
    for job in jobs:
        yield environment.timeout(max(job.submitted_s - environment.now, 0.0))
        submit(job)


class _FixedCluster:
    """GPUs that jobs hold from their start to their end."""

    def __init__(
        self,
        environment: simpy.Environment,
        outcome: Outcome,
        key: Callable[[Job], float] | None,
    ) -> None:
        self._environment, self._outcome, self._key = environment, outcome, key
        self._free = outcome.capacity
        self._waiting: list[Job] = []

    def submit(self, job: Job) -> None:
        """Queue a job."""
        self._waiting.append(job)
        self._start()

    def _start(self) -> None:
        if self._key is not None:
            self._waiting.sort(key=self._key)
        while self._waiting and self._waiting[0].gpus <= self._free:
            job = self._waiting.pop(0)
            self._free -= job.gpus
            self._outcome.starts[job.ref] = self._environment.now
            self._environment.process(self._run(job))

    def _run(self, job: Job) -> Events:
        yield self._environment.timeout(job.duration_s)
        self._outcome.ends[job.ref] = self._environment.now
        self._outcome.gpu_seconds += job.duration_s * job.gpus
        self._free += job.gpus
        self._start()


@dataclass(slots=True)
class _ActiveJob:
    """An elastic job: its progress, its workers, and until when a restart delays it."""

    job: Job
    counts: list[int]
    forecast_s: Mapping[int, float]
    progress: float = 0.0
    workers: int = 0
    delayed_until: float = 0.0

    def ends_at(self, now: float) -> float:
        """Return when it ends on its present workers."""
        remaining_s = (1.0 - self.progress) * self.job.seconds_on(self.workers)
        return max(now, self.delayed_until) + remaining_s


class _ElasticCluster:
    """GPUs that are reallocated whenever a job arrives or ends."""

    def __init__(
        self,
        environment: simpy.Environment,
        outcome: Outcome,
        forecasts: Mapping[str, Mapping[int, float]],
        restart_s: float,
    ) -> None:
        self._environment, self._outcome = environment, outcome
        self._forecasts, self._restart_s = forecasts, restart_s
        self._active: list[_ActiveJob] = []
        self._updated_s = 0.0
        self._changed = environment.event()

    def submit(self, job: Job) -> None:
        """Add a job."""
        forecasts = self._forecasts[job.ref]
        self._active.append(_ActiveJob(job, sorted(forecasts), forecasts))
        if not self._changed.triggered:
            self._changed.succeed()

    def run(self) -> Events:
        """Allocate, wait for the next arrival or end, and repeat."""
        while True:
            self._allocate()
            running = [active for active in self._active if active.workers]
            waits: list[simpy.Event] = [self._changed]
            if running:
                soonest = min(active.ends_at(self._environment.now) for active in running)
                waits.append(self._environment.timeout(max(soonest - self._environment.now, 0.0)))
            yield self._environment.any_of(waits)
            if self._changed.triggered:
                self._changed = self._environment.event()
            self._advance()

    def _advance(self) -> None:
        now = self._environment.now
        for active in self._active:
            if active.workers:
                self._outcome.gpu_seconds += active.workers * (now - self._updated_s)
                worked = max(now - max(active.delayed_until, self._updated_s), 0.0)
                active.progress += worked / active.job.seconds_on(active.workers)
        for active in [active for active in self._active if active.progress >= 1.0 - 1e-9]:
            self._active.remove(active)
            self._outcome.ends[active.job.ref] = now
        self._updated_s = now

    def _allocate(self) -> None:
        now = self._environment.now
        choice = _allocated_workers(self._active, self._outcome.capacity, self._restart_s)
        for active, workers in zip(self._active, choice, strict=True):
            if workers and workers != active.workers:
                is_restart = active.job.ref in self._outcome.starts
                self._outcome.starts.setdefault(active.job.ref, now)
                active.delayed_until = now + (self._restart_s if is_restart else 0.0)
            active.workers = workers
        self._updated_s = now


def _allocated_workers(active: Sequence[_ActiveJob], capacity: int, restart_s: float) -> list[int]:
    """Return the workers of each job that complete the most jobs per hour, by the forecasts."""
    if not active:
        return []
    rows = [
        (index, count, item.forecast_s[count], item)
        for index, item in enumerate(active)
        for count in item.counts
    ]
    seconds = np.array(
        [
            max(1.0 - item.progress, 0.02) * forecast
            + (restart_s if item.progress > 0 and count != item.workers else 0.0)
            for _, count, forecast, item in rows
        ]
    )
    index, gpus = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    options = Options(index, np.zeros_like(index), gpus, -1.0 / seconds)
    solution = allocate_one_kind(options, len(active), capacity, np.ones(len(active)))
    assert solution is not None
    return [0 if row == NOTHING else int(gpus[row]) for row in solution.choice.tolist()]


def replay_elastic(
    jobs: Sequence[Job],
    capacity: int,
    forecaster: Forecaster,
    *,
    restart_s: float = 60.0,
    stretch: int = 2,
) -> Outcome:
    """Return the outcome if GPUs are reallocated whenever a job arrives or ends.

    Parameters
    ----------
    jobs
        Jobs in the order of submission.
    capacity
        The number of GPUs.
    forecaster
        The basis of allocations; the jobs progress by their true durations.
    restart_s
        Seconds that a change costs a job that has begun.
    stretch
        The most GPUs that a job may get, as a multiple of those that it asks for; at least 1.
    """
    outcome = Outcome(jobs, capacity)
    environment = simpy.Environment()
    counts = {job.ref: _counts(min(job.gpus * stretch, capacity)) for job in jobs}
    forecasts = _all_forecasts(jobs, counts, forecaster)
    cluster = _ElasticCluster(environment, outcome, forecasts, restart_s)
    environment.process(_submit(environment, jobs, cluster.submit))
    environment.process(cluster.run())
    environment.run()
    return outcome


def _counts(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length())]


def _all_forecasts(
    jobs: Sequence[Job], counts: Mapping[str, list[int]], forecaster: Forecaster
) -> dict[str, dict[int, float]]:
    pairs = [(job, count) for job in jobs for count in counts[job.ref]]
    seconds = forecaster.expected_seconds(
        [job for job, _ in pairs], [count for _, count in pairs]
    ).tolist()
    forecasts: dict[str, dict[int, float]] = {job.ref: {} for job in jobs}
    for (job, count), forecast_s in zip(pairs, seconds, strict=True):
        forecasts[job.ref][count] = forecast_s
    return forecasts
