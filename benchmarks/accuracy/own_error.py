"""How often an error can be predicted at all, given that a task's true error is itself random."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks.accuracy.judging import Judgement

_DRAWS = 200
_SEED = 1
_MIN_ERROR = 1e-4
_MAX_LOG = 50.0


@dataclass(frozen=True, slots=True)
class _Deviations:
    """Log errors in units of those predicted, pooled over tasks with equal weight."""

    values: NDArray[np.float64]
    """Increasing, and divided by their median size, so that half of them exceed the prediction."""

    shares: NDArray[np.float64]
    """Share of the pool up to the middle of each value's step, increasing."""

    def scores(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard normal score of each value's rank in the pool."""
        return np.asarray(norm.ppf(np.interp(values, self.values, self.shares)))

    def at(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value at the rank of each score in the pool."""
        return np.interp(norm.cdf(scores), self.shares, self.values)


def attainable_share(judgements: Sequence[Judgement]) -> float:
    """Return the share of tasks that exactly calibrated forecasts would know within a factor of 2.

    Each task's errors are redrawn: sizes from the forecasts' own predictions, shapes from the
    errors of all tasks, and correlated within a task like the measured ones (a Gaussian copula with
    one correlation per kind of question, from the products of pairs).

    Parameters
    ----------
    judgements
        The judgements, one per task; at least one.

    Notes
    -----
    This is a bound in expectation: another draw of the same tasks may be a few percent above it.
    """
    deviations = [_deviations(item) for item in judgements]
    pool, scale = _pooled(deviations)
    scores: dict[str, list[NDArray[np.float64]]] = {}
    for item, values in zip(judgements, deviations, strict=True):
        scores.setdefault(item.kind, []).append(pool.scores(values / scale))
    correlations = {kind: _correlation(values) for kind, values in scores.items()}
    generator = np.random.default_rng(_SEED)
    known = [_share_known(item, pool, correlations[item.kind], generator) for item in judgements]
    return float(np.mean(known))


def _deviations(item: Judgement) -> NDArray[np.float64]:
    points = item.points
    logs = np.log(np.array(points.observed) / np.array(points.predicted))
    return np.asarray(logs / np.log1p(np.array(points.typical)))


def _pooled(deviations: Sequence[NDArray[np.float64]]) -> tuple[_Deviations, float]:
    """Return the pool of all tasks' errors, and the median size by which they are divided."""
    values = np.concatenate(deviations)
    weights = np.concatenate([np.full(len(of_task), 1 / len(of_task)) for of_task in deviations])
    weights /= weights.sum()
    by_size = np.argsort(np.abs(values), kind="stable")
    middle = by_size[np.searchsorted(weights[by_size].cumsum(), 0.5)]
    scale = float(abs(values[middle])) or 1.0
    order = np.argsort(values, kind="stable")
    shares = weights[order].cumsum() - weights[order] / 2
    return _Deviations(values[order] / scale, shares), scale


def _correlation(scores: Sequence[NDArray[np.float64]]) -> float:
    """Return the correlation of scores within a task: the mean product of pairs, 0 to 1."""
    products = [
        (of_task.sum() ** 2 - (of_task**2).sum()) / (len(of_task) * (len(of_task) - 1))
        for of_task in scores
        if len(of_task) > 1
    ]
    return float(np.clip(np.mean(products), 0.0, 1.0)) if products else 0.0


def _share_known(
    item: Judgement, pool: _Deviations, rho: float, generator: np.random.Generator
) -> float:
    typical = np.array(item.points.typical)
    common = generator.standard_normal((_DRAWS, 1))
    individual = generator.standard_normal((_DRAWS, len(typical)))
    logs = pool.at(np.sqrt(rho) * common + np.sqrt(1 - rho) * individual) * np.log1p(typical)
    errors = np.abs(np.expm1(np.minimum(-logs, _MAX_LOG))).mean(axis=1)
    ratios = item.own_estimate / np.maximum(errors, _MIN_ERROR)
    return float(np.mean((ratios >= 0.5) & (ratios <= 2)))  # noqa: PLR2004 - the factor
