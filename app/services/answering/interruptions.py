"""Forecast distributions of interrupted work: spot capacity."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import erfc, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.errors import SpotInfeasibleError
from app.domain.forecasts import (
    MAX_CHECKPOINT_INTERVAL_S,
    MIN_CHECKPOINT_INTERVAL_S,
    SpotReport,
    SpotTerms,
)
from app.pricing.spot import (
    MAX_FACTOR,
    Interruptions,
    checkpoints_s,
    completion,
    optimal_checkpoint_interval_s,
    overhead_quantiles,
)
from app.services.answering.rounding import significant
from models import NORMAL_KNOTS, FloatArray, ForecastDistribution

SpotRows = Mapping[int, tuple[SpotTerms, int]]
"""Rows on spot capacity: the requested terms and the number of instances."""

_DEFAULTS = Interruptions()
_LARGEST_STEP = 0.5
_DIGITS: Final = 7
_NODES: Final = np.linspace(-4.0, 4.0, 41)
"""Standard normal scores at which work and its interruptions are combined."""

_SCORES: Final = np.linspace(-4.0, 4.0, 81)
"""Standard normal scores at which the result is stored."""


_NO_ROWS: Final = np.empty(0, dtype=np.intp)
_NO_CURVES: Final[FloatArray] = np.empty((0, len(_SCORES)))


def _normal_cdf(score: float) -> float:
    """Return the standard normal's distribution function."""
    # Not by scipy: the first spot forecast of a process should not wait for its import.
    return erfc(-score / sqrt(2.0)) / 2.0


_NODE_PROBABILITIES: Final[FloatArray] = np.array([_normal_cdf(score) for score in _NODES.tolist()])
_SCORE_PROBABILITIES: Final[FloatArray] = np.array(
    [_normal_cdf(score) for score in _SCORES.tolist()]
)


def interruptions_of(terms: SpotTerms, instances: int) -> Interruptions:
    """Return the terms with the defaults filled in.

    The hazard is per instance: a job on n of them is interrupted n times as often.
    """
    per_hour = terms.interruptions_per_hour
    interval = terms.checkpoint_interval_s
    return Interruptions(
        per_hour=(_DEFAULTS.per_hour if per_hour is None else per_hour) * instances,
        checkpoint_interval_s=_DEFAULTS.checkpoint_interval_s if interval is None else interval,
        checkpoint_s=_DEFAULTS.checkpoint_s if terms.checkpoint_s is None else terms.checkpoint_s,
        restart_s=_DEFAULTS.restart_s if terms.restart_s is None else terms.restart_s,
    )


