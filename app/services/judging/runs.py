"""Compares runs with what one regressor forecasts for them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.decisions.repetitions import Cell
from app.domain.alike import digests_of
from app.domain.errors import DomainError, RegressorUnavailableError
from app.domain.runs import Run, RunStatus
from app.pricing.resolution import PriceBook
from app.services.answering.durations import features_of
from app.services.answering.questions import ScenarioResolver, may_need_prices
from app.services.served_regressors import ServedRegressor
from models import FeatureTable, FloatArray, ForecastDistribution

_ONE_DEVIATION: Final = 0.8413447460685429


@dataclass(frozen=True, slots=True)
class JudgedRuns:
    """Runs beside their forecasts.

    Parameters
    ----------
    rows
        Which of the runs could be judged, ascending.
    refusals
        Why each of the others could not be judged.
    observed_seconds
        Durations of the judged runs, shape (rows,).
    features
        The feature table that the regressor saw.
    forecast
        The forecasts.
    noise_factors
        Noise variance of runs as long as forecast, over the usual one, shape (rows,).
    """

    rows: tuple[int, ...]
    refusals: Mapping[int, str]
    observed_seconds: FloatArray
    features: FeatureTable
    forecast: ForecastDistribution
    noise_factors: FloatArray

    def probability_below(self) -> FloatArray:
        """Return the probability that a new run takes less than the judged one, shape (rows,)."""
        return self.forecast.probability_below(self.observed_seconds)

    def log_ratios(self) -> FloatArray:
        """Return log of observed over median forecast duration, shape (rows,)."""
        return np.log(self.observed_seconds) - self.forecast.log_median

    def log_deviations(self) -> FloatArray:
        """Return one standard deviation of a new run's log duration, shape (rows,)."""
        return np.log(self.forecast.quantile(_ONE_DEVIATION)) - self.forecast.log_median


def since_last_change(runs: Sequence[Run], served: ServedRegressor) -> list[Run]:
    """Return the runs since the last code change that the regressor's fit found in them."""
    changes = served.portfolio.report.evidence.change_points
    since = max((change.at for change in changes), default=-np.inf)
    return [run for run in runs if (run.started_at or run.created_at).timestamp() >= since]


def need_prices(runs: Iterable[Run]) -> bool:
    """Whether prices may tell the GPUs of the machines of some run, or how many they have."""
    return any(may_need_prices(run.scenario.configuration) for run in runs)


def judge_runs(runs: Sequence[Run], served: ServedRegressor, book: PriceBook | None) -> JudgedRuns:
    """Compare succeeded runs with a regressor's forecasts, in one evaluation.

    `book` fills in what a run leaves out, as it does for a question: the GPUs of its machines. None
    suffices where no run needs it (see `need_prices`).
    """
    refusals: dict[int, str] = {}
    resolver = ScenarioResolver(served, book)
    rows, scenarios = [], []
    for row, run in enumerate(runs):
        if run.status is not RunStatus.SUCCEEDED:
            refusals[row] = f"The run did not succeed ({run.status})."
            continue
        try:
            scenarios.append(resolver.resolve(run.scenario))
            rows.append(row)
        except DomainError as error:
            refusals[row] = str(error)
    features = features_of(scenarios, served)
    seconds = np.array([runs[row].duration_seconds for row in rows], dtype=np.float64)
    try:
        forecast = served.predict(features)
    except RegressorUnavailableError as error:
        refusals.update(dict.fromkeys(rows, str(error)))
        features, rows, seconds = features.take(np.arange(0)), [], np.empty(0)
        forecast = served.predict(features)
    factors = served.portfolio.noise_factors(forecast.log_median)
    return JudgedRuns(tuple(rows), refusals, seconds, features, forecast, factors)


def run_digests(runs: Iterable[Run]) -> list[str]:
    """Return the digest of the scenario of each run."""
    return digests_of([run.scenario for run in runs])


def cells_of(digests: Sequence[str], judged: JudgedRuns, numbers: dict[str, int]) -> list[Cell]:
    """Return the configuration of each judged run as a cell.

    Parameters
    ----------
    digests
        The digests of the scenarios of the runs that could be judged.
    judged
        The forecasts for them.
    numbers
        The numbers of the configurations by digest; new ones are added.
    """
    groups = [numbers.setdefault(digest, len(numbers)) for digest in digests]
    figures = zip(
        groups, judged.log_deviations().tolist(), judged.noise_factors.tolist(), strict=True
    )
    return [Cell(*row) for row in figures]
