"""Judging one task: fit on its training runs, forecast its test runs, compare."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.accuracy.traces import Task, to_tables
from models import HardwareDescription, PooledPrior, fit_portfolio
from models.metrics import coverage, log_interval_score, mape, relative_width, share_above

SEED = 1


@dataclass(frozen=True, slots=True)
class Points:
    """Measured and forecast seconds of the asked runs, with the bounds of the .9 interval.

    ``typical`` is the relative error (a fraction) that each forecast announced for itself.
    """

    observed: tuple[float, ...]
    predicted: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    typical: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Results of the library on one task; errors and widths are fractions."""

    task: str
    data_set: str
    kind: str
    axis: str
    n_train: int
    n_test: int
    mape: float
    off_by_20: float
    coverage_80: float
    coverage_90: float
    width_90: float
    score_90: float
    own_estimate: float
    held_out_error: float
    fit_seconds: float
    noise_floor: float
    peer_mape: float
    points: Points = field(repr=False)

    @property
    def group(self) -> tuple[str, str, str]:
        """Return data set, kind and axis."""
        return self.data_set, self.kind, self.axis

    @property
    def floor(self) -> float:
        """Return the least error that repetitions allow (a fraction), NaN without repetitions.

        No forecast has a mean absolute error below ``sqrt(2 / pi)`` times their deviation.
        """
        return 0.8 * self.noise_floor

    @property
    def ratio(self) -> float:
        """Return the error relative to that of the best other tool, NaN without one."""
        return self.mape / max(self.peer_mape, 1e-3)

    @property
    def floor_ratio(self) -> float:
        """Return the error relative to the least that repetitions allow, NaN without any."""
        return self.mape / max(self.floor, 1e-3)

    @property
    def has_close_estimate(self) -> bool:
        """Return whether the forecasts' own estimate of the error is within a factor of 2."""
        return 0.5 <= self.own_estimate / max(self.mape, 1e-4) <= 2  # noqa: PLR2004 - the factor


def _held_out_error(errors: Mapping[str, float], regimes: Sequence[str]) -> float:
    """Return the mean held-out error of the kinds of question asked, NaN where one is untested."""
    return float(np.mean([errors.get(regime, np.nan) for regime in regimes]))


def judge(
    task: Task,
    hardware: Mapping[str, HardwareDescription],
    peers: Mapping[str, float],
    time_budget_s: float,
    prior: PooledPrior | None = None,
) -> Judgement:
    """Fit and judge one task."""
    train, test = to_tables(task)
    started = time.perf_counter()
    portfolio = fit_portfolio(
        train, seed=SEED, time_budget_s=time_budget_s, hardware=hardware, prior=prior
    )
    fit_seconds = time.perf_counter() - started
    forecast = portfolio.predict(test.features)
    observed, predicted = test.duration_seconds, forecast.median()
    typical = forecast.typical_error()
    lower, upper = forecast.interval(0.9)
    data_set, kind, axis = task.group()
    report = portfolio.report
    return Judgement(
        task=task.name,
        data_set=data_set,
        kind=kind,
        axis=axis,
        n_train=train.n_runs,
        n_test=test.n_runs,
        mape=mape(observed, predicted),
        off_by_20=share_above(observed, predicted),
        coverage_80=coverage(observed, *forecast.interval(0.8)),
        coverage_90=coverage(observed, lower, upper),
        width_90=relative_width(predicted, lower, upper),
        score_90=log_interval_score(observed, lower, upper, 0.9),
        own_estimate=float(typical.mean()),
        held_out_error=_held_out_error(report.accuracy_by_axis, forecast.regimes),
        fit_seconds=fit_seconds,
        noise_floor=report.noise_floor if report.noise_floor is not None else np.nan,
        peer_mape=peers.get(task.name, np.nan),
        points=Points(
            *(tuple(values.tolist()) for values in (observed, predicted, lower, upper, typical))
        ),
    )
