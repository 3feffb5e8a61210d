"""Calibration of prediction intervals: held-out quantiles, shrunk to prior ones, per regime."""

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from models.distribution import LEVELS
from models.questions.regimes import FEW_CONFIGURATIONS, PINNED_AXES, UNTESTED_AXES, Kind
from models.tables import FloatArray

_PRIOR_90: Mapping[tuple[Kind, bool], float] = {
    ("interpolation", False): 1.5,
    ("interpolation", True): 1.35,
    ("transfer", False): 1.65,
    ("transfer", True): 1.35,
    ("new_level", False): 1.8,
    ("new_level", True): 1.8,
    ("extrapolation", False): 1.75,
    ("extrapolation", True): 1.5,
    ("short_axis", False): 1.5,
    ("short_axis", True): 0.95,
    ("constant_axis", False): 1.5,
    ("constant_axis", True): 0.95,
}
"""Half width at 90 % in predicted standard deviations, by kind and by few configurations."""

_UNPINNED_90: Mapping[bool, float] = {False: 1.75, True: 1.2}
"""The same for an axis of two values whose exponent physics does not pin, by few configurations."""

_KNOWN_AXES = {*PINNED_AXES, "epochs"}

_SHAPES: Mapping[bool, FloatArray] = {
    False: np.array([0.33, 0.66, 1.0, 1.35, 2.1]),
    True: np.array([0.25, 0.6, 1.0, 1.4, 2.2]),
}
"""Prior half widths at `LEVELS` relative to that at 90 %, inside and beyond the measured range.

Tails are heavier than the normal distribution's, above all beyond the range, where trends mostly
go on but sometimes break."""

Scale = TypeVar("Scale", float, FloatArray)

_TYPICAL_SCALE, _SCALE_EXPONENT = 0.12, 0.75
"""The deviation to which predicted ones are shrunk, and the exponent of these; see `tempered`."""

_WIDENING, _POOLED_WIDENING, _MAX_POOLED_WIDENING = 6.0, 5.0, 2.0
_NEW_LEVEL_WIDENING = 1.0
"""Relative widening of prior half widths, times n or as a bound; see `prior_curve`."""

_MIN_HELD_OUT = 5
"""With fewer distinct configurations held out, quantiles are those of the prior."""

_TRUST_INSIDE, _TRUST_OUTSIDE = 10, 30
"""How many configurations prior half widths count as, inside and outside the measured range."""

_REFIT_FACTOR = 1.1
"""Widening, because refits keep hyper-parameters and templates that the test rows helped find."""

_SURPRISE_TRUST = 6
"""How many configurations the belief that predicted deviations are right counts as."""

_QUANTILE_BOUNDS = (0.1, 6.0)
"""Of held-out scores: lower ones have almost no deviation, higher ones some other cause."""


def tempered(scale: Scale) -> Scale:
    """Return predicted standard deviations of log durations, shrunk to a typical one.

    ``s -> .12^.25 s^.75``: a predicted deviation is itself an estimate, with an error of about a
    factor of 2, so the smallest are too small and the largest too large (empirical Bayes for
    log s; its two constants are heuristic). The order of the deviations is kept.

    References
    ----------
    Efron and Morris (1977), Stein's paradox in statistics, Scientific American 236(5), 119-127.

    Examples
    --------
    >>> tempered(np.array([0.01, 0.12, 1.0])).round(3).tolist()
    [0.019, 0.12, 0.589]
    """
    shrunk: Scale = _TYPICAL_SCALE ** (1 - _SCALE_EXPONENT) * scale**_SCALE_EXPONENT
    return shrunk


def untempered(scale: Scale) -> Scale:
    """Return the standard deviations that `tempered` turns into the given ones.

    For a deviation that is not a model's prediction: how far the levels of a category lie apart.

    Examples
    --------
    >>> untempered(tempered(0.5))
    0.5
    """
    original: Scale = (scale / _TYPICAL_SCALE ** (1 - _SCALE_EXPONENT)) ** (1 / _SCALE_EXPONENT)
    return original