@dataclass(frozen=True, slots=True)
class InterruptedForecast:
    """Forecast distributions in which some rows are of interrupted work.

    Attributes
    ----------
    moments
        All rows; the interrupted ones as distributions of the same mean and deviation, for uses
        that need only these.
    rows
        The interrupted rows, ascending, shape (k,).
    log_seconds
        Their quantiles at equally spaced scores of the standard normal, shape (k, n_scores).
    """

    moments: ForecastDistribution
    rows: npt.NDArray[np.intp]
    log_seconds: FloatArray

    @classmethod
    def none(cls, forecast: ForecastDistribution) -> "InterruptedForecast":
        """Return forecasts of uninterrupted work."""
        return cls(forecast, _NO_ROWS, _NO_CURVES)

    def median(self) -> FloatArray:
        """Return the median durations in seconds, shape (n,)."""
        return self._with_rows(self.moments.median(), 0.5)

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds in seconds for a new run, each of shape (n,)."""
        lower, upper = self.moments.interval(confidence)
        tail = (1.0 - confidence) / 2.0
        return self._with_rows(lower, tail), self._with_rows(upper, 1.0 - tail)

    def quantile(self, probability: float) -> FloatArray:
        """Return the durations in seconds that a new run stays below, shape (n,)."""
        return self._with_rows(self.moments.quantile(probability), probability)

    def probability_below(self, seconds: FloatArray) -> FloatArray:
        """Return the probability that a new run takes less than `seconds`, shape (n,)."""
        probabilities = self.moments.probability_below(seconds)
        for row, curve in zip(self.rows.tolist(), self.log_seconds, strict=True):
            limit_s = float(seconds[row])
            score = np.interp(np.log(limit_s), curve, _SCORES, -np.inf) if limit_s > 0 else -np.inf
            probabilities[row] = _normal_cdf(float(score))
        return probabilities

    def widths(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the log medians, and the distances of `NORMAL_KNOTS[1:]` below and above them.

        In log seconds, of shapes (n,), (n, k) and (n, k).
        """
        center = self.moments.log_median.copy()
        scale = self.moments.scale[:, None]
        below, above = scale * self.moments.curves, scale * self.moments.upper_curves()
        if self.rows.size:
            at_knots = [self._logs_at(score) for score in (*-NORMAL_KNOTS[1:], *NORMAL_KNOTS)]
            table = np.stack(at_knots, axis=1)
            size = len(NORMAL_KNOTS) - 1
            median = table[:, size]
            center[self.rows] = median
            below[self.rows] = median[:, None] - table[:, :size]
            above[self.rows] = table[:, size + 1 :] - median[:, None]
        return center, below, above

    def _logs_at(self, score: float) -> FloatArray:
        """Return the log seconds of the interrupted rows at a standard normal score."""
        left = np.clip(np.searchsorted(_SCORES, score) - 1, 0, len(_SCORES) - 2)
        share = (score - _SCORES[left]) / (_SCORES[left + 1] - _SCORES[left])
        low, high = self.log_seconds[:, left], self.log_seconds[:, left + 1]
        logs: FloatArray = low + share * (high - low)
        return logs

    def _with_rows(self, seconds: FloatArray, probability: float) -> FloatArray:
        if self.rows.size:
            seconds[self.rows] = np.exp(self._logs_at(NormalDist().inv_cdf(probability)))
        return seconds


def with_interruptions(
    forecast: ForecastDistribution, rows: SpotRows
) -> tuple[InterruptedForecast, dict[int, SpotInfeasibleError]]:
    """Return the distributions with interruptions, and the rows that cannot end.

    The completion time is the work times a factor. The factor's distribution is that of the
    median work; longer work is stretched by the elasticity of the mean (without checkpoints its
    delay grows faster than the work). Both are combined on a grid of equally spaced scores: exact
    for work that is known, and within a few percent of simulation where it is uncertain (least
    exact in the lower bound, since the factor of shorter work varies more).
    """
    if not rows:
        return InterruptedForecast.none(forecast), {}
    log_median, scale = forecast.log_median.copy(), forecast.scale.copy()
    refusals: dict[int, SpotInfeasibleError] = {}
    groups: defaultdict[Interruptions, list[int]] = defaultdict(list)
    for row, (terms, instances) in rows.items():
        groups[interruptions_of(terms, instances)].append(row)
    log_work = _work_nodes(forecast)
    curves: dict[int, FloatArray] = {}
    for interruptions, members in groups.items():
        indices = np.array(members)
        work_s = np.exp(log_median[indices])
        moments = completion(work_s, interruptions)
        factors = moments.expected_s / work_s
        stretch = _elasticity(work_s, scale[indices], interruptions)
        for position, row in enumerate(members):
            if factors[position] <= MAX_FACTOR:
                logs = log_median[row] + stretch[position] * (log_work[row] - log_median[row])
                curves[row] = _combined(logs, float(work_s[position]), interruptions)
            else:
                refusals[row] = _refusal(
                    interruptions, float(factors[position]), float(work_s[position])
                )
        relative = moments.standard_deviation_s / moments.expected_s
        log_variance = np.log1p(np.minimum(relative, MAX_FACTOR) ** 2)
        stretched = np.sqrt((stretch * scale[indices]) ** 2 + log_variance)
        # A row that is refused stays as it was: its numbers may be beyond all bounds.
        is_kept = factors <= MAX_FACTOR
        log_median[indices[is_kept]] = (np.log(moments.expected_s) - log_variance / 2)[is_kept]
        scale[indices[is_kept]] = stretched[is_kept]
    interrupted = np.array(sorted(curves), dtype=np.intp)
    adjusted = replace(forecast, log_median=log_median, scale=scale)
    table = np.array([curves[row] for row in interrupted.tolist()]).reshape(-1, len(_SCORES))
    return InterruptedForecast(adjusted, interrupted, table), refusals


