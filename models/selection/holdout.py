"""Held-out forecasts: every candidate refitted on each fold and asked about its test set."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from models.features.damping import damped
from models.features.layout import Layout, Role
from models.features.numeric import NumericFeature
from models.members.epochs import start_up_sd
from models.questions.regimes import Fold
from models.regressor import PortfolioRegressor
from models.runs.jitter import Jitter
from models.selection.budget import Budget
from models.selection.weights import HeldOut
from models.tables import FloatArray
from models.threads import single_thread

MAX_TEST_CONFIGURATIONS = 1_000
"""How many configurations of a held-out set are forecast."""

_BEFORE, _TESTING = 0.32, 0.64
"""Shares of a fit's progress before held-out sets are forecast, and while they are."""

_TREND_BREAK = 0.2
"""Log standard deviation, per log unit beyond the range, of a break in a feature's trend."""

_MAX_UNBROKEN, _MIN_BROKEN = 6, 18
"""Numbers of configurations up to which trends have no break, and from which the whole one."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The configurations of a fit, encoded.

    Attributes
    ----------
    layout
        How to read the columns of X.
    X, y
        The configurations and their log durations relative to the centre.
    counts
        Number of runs of each configuration, shape (n,).
    noise_variances
        Variance of one run of each configuration, shape (n,).
    jitter
        How the noise depends on the duration; None where it is the same for all.
    features
        What the first columns are, with the sides on which their trends fade.
    """

    layout: Layout
    X: FloatArray
    y: FloatArray
    counts: FloatArray
    noise_variances: FloatArray
    jitter: Jitter | None
    features: tuple[NumericFeature, ...]


@dataclass(frozen=True, slots=True)
class FoldForecast:
    """The candidates' forecasts for one fold; NaN where one failed or gives no variance."""

    fold: Fold
    means: FloatArray
    variances: FloatArray


@single_thread
def forecast_fold(
    data: TrainingData, fitted: Mapping[str, PortfolioRegressor], fold: Fold
) -> FoldForecast:
    """Refit every candidate on the fold's training set and forecast its test set."""
    X_test = _encoded_test_rows(data, fold)
    shape = (len(fitted), len(fold.test))
    means, variances = np.full(shape, np.nan), np.full(shape, np.nan)
    for index, regressor in enumerate(fitted.values()):
        try:
            refit = regressor.refit_clone().fit(
                data.X[fold.train], data.y[fold.train], data.counts[fold.train]
            )
            mean, variance = refit.predict_moments(X_test)
        except (ValueError, np.linalg.LinAlgError):
            continue
        if np.isfinite(mean).all():
            means[index] = mean
            variances[index] = np.nan if variance is None else variance
    return FoldForecast(fold, means, variances)


def _encoded_test_rows(data: TrainingData, fold: Fold) -> FloatArray:
    """Return the fold's test rows as an encoder of its training set would encode them."""
    X = data.X[fold.test]
    for column, feature in enumerate(data.features):
        if feature.fades != "none":
            known = data.X[fold.train, column]
            limits = feature.fading_range_beyond(float(known.min()), float(known.max()))
            X[:, column] = damped(X[:, column], *limits)
    return X


class FoldMap(Protocol):
    """Applies a function to folds in order, like the built-in `map`, here or on other machines."""

    def __call__(
        self, function: Callable[[Fold], FoldForecast], folds: Iterable[Fold], /
    ) -> Iterable[FoldForecast]:
        """Return the function's results in the order of the folds, which are taken lazily."""
        ...


def forecast_folds(
    data: TrainingData,
    fitted: Mapping[str, PortfolioRegressor],
    folds: Sequence[Fold],
    budget: Budget,
    fold_map: FoldMap,
) -> list[FoldForecast]:
    """Forecast folds as long as the budget allows, one by one or wherever `fold_map` computes.

    At most 1,000 configurations of each fold are forecast.
    """
    thinned = (_thinned(fold) for fold in _within_budget(folds, budget))
    return list(fold_map(partial(forecast_fold, data, fitted), thinned))