def variance_of_levels(between: FloatArray, unknown: FloatArray) -> FloatArray:
    """Return the variance that a level without runs adds to log durations, shape (n,).

    Parameters
    ----------
    between
        Variance between the durations of the measured levels that stand in for it.
    unknown
        Variance of the level's own effect where nothing is known of it; 0 where other workloads or
        a data sheet tell it. Where nothing is known, the distance between levels is not a
        prediction and must not be tempered.
    """
    sd = np.sqrt(between + unknown)
    return np.where(unknown > 0, untempered(sd), sd) ** 2


def surprise_factor(scores: FloatArray, weights: FloatArray, n_distinct: int) -> float:
    """Return the factor, at least 1, by which a workload's forecasts are overconfident.

    With m configurations held out inside the range, whose scores have the mean square z^2, and a
    common scale k of all predicted deviations, ``k^2 = (6 + m z^2) / (6 + m)``: a scaled inverse
    chi-square prior that counts as six configurations. A workload that contradicts the laws and
    priors does so for every kind of question, and with few configurations most kinds hold nothing
    out of their own.

    Parameters
    ----------
    scores
        ``|y - mu| / s`` of configurations held out inside the measured range, shape (m,).
    weights
        How much each of them counts, shape (m,).
    n_distinct
        Distinct configurations among them.

    References
    ----------
    Gelman et al. (2013), Bayesian data analysis, sec. 2.6.

    Examples
    --------
    >>> surprise_factor(np.array([2.0, 1.0, 2.0, 1.0]), np.ones(4), 4)
    1.2649110640673518
    >>> surprise_factor(np.array([0.5, 0.1]), np.ones(2), 2)
    1.0
    """
    bounded = np.minimum(scores, _QUANTILE_BOUNDS[1])
    square = float(bounded**2 @ weights / weights.sum())
    inflation = (_SURPRISE_TRUST + n_distinct * square) / (_SURPRISE_TRUST + n_distinct)
    return max(1.0, math.sqrt(inflation))


def prior_curve(
    kind: Kind,
    n_configurations: int,
    *,
    axis: str = PINNED_AXES[0],
    is_pooled: bool = False,
    surprise: float = 1.0,
) -> FloatArray:
    """Return prior half widths at `LEVELS`, wider for few configurations; a heuristic.

    ``q0 = q00 (1 + 6 / n)`` for n configurations. Up to 12, q00 is the width for few
    configurations, times `surprise` (`surprise_factor`); beyond, that width has the share
    ``12 / n`` and the width for many the rest.

    Where other workloads tell the spread of what fewer than 12 configurations leave open, it is
    ``q00 (1 + min(2, 5 / n))``. Beyond an axis of three levels they do not: the trend is that of
    the workload's own runs, and no other workload knows whether it goes on. For a level without
    runs, more runs of other levels hardly help: ``q00 (1 + 1 / n)``. Beyond two values of the
    data-set size or of a parameter as `axis`, q00 is wider: there is no exponent to expect.

    Examples
    --------
    >>> prior_curve("interpolation", 60).round(2).tolist()
    [0.53, 1.07, 1.62, 2.18, 3.4]
    """
    few_weight = min(FEW_CONFIGURATIONS / n_configurations, 1.0)
    widening = _WIDENING / n_configurations
    if kind == "new_level":
        widening = _NEW_LEVEL_WIDENING / n_configurations
    elif is_pooled and n_configurations < FEW_CONFIGURATIONS and kind != "extrapolation":
        widening = min(_POOLED_WIDENING / n_configurations, _MAX_POOLED_WIDENING)
    many_width, few_width = _PRIOR_90[kind, False], _PRIOR_90[kind, True]
    if kind == "short_axis" and axis not in _KNOWN_AXES:
        many_width, few_width = _UNPINNED_90[False], _UNPINNED_90[True]
    width = few_weight * surprise * few_width + (1 - few_weight) * many_width
    return width * _shape(kind) * (1 + widening)


