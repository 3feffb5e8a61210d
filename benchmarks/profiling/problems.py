"""Workloads with many measured configurations, the costs of their runs, and held-out targets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from app.domain.configurations import Configuration
from app.domain.prices import PriceQuery
from app.pricing.resolution import PriceBook, PricingFacts
from benchmarks.accuracy.traces import Row
from benchmarks.pooling.workloads import read_workloads as read_measured
from models import FloatArray, RunTable
from models.runs.configurations import configuration_keys

MAX_CONFIGURATIONS = 200
"""Larger workloads are reduced to a random part, so that the final fit stays short."""

_MAX_TARGETS = 60
_DATE = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Workload:
    """The runs of one workload; `hourly` is the price of an hour of each run's cluster."""

    name: str
    runs: RunTable
    hourly: FloatArray


@dataclass(frozen=True, slots=True)
class Problem:
    """Candidates to measure, one run each, and targets that are held out.

    `hourly` holds the price of an hour of each candidate, shape (n_candidates,).
    """

    name: str
    candidates: RunTable
    targets: RunTable
    hourly: FloatArray

    @property
    def dollars(self) -> FloatArray:
        """Return the cost of measuring each candidate, shape (n_candidates,)."""
        return self.candidates.duration_seconds / 3600 * self.hourly


def read_workloads(data: Path, least: int) -> Iterator[Workload]:
    """Yield the workloads of all data folders that have enough configurations."""
    for measured in read_measured(data):
        runs = measured.table()
        if len(set(configuration_keys(runs.features))) >= least:
            yield Workload(measured.name, runs, _hourly(measured.rows))


def _hourly(rows: Sequence[Row]) -> FloatArray:
    """Return list prices if every run has one, else one unit of money per worker."""
    book = PriceBook(PricingFacts(), _DATE)
    offers = [
        book.resolve(
            Configuration(
                gpu_type=row["gpu_type"] or None, workers=int(float(row["workers"] or 1))
            ),
            PriceQuery(),
        )
        for row in rows
    ]
    if any(offer is None for offer in offers):
        return np.array([float(row["workers"] or 1) for row in rows])
    return np.array([float(offer.per_hour) for offer in offers if offer is not None])


def make_problem(workload: Workload, split: int) -> Problem:
    """Return one random run of each configuration, a quarter of them as targets."""
    generator = np.random.default_rng([split, 7])
    keys = np.array(configuration_keys(workload.runs.features))
    kept = generator.permutation(np.unique(keys))[:MAX_CONFIGURATIONS]
    rows = np.array([generator.choice(np.flatnonzero(keys == key)) for key in kept])
    n_targets = min(max(10, len(rows) // 4), _MAX_TARGETS)
    targets, candidates = rows[:n_targets], rows[n_targets:]
    return Problem(
        workload.name,
        workload.runs.take(candidates),
        workload.runs.take(targets),
        workload.hourly[candidates],
    )