def _within_budget(folds: Sequence[Fold], budget: Budget) -> Iterator[Fold]:
    for index, fold in enumerate(folds):
        # The first fold refits all regressors without a search, hence faster than before.
        begin = budget.begin if index else budget.begin_all
        if not begin(_BEFORE + _TESTING * index / len(folds), f"testing {fold.regime}"):
            return
        yield fold


def _thinned(fold: Fold) -> Fold:
    # Configurations are ordered by their hashes, so the first ones are a random choice.
    return replace(fold, test=fold.test[:MAX_TEST_CONFIGURATIONS])


def gather(data: TrainingData, forecasts: Sequence[FoldForecast]) -> dict[str, HeldOut]:
    """Join the folds of each regime.

    All folds of a regime count the same, whatever their size; in interpolation all configurations
    do. A regime that no candidate could forecast in all of its folds stays untested.
    """
    regimes = dict.fromkeys(forecast.fold.regime for forecast in forecasts)
    joined = {
        regime: _join(data, [item for item in forecasts if item.fold.regime == regime])
        for regime in regimes
    }
    return {name: item for name, item in joined.items() if item.has_forecast().any()}


def _join(data: TrainingData, forecasts: Sequence[FoldForecast]) -> HeldOut:
    rows = np.concatenate([item.fold.test for item in forecasts])
    is_interpolation = forecasts[0].fold.regime == "interpolation"
    weights = [
        np.full(len(item.fold.test), 1.0 if is_interpolation else 1 / len(item.fold.test))
        for item in forecasts
    ]
    held_out = HeldOut(
        rows,
        np.concatenate(weights),
        data.y[rows],
        np.hstack([item.means for item in forecasts]),
        np.hstack([item.variances for item in forecasts]),
        np.concatenate([trend_break(data, item.fold) for item in forecasts]),
        data.noise_variances[rows] * (1 - 1 / data.counts[rows]),
    )
    # A candidate without a variance of its own gets its held-out squared error.
    missing = np.isnan(held_out.variances) & np.isfinite(held_out.means)
    errors = held_out.residual_variances()
    held_out.variances[missing] = np.broadcast_to(errors[:, None], missing.shape)[missing]
    if data.jitter is not None:
        held_out.variances[:] = data.jitter.with_noise(held_out.variances, held_out.means)
    return held_out


def trend_break(data: TrainingData, fold: Fold) -> FloatArray:
    """Return the variance that possible trend breaks add beyond the fold's training range."""
    layout = data.layout
    breaks = trend_breaks(layout.roles, len(data.X)) * np.minimum(layout.relevances, 1.0)
    columns = layout.numeric(data.X)
    train, test = columns[fold.train], columns[fold.test]
    beyond = np.maximum(test - train.max(axis=0), train.min(axis=0) - test)
    beyond = np.maximum(beyond, 0.0)
    variance: FloatArray = beyond**2 @ breaks**2
    if "epochs" in layout.roles:
        variance += start_up_sd(beyond[:, layout.roles.index("epochs")]) ** 2
    return variance


def trend_breaks(roles: Sequence[Role], n_configurations: int) -> FloatArray:
    """Return the deviation per log unit of trend breaks, shape (n_features,); a heuristic.

    With up to six configurations the uncertainty of an axis's exponent is wide enough by itself,
    except for the batch; from there to eighteen the deviation grows, so that no further run makes a
    step. Epochs have no break: each takes as long as the next (`models.members.epochs`).

    Examples
    --------
    >>> trend_breaks(["workers", "local_batch", "epochs"], 6).tolist()
    [0.0, 0.2, 0.0]
    >>> trend_breaks(["workers", "local_batch", "epochs"], 12).tolist()
    [0.1, 0.2, 0.0]
    """
    beyond_six = (n_configurations - _MAX_UNBROKEN) / (_MIN_BROKEN - _MAX_UNBROKEN)
    share = min(max(beyond_six, 0.0), 1.0)
    shares = {"epochs": 0.0, "local_batch": 1.0}
    return np.array([_TREND_BREAK * shares.get(role, share) for role in roles])
