"""Weights of the candidates for each kind of question, from held-out forecasts and a prior."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.calibration.intervals import tempered
from models.distribution import normal_quantiles
from models.numerics.optimisation import minimise_on_simplex
from models.questions.regimes import FEW_CONFIGURATIONS, PINNED_AXES, UNTESTED_AXES, Kind
from models.state.checks import MAX_LOG
from models.tables import BoolArray, FloatArray, IntArray

_FEW_PHYSICS = {"physics_process": 0.3, "scaling_law": 0.2}
"""Half of the weights, beyond the pinned axes of at least 12 configurations."""

_PRIOR_WEIGHTS: Mapping[tuple[Kind, bool], Mapping[str, float]] = {
    ("interpolation", False): {
        "gaussian_process": 0.24,
        "scaling_process": 0.32,
        "physics_process": 0.2,
        "held_process": 0.12,
        "scaling_law": 0.04,
        "residual_trees": 0.08,
    },
    ("interpolation", True): {
        "gaussian_process": 0.2,
        "scaling_process": 0.17,
        "physics_process": 0.41,
        "held_process": 0.16,
        "scaling_law": 0.06,
    },
    ("transfer", False): {
        "gaussian_process": 0.18,
        "scaling_process": 0.24,
        "physics_process": 0.4,
        "held_process": 0.09,
        "scaling_law": 0.03,
        "residual_trees": 0.06,
    },
    ("extrapolation", False): {
        "gaussian_process": 0.25,
        "scaling_process": 0.3,
        "held_process": 0.36,
        "log_linear": 0.02,
        "boosted_trees": 0.07,
    },
    ("extrapolation", True): {
        "gaussian_process": 0.17,
        "scaling_process": 0.13,
        "held_process": 0.13,
        "log_linear": 0.07,
        **_FEW_PHYSICS,
    },
    ("short_axis", False): {
        "gaussian_process": 0.13,
        "scaling_process": 0.05,
        "held_process": 0.42,
        "log_linear": 0.1,
        "physics_process": 0.18,
        "scaling_law": 0.12,
    },
    ("constant_axis", False): {
        "gaussian_process": 0.25,
        "scaling_process": 0.05,
        "held_process": 0.1,
        "physics_process": 0.5,
        "scaling_law": 0.1,
    },
}
"""Prior weights by kind of question and by whether configurations are few (< 12); a heuristic."""

_AXIS_SHARES: Mapping[tuple[Kind, str, bool], Mapping[str, float]] = {
    ("extrapolation", "workers", False): {"gaussian_process": 0.7},
    ("extrapolation", "batch_size", False): {"gaussian_process": 0.6},
    ("extrapolation", "workers", True): {"log_linear": 0.48, "gaussian_process": 0.28},
    ("short_axis", "dataset_size", True): {"gaussian_process": 0.5, "log_linear": 0.5},
}
"""Shares of members that count more beyond some axes, by kind, axis and few configurations.

Sums of power laws flatten as their slowest term takes over, single power laws go on. Where that
term starts to matter can hardly be told from inside the range, so the two err to opposite sides.
Two sizes of the data tell one exponent; a sum shares it out among its terms, and beyond them the
steepest term takes over."""

_MIN_HELD_OUT = 3
"""With fewer distinct configurations held out, weights are not learned from them."""

_NEW_CANDIDATE = 0.05
"""Prior weight of a regressor that no table names."""

_PENALTY, _MIN_WEIGHT = 1.0, 0.02
"""Strength of the pull to the prior weights, and the weight below which `stack` cuts."""

_TILT, _MIN_RESIDUAL = 2.0, 0.01
"""Exponent of the held-out errors in `tilt`, and the residual below which a hit is luck."""

_REFUTATION_RATIO = 3.0
"""An error this many times the best candidate's refutes a candidate; see `unrefuted`."""

_NOISE = normal_quantiles(99)
"""Noise, in standard deviations, of the runs that a mean of repetitions stands for."""
_NOISE /= _NOISE.std()

_MIN_SHARE = 0.05
"""A smaller weight is not worth the time that the member takes in every forecast."""


def prior_weights(names: Sequence[str], kind: Kind, axis: str, n_configurations: int) -> FloatArray:
    """Return the weights that candidates have before any was tested, shape (n_candidates,).

    Examples
    --------
    >>> prior_weights(["log_linear", "my_own"], "short_axis", "workers", 30).round(2).tolist()
    [0.67, 0.33]
    """
    few = n_configurations < FEW_CONFIGURATIONS
    row: Kind = "transfer" if kind == "new_level" else kind
    row = "interpolation" if row == "transfer" and few else row
    table = dict(_PRIOR_WEIGHTS[row, few and row not in UNTESTED_AXES])
    if row == "extrapolation" and not few and axis in PINNED_AXES:
        table = {name: weight / 2 for name, weight in table.items()} | _FEW_PHYSICS
    if axis_shares := _AXIS_SHARES.get((row, axis, few)):
        table = _joined(table, axis_shares)
    known = {name for weights in _PRIOR_WEIGHTS.values() for name in weights}
    weights = np.array(
        [table.get(name, 0.0) if name in known else _NEW_CANDIDATE for name in names]
    )
    if weights.sum() == 0:
        weights = np.ones(len(names))
    return _normalised(weights)


