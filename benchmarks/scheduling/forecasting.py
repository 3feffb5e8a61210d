"""Forecasts of the replayed jobs by regressors fitted on the past ones."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from rich.progress import track

from app.decisions.durations import DurationBeliefs
from app.services.answering.interruptions import InterruptedForecast
from benchmarks.scheduling.traces import Job
from models import (
    NORMAL_KNOTS,
    FeatureTable,
    FittedPortfolio,
    FloatArray,
    RunTable,
    fit_portfolio,
)

_MIN_RUNS = 5
_MAX_RUNS = 400


class Forecaster:
    """Expected durations by workload; workloads too rare for their own regressor share one.

    Parameters
    ----------
    past
        Ended jobs.
    time_budget_s
        Time budget of each fit.
    """

    def __init__(self, past: Sequence[Job], *, time_budget_s: float) -> None:
        groups: defaultdict[str, list[Job]] = defaultdict(list)
        for job in past:
            groups[job.workload].append(job)
        self._portfolios: dict[str, FittedPortfolio] = {}
        known = {name: jobs for name, jobs in groups.items() if len(jobs) >= _MIN_RUNS}
        for name, jobs in track(known.items(), "Fitting", disable=not os.isatty(1)):
            self._portfolios[name] = _fit(jobs[-_MAX_RUNS:], time_budget_s)
        self._rest = _fit(list(past)[-_MAX_RUNS:], time_budget_s)

    def expected_seconds(self, jobs: Sequence[Job], workers: Sequence[int]) -> FloatArray:
        """Return the mean forecast of each job on a number of workers, shape (n_jobs,)."""
        expected = np.empty(len(jobs))
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for row, job in enumerate(jobs):
            groups[job.workload if job.workload in self._portfolios else ""].append(row)
        for name, rows in groups.items():
            portfolio = self._portfolios.get(name, self._rest)
            table = _table([jobs[row] for row in rows], [workers[row] for row in rows])
            forecast = portfolio.predict(table)
            widths = InterruptedForecast.none(forecast).widths()
            expected[rows] = DurationBeliefs.from_widths(*widths, NORMAL_KNOTS).mean()
        return expected

    def service(self, jobs: Sequence[Job]) -> Mapping[str, float]:
        """Return the expected GPU-seconds of each job on its own GPUs, by its name."""
        seconds = self.expected_seconds(jobs, [job.gpus for job in jobs])
        return {
            job.ref: expected_s * job.gpus
            for job, expected_s in zip(jobs, seconds.tolist(), strict=True)
        }


def _fit(jobs: Sequence[Job], time_budget_s: float) -> FittedPortfolio:
    runs = RunTable(
        _table(jobs, [job.gpus for job in jobs]),
        np.array([job.duration_s for job in jobs]),
        [job.ref for job in jobs],
    )
    return fit_portfolio(runs, seed=0, time_budget_s=time_budget_s)


def _table(jobs: Sequence[Job], workers: Sequence[int]) -> FeatureTable:
    names = sorted({name for job in jobs for name in job.features})
    numeric = {"workers": np.array(workers, dtype=np.float64)}
    for name in names:
        numeric[name] = np.array([job.features.get(name, np.nan) for job in jobs])
    return FeatureTable(numeric, {}, len(jobs))
