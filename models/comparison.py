"""Whether a new regressor forecasts better than the published one, on the same folds."""

from dataclasses import dataclass

import numpy as np

from models.portfolio import FittedPortfolio
from models.runs.configurations import UNBOUNDED, Configurations, collapse
from models.screening.eras import at_present
from models.tables import FloatArray, RunTable


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two regressors judged on the same configurations.

    Errors are MAPE as fractions, NaN if there is no configuration on which both can be judged
    honestly; the challenger is then taken to be better, since it has seen the newer runs.
    """

    challenger_mape: float
    incumbent_mape: float
    n_configurations: int
    is_better: bool


def compare(challenger: FittedPortfolio, incumbent: FittedPortfolio, runs: RunTable) -> Comparison:
    """Judge both regressors on the configurations of `runs`, by forecasts made without them.

    On a configuration that it was fitted with, a regressor is judged by its held-out forecast, from
    the fold to which its own fit assigned it; on any other, by its forecast. Configurations that
    either of them was fitted with but never held out are left out.

    Parameters
    ----------
    challenger, incumbent
        The new and the published portfolio of one workload.
    runs
        The runs to judge by, normally those of the challenger's fit; durations that it shifted
        for change points are shifted here too.

    Examples
    --------
    >>> from models.fitting import fit_portfolio
    >>> from models.tables import FeatureTable
    >>> workers = np.array([1.0, 2.0, 4.0, 8.0])
    >>> table = RunTable(FeatureTable({"workers": workers}, {}, 4), 800 / workers, list("abcd"))
    >>> portfolio = fit_portfolio(table, seed=0, time_budget_s=10)
    >>> compare(portfolio, portfolio, table).n_configurations
    4
    """
    configurations = collapse(at_present(runs, challenger.report.evidence.change_points))
    observed = configurations.log_duration
    new, old = (
        _honest_forecasts(portfolio, configurations) for portfolio in (challenger, incumbent)
    )
    judged = np.isfinite(new) & np.isfinite(old)
    count = int(judged.sum())
    if count == 0:
        return Comparison(float("nan"), float("nan"), 0, is_better=True)
    new_error, old_error = (
        float(np.abs(np.expm1(np.clip(forecast[judged] - observed[judged], -50, 50))).mean())
        for forecast in (new, old)
    )
    return Comparison(new_error, old_error, count, is_better=new_error <= old_error)


def _honest_forecasts(portfolio: FittedPortfolio, configurations: Configurations) -> FloatArray:
    """Return log forecasts made without the configuration, NaN where there is none."""
    keys = configurations.keys
    memory = portfolio.memory
    log_forecasts = np.where(memory.held_out < UNBOUNDED, memory.held_out, np.nan).tolist()
    held_out = dict(zip(memory.names.key_list(), log_forecasts, strict=True))
    forecasts = np.array([held_out.get(key, np.nan) for key in keys])
    unseen = np.array([row for row, key in enumerate(keys) if key not in held_out], dtype=np.int64)
    if len(unseen):
        forecasts[unseen] = portfolio.predict(configurations.features.take(unseen)).log_median
    return forecasts
