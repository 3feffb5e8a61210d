"""Judging the tasks of one workload under every prior."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.accuracy.traces import Task, to_tables
from benchmarks.pooling.arms import Priors
from benchmarks.pooling.workloads import MeasuredWorkload
from models import fit_portfolio
from models.metrics import coverage, mape, relative_width

SEED = 1


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one arm on one task; errors and widths are fractions."""

    data_set: str
    workload: str
    task: str
    kind: str
    arm: str
    mape: float
    coverage_90: float
    width_90: float
    fit_seconds: float


def judge(
    workload: MeasuredWorkload, tasks: Sequence[Task], priors: Priors, arms: Sequence[str]
) -> list[Result]:
    """Fit and judge the tasks of one workload in each arm."""
    results = []
    for arm in arms:
        prior = priors.prior(arm, workload.folder, workload.name)
        for task in tasks:
            train, test = to_tables(task)
            started = time.perf_counter()
            portfolio = fit_portfolio(
                train, seed=SEED, time_budget_s=60, hardware=priors.hardware(arm), prior=prior
            )
            fit_seconds = time.perf_counter() - started
            forecast = portfolio.predict(test.features)
            lower, upper = forecast.interval(0.9)
            results.append(
                Result(
                    task.folder,
                    workload.name,
                    task.name,
                    task.kind,
                    arm,
                    mape(test.duration_seconds, forecast.median()),
                    coverage(test.duration_seconds, lower, upper),
                    relative_width(forecast.median(), lower, upper),
                    fit_seconds,
                )
            )
    return results