def _work_nodes(forecast: ForecastDistribution) -> FloatArray:
    """Return the log durations of the work at the scores of `_NODES`, shape (n, n_nodes)."""
    probabilities = _NODE_PROBABILITIES.tolist()
    return np.log(
        np.stack([forecast.quantile(probability) for probability in probabilities], axis=1)
    )


def _combined(log_work: FloatArray, work_s: float, terms: Interruptions) -> FloatArray:
    """Return the log quantiles of interrupted work at `_SCORES`."""
    overheads_s = overhead_quantiles(work_s, terms, _NODE_PROBABILITIES)
    checkpoints_written_s = checkpoints_s(np.array([work_s]), terms)[0]
    # Work that escapes interruption is a point mass.
    distinct, inverse = np.unique(overheads_s, return_inverse=True)
    factors = np.log1p((distinct + checkpoints_written_s) / work_s)
    logs = (log_work[:, None] + factors[None, :]).ravel()
    weights = np.outer(_weights(), np.bincount(inverse, _weights())).ravel()
    order = np.argsort(logs, kind="stable")
    cumulative = np.cumsum(weights[order]) - weights[order] / 2
    log_quantiles: FloatArray = np.interp(_SCORE_PROBABILITIES, cumulative, logs[order])
    return log_quantiles


def report_of(work_s: float, terms: SpotTerms, instances: int) -> SpotReport:
    """Return the assumptions on the interruptions of a work, and their expected effect."""
    interruptions = interruptions_of(terms, instances)
    moments = completion(np.array([work_s]), interruptions)
    best = optimal_checkpoint_interval_s(interruptions)
    expected = np.concatenate([moments.interruptions, moments.expected_s])
    expected_interruptions, expected_s = significant(expected, _DIGITS)
    return SpotReport(
        interruptions_per_hour=interruptions.per_hour,
        checkpoint_interval_s=interruptions.checkpoint_interval_s,
        checkpoint_s=interruptions.checkpoint_s,
        restart_s=interruptions.restart_s,
        expected_interruptions=expected_interruptions,
        expected_seconds=expected_s,
        optimal_checkpoint_interval_s=best if math.isfinite(best) else None,
    )


def _elasticity(work_s: FloatArray, scale: FloatArray, terms: Interruptions) -> FloatArray:
    """Return the elasticity of the mean with respect to the work, within [1, MAX_FACTOR]."""
    step = np.minimum(scale, _LARGEST_STEP)
    longer = completion(work_s * np.exp(step), terms).expected_s
    shorter = completion(work_s * np.exp(-step), terms).expected_s
    return np.clip(np.log(longer / shorter) / (2.0 * step), 1.0, MAX_FACTOR)


def _refusal(terms: Interruptions, factor: float, work_s: float) -> SpotInfeasibleError:
    # The end of the work needs no checkpoint: short work may do best without any.
    whole_s = min(math.ceil(work_s), MAX_CHECKPOINT_INTERVAL_S)
    for interval_s in (_stated(min(optimal_checkpoint_interval_s(terms), whole_s)), float(whole_s)):
        if interval_s >= MIN_CHECKPOINT_INTERVAL_S:
            better = replace(terms, checkpoint_interval_s=interval_s)
            if completion(np.array([work_s]), better).expected_s[0] <= MAX_FACTOR * work_s:
                return SpotInfeasibleError(expected_factor=factor, checkpoint_interval_s=interval_s)
    return SpotInfeasibleError(expected_factor=factor, checkpoint_interval_s=None)


def _stated(interval_s: float) -> float:
    """Return an interval as it is named: in whole seconds, one below a second in milliseconds.

    Examples
    --------
    >>> _stated(64.9), _stated(0.0129)
    (64.0, 0.012)
    """
    return float(math.floor(interval_s)) if interval_s > 1.0 else math.floor(interval_s * 1e3) / 1e3


@lru_cache(maxsize=1)
def _weights() -> FloatArray:
    """Return the probability mass around each node, shape (n_nodes,)."""
    edges = np.concatenate([[-np.inf], (_NODES[1:] + _NODES[:-1]) / 2, [np.inf]])
    weights: FloatArray = np.diff([_normal_cdf(edge) for edge in edges.tolist()])
    return weights