def _shape(kind: Kind) -> FloatArray:
    return _SHAPES[kind == "extrapolation" or kind in UNTESTED_AXES]


def calibrate(
    scores: FloatArray,
    weights: FloatArray,
    prior: FloatArray,
    *,
    kind: Kind,
    n_configurations: int,
    n_distinct: int,
) -> FloatArray:
    """Return half widths at `LEVELS` from held-out scores, strictly increasing.

    Parameters
    ----------
    scores
        ``|y - mu| / s`` of held-out configurations, shape (m,).
    weights
        How much each of them counts, shape (m,).
    prior
        Half widths at `LEVELS` before anything is held out (`prior_curve`).
    kind
        Kind of the regime.
    n_configurations
        Configurations of the fit.
    n_distinct
        Distinct configurations among the held-out ones.

    Notes
    -----
    ``log q = (m log q_cv + n0 log q0) / (m + n0)`` with q_cv the weighted empirical quantile at
    ``level (1 + 1 / m)`` and n0 = 10 in interpolation and 30 elsewhere; q is the prior where fewer
    than five configurations were held out. In interpolation from 12 configurations on, q is a tenth
    wider, because refits keep what the whole fit has chosen. Otherwise q is never below the prior:
    outside the range exchangeability does not hold, and few configurations tell little.

    References
    ----------
    Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), Distribution-free predictive inference for
    regression, JASA 113(523). Barber et al. (2021), Predictive inference with the jackknife+,
    Ann. Statist. 49(1).

    Examples
    --------
    >>> scores = np.abs(np.linspace(-2, 2, 41))
    >>> prior = prior_curve("interpolation", 41)
    >>> curve = calibrate(
    ...     scores, np.ones(41), prior, kind="interpolation", n_configurations=41, n_distinct=41)
    >>> bool((np.diff(curve) > 0).all())
    True
    """
    if n_distinct < _MIN_HELD_OUT:
        return prior
    is_interpolation = kind == "interpolation"
    trust = _TRUST_INSIDE if is_interpolation else _TRUST_OUTSIDE
    levels = np.minimum(np.array(LEVELS) * (1 + 1 / n_distinct), 1.0)
    quantiles = np.clip(weighted_quantile(scores, weights, levels), *_QUANTILE_BOUNDS)
    # Levels too high for the number of held-out configurations follow the prior's shape.
    is_observed = np.array(LEVELS) <= 1 - 1 / n_distinct
    last = max(int(is_observed.sum()) - 1, 0)
    shape = _shape(kind)
    quantiles = np.where(is_observed, quantiles, quantiles[last] * shape / shape[last])
    shrunk = np.exp((n_distinct * np.log(quantiles) + trust * np.log(prior)) / (n_distinct + trust))
    if is_interpolation and n_configurations >= FEW_CONFIGURATIONS:
        shrunk = _REFIT_FACTOR * shrunk
    else:
        shrunk = np.maximum(shrunk, prior)
    return strictly_increasing(shrunk)


def weighted_quantile(values: FloatArray, weights: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the smallest value whose cumulative share of the weight reaches each level.

    Examples
    --------
    >>> weighted_quantile(np.array([3.0, 1.0]), np.array([1.0, 3.0]), np.array([0.7, 0.8])).tolist()
    [1.0, 3.0]
    """
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    index = np.searchsorted(share, levels - 1e-12)
    return values[order][np.minimum(index, len(values) - 1)]


def strictly_increasing(curve: FloatArray) -> FloatArray:
    """Return the smallest increasing curve not below the given one, in steps of at least 1 %.

    Examples
    --------
    >>> strictly_increasing(np.array([1.0, 0.5])).tolist()
    [1.0, 1.01]
    """
    raised = curve.copy()
    for index in range(1, len(raised)):
        raised[index] = max(raised[index], 1.01 * raised[index - 1])
    return raised