def _joined(table: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, float]:
    """Return the table scaled down to make room for further shares."""
    factor = (1 - sum(shares.values())) / sum(table.values())
    names = dict.fromkeys([*table, *shares])
    return {name: factor * table.get(name, 0.0) + shares.get(name, 0.0) for name in names}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Held-out forecasts of one regime.

    Parameters
    ----------
    rows
        Configuration of each forecast, shape (m,).
    weights
        How much each forecast counts, shape (m,); folds of a regime count the same.
    observed
        Log durations, shape (m,).
    means, variances
        Forecasts of each candidate, shape (n_candidates, m); NaN where it failed.
    extra_variance
        Variance added to every candidate's, shape (m,).
    averaged
        By how much the variance of a mean of repetitions is below that of one new run, shape (m,);
        negative where an observation counts for less than a run.
    """

    rows: IntArray
    weights: FloatArray
    observed: FloatArray
    means: FloatArray
    variances: FloatArray
    extra_variance: FloatArray
    averaged: FloatArray

    @property
    def n_distinct(self) -> int:
        """Number of distinct configurations held out."""
        return len(np.unique(self.rows))

    def has_forecast(self) -> BoolArray:
        """Return whether each candidate has all forecasts, shape (n_candidates,)."""
        has_all: BoolArray = np.logical_and.reduce(np.isfinite(self.means), axis=1)
        return has_all

    def residual_variances(self) -> FloatArray:
        """Return each candidate's weighted mean squared residual, shape (n_candidates,).

        Bounded by the largest value that an artefact may hold.
        """
        errors: FloatArray = ((self.observed - self.means) ** 2) @ _normalised(self.weights)
        return np.minimum(errors, MAX_LOG)

    def forecast(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and tempered scales of the mixture.

        They are those of a new run, or of the observation where it counts for less than a run.
        """
        active = weights > 0
        mean, variance = combine(weights[active], self.means[active], self.variances[active])
        added_variance = self.extra_variance + np.maximum(-self.averaged, 0.0)
        return mean, tempered(np.sqrt(variance + added_variance))

    def scores(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mixture's |log residuals| of new runs in predicted deviations, and weights.

        Both have shape (m * k,). A mean of repetitions lies nearer to the forecast than a single
        run does, so each stands for k runs, at the quantiles of the noise that averaging removed.
        """
        mean, scale = self.forecast(weights)
        averaged_sd = np.sqrt(np.maximum(self.averaged, 0.0))
        noise = _NOISE if averaged_sd.any() else np.zeros(1)
        runs = (self.observed - mean)[:, None] + averaged_sd[:, None] * noise
        scores: FloatArray = np.abs(runs) / scale[:, None]
        return scores.ravel(), np.repeat(self.weights / len(noise), len(noise))

    def candidate_mape(self) -> FloatArray:
        """Return each candidate's held-out MAPE as a fraction, shape (n_candidates,)."""
        ratios = np.abs(np.expm1(np.clip(self.means - self.observed, -50, 50)))
        errors: FloatArray = ratios @ _normalised(self.weights)
        return errors


def _normalised(weights: FloatArray) -> FloatArray:
    return weights / float(weights.sum())


def combine(
    weights: FloatArray, means: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of a weighted mixture of forecasts.

    ``mu = sum w mu_m`` and ``s^2 = sum w (v_m + (mu_m - mu)^2)``: candidates that disagree widen
    the interval.

    Examples
    --------
    >>> mean, variance = combine(np.array([0.5, 0.5]), np.array([[1.0], [3.0]]), np.ones((2, 1)))
    >>> mean.tolist(), variance.tolist()
    ([2.0], [2.0])
    """
    mean = weights @ means
    return mean, weights @ (variances + (means - mean) ** 2)


def stack(held_out: HeldOut, prior: FloatArray) -> FloatArray:
    """Return the simplex weights that forecast the held-out set best, shrunk to the prior ones.

    Minimises ``sum_i f_i sqrt((R w)_i^2 + (.1 s)^2) / s + |w - w0|^2 / n`` with R the held-out log
    residuals, f the weights of the forecasts (sum 1), s the best candidate's mean |residual| and n
    the distinct configurations held out. Weights below .02 are cut.

    References
    ----------
    Breiman (1996), Stacked regressions, Machine Learning 24, 49-64. Wolpert (1992), Stacked
    generalization, Neural Networks 5(2).
    """
    active = np.flatnonzero((prior > 0) & np.isfinite(held_out.means).all(axis=1))
    if len(active) < 2:  # noqa: PLR2004 - nothing to weigh
        return prior
    residuals = (held_out.observed - held_out.means[active]).T
    share = _normalised(held_out.weights)
    errors = share @ np.abs(residuals)
    scale, start = max(float(errors.min()), 1e-6), _normalised(prior[active])

    def loss(weights: FloatArray) -> float:
        smooth = np.sqrt((residuals @ weights) ** 2 + (0.1 * scale) ** 2) / scale
        penalty = ((weights - start) ** 2).sum() / held_out.n_distinct
        return float(share @ smooth + _PENALTY * penalty)

    def gradient(weights: FloatArray) -> FloatArray:
        mixed_residuals = residuals @ weights
        smooth = np.sqrt(mixed_residuals**2 + (0.1 * scale) ** 2)
        penalty_gradient = 2 * (weights - start) / held_out.n_distinct
        loss_gradient: FloatArray = residuals.T @ (share * mixed_residuals / smooth) / scale
        return loss_gradient + _PENALTY * penalty_gradient

    best = np.eye(len(active))[int(errors.argmin())]
    optima = [start, *(minimise_on_simplex(loss, gradient, initial) for initial in (start, best))]
    chosen = min(optima, key=loss)
    weights = np.zeros(len(prior))
    weights[active] = np.where(chosen < _MIN_WEIGHT, 0.0, chosen)
    return _normalised(weights)


def choose_weights(
    names: Sequence[str],
    kind: Kind,
    axis: str,
    *,
    n_configurations: int,
    held_out: HeldOut | None,
    inside: HeldOut | None,
) -> FloatArray:
    """Return the candidates' weights in a regime: prior ones, moved by what was held out.

    With fewer than 12 configurations, or fewer than 3 distinct ones held out, held-out sets say
    less than the prior and leave it as it is; only with few configurations may those of
    interpolation (`inside`) and those beyond an axis refute candidates (`unrefuted`). Otherwise
    weights are the mean of those of `stack` and of `tilt`, which needs less evidence: it looks for
    candidates that err little, not for a mixture that does. In transfer, where one to three levels
    are held out, stacking would say less than the prior, which takes its place.
    """
    prior = prior_weights(names, kind, axis, n_configurations)
    if n_configurations < FEW_CONFIGURATIONS:
        for tested in (inside, held_out if kind == "extrapolation" else None):
            if tested is not None and tested.n_distinct >= _MIN_HELD_OUT:
                prior = unrefuted(tested, prior)
    if held_out is None:
        return prior
    has_forecast = held_out.has_forecast()
    if not has_forecast.any():
        return prior
    usable = np.where(has_forecast, prior, 0.0)
    # Where the prior gives none of them weight, all that did forecast count the same.
    prior = _normalised(usable if usable.sum() > 0 else has_forecast.astype(np.float64))
    are_few = n_configurations < FEW_CONFIGURATIONS or held_out.n_distinct < _MIN_HELD_OUT
    if are_few:
        return prior
    stacked = prior if kind == "transfer" else stack(held_out, prior)
    mixed = (stacked + tilt(held_out, prior)) / 2
    return _normalised(np.where(mixed < _MIN_SHARE, 0.0, mixed))


def unrefuted(held_out: HeldOut, prior: FloatArray) -> FloatArray:
    """Return the prior weights, reduced for candidates that the runs refute; a heuristic.

    Few configurations cannot tell which of several good candidates is best, but they can tell that
    one is bad, such as a power law where durations fall and rise again. Where a candidate's root
    mean square held-out residual is r times the best one's and r > 3, its weight is divided by
    ``(r / 3)^2``.

    Examples
    --------
    >>> rows, ones, none = np.arange(2), np.ones(2), np.zeros(2)
    >>> means = np.array([[0.1, 0.1], [0.3, 0.3], [0.9, 0.9]])
    >>> held_out = HeldOut(rows, ones, none, means, means, none, none)
    >>> unrefuted(held_out, np.full(3, 1 / 3)).round(3).tolist()
    [0.474, 0.474, 0.053]
    """
    errors = np.sqrt(np.maximum(held_out.residual_variances(), _MIN_RESIDUAL**2))
    tested = np.isfinite(errors) & (prior > 0)
    if not tested.any():
        return prior
    ratios = np.maximum(errors / (_REFUTATION_RATIO * errors[tested].min()), 1.0)
    return _normalised(np.where(np.isfinite(ratios), prior / ratios**2, prior))


def tilt(held_out: HeldOut, prior: FloatArray) -> FloatArray:
    """Return the prior weights divided by the squared held-out errors; a heuristic.

    The error is the weighted geometric mean of the |log residuals|, so that no single configuration
    decides.

    Examples
    --------
    >>> rows, ones, none = np.arange(2), np.ones(2), np.zeros(2)
    >>> means = np.array([[0.1, 0.1], [0.2, 0.2]])
    >>> held_out = HeldOut(rows, ones, none, means, means, none, none)
    >>> tilt(held_out, np.array([0.5, 0.5])).round(3).tolist()
    [0.8, 0.2]
    """
    residuals = np.maximum(np.abs(held_out.observed - held_out.means), _MIN_RESIDUAL)
    logs = np.log(residuals) @ _normalised(held_out.weights)
    tilted = np.where(np.isfinite(logs), prior * np.exp(-_TILT * (logs - np.nanmin(logs))), 0.0)
    return _normalised(tilted)
