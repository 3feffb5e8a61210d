"""How often the CI gate is wrong.

Simulated workloads with known laws are uploaded, fitted by the engine and reported on, run after
run, through the services on a separate database: without a change, with a slow-down in one report,
with a small one that stays, and on another number of workers than in the history. Noise is a share
of the duration, plus seconds where jobs wait for their start.

    python -m benchmarks.gate --workloads 20 --reports 100
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf, log2, sqrt
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from app.api.documents.ci import report_document
from app.domain.access import DEFAULT_PROJECT
from app.domain.ci import CiReportRequest
from app.domain.fits import FitRequest
from app.domain.identifiers import Slug
from app.fitter import Fitter
from app.services.computing.task import InProcessComputer
from app.services.context import ServiceContext
from app.services.fitting import FittingService
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import migrate

_DRIFT_RUNS = 20


class Clock:
    """A clock that advances by a minute with every report."""

    def __init__(self) -> None:
        self.instant = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the present instant."""
        return self.instant

    def advance(self) -> None:
        """Advance by a minute."""
        self.instant += timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Law:
    """Seconds of a job: a part that workers share, a part that they do not, synchronisation."""

    shared: float
    serial: float
    synchronisation: float

    def seconds(self, workers: int, size: float) -> float:
        """Return the duration without noise."""
        waiting = self.synchronisation * sqrt(size) * log2(workers + 1)
        return self.shared * size / workers + self.serial + waiting


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of repetitions of a run: a log deviation, and the mean of exponential seconds.

    The log is distributed as Student's t with the given degrees of freedom (infinite: normal).
    """

    relative: float
    jitter_seconds: float
    tail_degrees: float = inf

    def added_to(self, seconds: float, rng: np.random.Generator) -> float:
        """Return the seconds of one run."""
        run = seconds * float(np.exp(self.relative * self._deviate(rng)))
        return run + self.jitter_seconds * float(rng.exponential())

    def _deviate(self, rng: np.random.Generator) -> float:
        """Return a number of mean 0 and deviation 1."""
        if self.tail_degrees == inf:
            return float(rng.standard_normal())
        spread = sqrt(self.tail_degrees / (self.tail_degrees - 2))
        return float(rng.standard_t(self.tail_degrees)) / spread


class Simulation:
    """One workload with a history and a published regressor."""

    def __init__(
        self,
        services: Services,
        clock: Clock,
        name: str,
        seed: int,
        workers: tuple[int, ...],
        noise: Noise,
    ) -> None:
        self._services, self._clock, self._name = services, clock, Slug(name)
        self._workers, self._noise = workers, noise
        self.rng = np.random.default_rng(seed)
        scale = float(np.exp(self.rng.normal(-1, 1)))
        self.law = Law(
            scale, scale * self.rng.uniform(0, 200), scale * float(self.rng.uniform(0, 2))
        )

    def document(self, factor: float = 1.0, workers: int | None = None) -> dict[str, object]:
        """Return a run like those of the history, or on another number of workers."""
        count = workers or int(self.rng.choice(self._workers))
        size = float(self.rng.choice([2000.0, 4000.0, 8000.0]))
        seconds = self._noise.added_to(self.law.seconds(count, size) * factor, self.rng)
        return {
            "duration_seconds": seconds,
            "configuration": {"gpu_type": "T4", "workers": count},
            "work": {"dataset_size": size, "batch_size": 256, "epochs": 1},
        }

    def report_unchanged(self) -> tuple[float, bool]:
        """Report a run without a change; return its noiseless seconds and whether it fails."""
        document = self.document()
        configuration, work = document["configuration"], document["work"]
        assert isinstance(configuration, dict)
        assert isinstance(work, dict)
        seconds = self.law.seconds(configuration["workers"], work["dataset_size"])
        return seconds, _is(self, "fail", document)

    def learn(self, runs: int) -> None:
        """Store a history and fit it."""
        self.report([self.document() for _ in range(runs)])
        self._services.fits.request_fit(DEFAULT_PROJECT, self._name, FitRequest())
        context = self._services.context
        fitter = Fitter(FittingService(context), InProcessComputer(), context.settings)
        while fitter.step():
            pass
        self._clock.advance()

    def report(self, documents: list[dict[str, object]]) -> dict[str, object]:
        """Report runs and return the answer."""
        self._clock.advance()
        request = CiReportRequest(documents=documents, workload=self._name)
        return dict(self._services.ci.report(DEFAULT_PROJECT, request, report_document))


def _simulations(
    services: Services,
    clock: Clock,
    arguments: argparse.Namespace,
    label: str,
    *,
    count: int | None = None,
    workers: tuple[int, ...] = (1, 2, 4, 8),
) -> Iterator[Simulation]:
    for number in track(range(count or arguments.workloads), description=label):
        noise = Noise(arguments.noise, arguments.jitter_seconds, arguments.tail_degrees)
        simulation = Simulation(services, clock, f"{label}-{number}", number, workers, noise)
        simulation.learn(arguments.history)
        yield simulation


def _share(
    simulations: Iterator[Simulation], reports: int, check: Callable[[Simulation], bool]
) -> float:
    return float(np.mean([check(simulation) for simulation in simulations for _ in range(reports)]))


def _is(simulation: Simulation, verdict: str, document: dict[str, object]) -> bool:
    return simulation.report([document])["verdict"] == verdict


def _has_drift(simulation: Simulation, factor: float) -> bool:
    for _ in range(_DRIFT_RUNS):
        simulation.report([simulation.document()])
    return any(
        bool(simulation.report([simulation.document(factor)])["drift"]) for _ in range(_DRIFT_RUNS)
    )


def measure(services: Services, clock: Clock, arguments: argparse.Namespace) -> Table:
    """Return the table of shares."""
    reports = arguments.reports
    tails = "" if arguments.tail_degrees == inf else f" (t with {arguments.tail_degrees:g})"
    noise = f"{arguments.noise:.0%}{tails} and {arguments.jitter_seconds:g} s"
    table = Table(title=f"CI gate, noise of one run {noise}, history of {arguments.history} runs")
    for name in ("reports", "share", "goal"):
        table.add_column(name, justify="left" if name == "reports" else "right")

    def row(name: str, share: float, goal: str) -> None:
        table.add_row(name, f"{share:.1%}", goal)

    simulate = partial(_simulations, services, clock, arguments)
    unchanged = [s.report_unchanged() for s in simulate("none") for _ in range(reports)]
    seconds, fails = np.array(unchanged).T
    row("no change: fails", fails.mean(), "<= 1.5%")
    row(
        "no change, the shortest third: fails",
        fails[seconds < np.quantile(seconds, 1 / 3)].mean(),
        "",
    )
    row(
        "15% slower: fails at once",
        _share(
            simulate("slower", count=arguments.slow_downs),
            1,
            lambda s: _is(s, "fail", s.document(1.15)),
        ),
        ">= 80%",
    )
    row(
        f"3% slower: drift within {_DRIFT_RUNS}",
        _share(simulate("creeping"), 1, lambda s: _has_drift(s, 1.03)),
        "most",
    )
    row(
        "on 4, history on 8, no change: fails",
        _share(simulate("four", workers=(8,)), 5, lambda s: _is(s, "fail", s.document(workers=4))),
        "<= 1.5%",
    )
    row(
        "on 4, history on 8, no change: passes",
        _share(simulate("same", workers=(8,)), 1, lambda s: _is(s, "pass", s.document(workers=4))),
        ">= 90%",
    )
    row(
        "on 4, history on 8, twice as slow: fails",
        _share(simulate("double", workers=(8,)), 1, lambda s: _is(s, "fail", s.document(2.0, 4))),
        ">= 80%",
    )
    return table


def main() -> None:
    """Run the simulation and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.gate")
    parser.add_argument("--workloads", type=int, default=20, help="simulated workloads a line")
    parser.add_argument("--reports", type=int, default=100, help="reports a workload, unchanged")
    parser.add_argument(
        "--slow-downs", type=int, default=100, help="workloads with one report 15%% slower"
    )
    parser.add_argument("--history", type=int, default=30, help="runs before the first report")
    parser.add_argument("--noise", type=float, default=0.03, help="log deviation of one run")
    parser.add_argument(
        "--tail-degrees", type=float, default=inf, help="above 2: noise by Student's t, not normal"
    )
    parser.add_argument(
        "--jitter-seconds", type=float, default=0.0, help="mean of what each start takes besides"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        database = Database(settings.url)
        migrate(database)
        clock = Clock()
        services = Services(ServiceContext(database, settings, clock))
        Console().print(measure(services, clock, arguments))
        services.close()


if __name__ == "__main__":
    main()
