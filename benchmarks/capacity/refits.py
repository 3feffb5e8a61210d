"""Simulates the queue of fits while all workloads are refitted and users request further fits."""

import math
import random
import statistics
from collections.abc import Generator
from dataclasses import dataclass

import simpy

Events = Generator[simpy.Event, object, None]


@dataclass(frozen=True, slots=True)
class Demand:
    """The fitters' work: one refit of all workloads, and fits requested meanwhile."""

    workloads: int
    fits_per_hour: float
    fit_s: float
    spread: float
    """Standard deviation of the logarithm of a fit's seconds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for a number of cores."""

    cores: int
    drained_h: float
    wait_during_s: float
    """The 95th percentile of the wait of requests while all workloads are refitted."""
    wait_after_s: float


def simulate(
    demand: Demand, cores: int, *, hours: float, portions: int = 1, seed: int = 0
) -> Outcome:
    """Return the outcome of refitting all in `hours`; the queue is first come, first served.

    The refits are requested in equal portions at equal intervals, the first at the start.
    """
    queue = _Queue(demand, cores, seed)
    queue.environment.process(queue.refit_all(portions, 3600 * hours / portions))
    queue.environment.process(queue.request_at_random())
    queue.environment.run(until=3600 * hours)
    is_drained = len(queue.ended) == demand.workloads
    drained_s = max(queue.ended) if is_drained else math.inf
    return Outcome(
        cores,
        drained_s / 3600,
        _percentile_95([wait for requested_at, wait in queue.waits if requested_at < drained_s]),
        _percentile_95([wait for requested_at, wait in queue.waits if requested_at >= drained_s]),
    )


class _Queue:
    """The fitters' cores and the fits that wait for them."""

    def __init__(self, demand: Demand, cores: int, seed: int) -> None:
        self.environment = simpy.Environment()
        self.ended: list[float] = []
        self.waits: list[tuple[float, float]] = []
        self._demand = demand
        self._random = random.Random(seed)
        self._fitters = simpy.Resource(self.environment, cores)

    def _compute(self) -> Events:
        # The mean of a log-normal is exp(mu + spread^2 / 2).
        mean = self._demand.fit_s / math.exp(self._demand.spread**2 / 2)
        yield self.environment.timeout(mean * self._random.lognormvariate(0, self._demand.spread))

    def _refit(self) -> Events:
        with self._fitters.request() as turn:
            yield turn
            yield from self._compute()
        self.ended.append(self.environment.now)

    def _request(self) -> Events:
        requested_at = self.environment.now
        with self._fitters.request() as turn:
            yield turn
            self.waits.append((requested_at, self.environment.now - requested_at))
            yield from self._compute()

    def refit_all(self, portions: int, interval_s: float) -> Events:
        """Request refits of all workloads, one portion at a time."""
        for portion in range(portions):
            for _ in range(portion, self._demand.workloads, portions):
                self.environment.process(self._refit())
            yield self.environment.timeout(interval_s)

    def request_at_random(self) -> Events:
        """Request single fits at random."""
        while True:
            pause_s = 3600 * self._random.expovariate(self._demand.fits_per_hour)
            yield self.environment.timeout(pause_s)
            self.environment.process(self._request())


def _percentile_95(waits: list[float]) -> float:
    """Return the 95th percentile, NaN if there are too few."""
    return statistics.quantiles(waits, n=20)[-1] if len(waits) > 1 else float("nan")
