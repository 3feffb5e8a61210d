"""How often an error can be predicted at all, given that a task's true error is itself random."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks.accuracy.judging import Judgement

_DRAWS = 200
_SEED = 1
_LEAST_ERROR = 1e-4
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
    found = [_deviations(item) for item in judgements]
    pool, scale = _pooled(found)
    scores: dict[str, list[NDArray[np.float64]]] = {}
    for item, each in zip(judgements, found, strict=True):
        scores.setdefault(item.kind, []).append(pool.scores(each / scale))
    alike = {kind: _correlation(each) for kind, each in scores.items()}
    generator = np.random.default_rng(_SEED)
    known = [_share_known(item, pool, alike[item.kind], generator) for item in judgements]
    return float(np.mean(known))


def _deviations(item: Judgement) -> NDArray[np.float64]:
    points = item.points
    logs = np.log(np.array(points.observed) / np.array(points.predicted))
    return np.asarray(logs / np.log1p(np.array(points.typical)))


def _pooled(found: Sequence[NDArray[np.float64]]) -> tuple[_Deviations, float]:
    """Return the pool of all tasks' errors, and the median size by which they are divided."""
    values = np.concatenate(found)
    weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in found])
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
        (each.sum() ** 2 - (each**2).sum()) / (len(each) * (len(each) - 1))
        for each in scores
        if len(each) > 1
    ]
    return float(np.clip(np.mean(products), 0.0, 1.0)) if products else 0.0


def _share_known(
    item: Judgement, pool: _Deviations, alike: float, generator: np.random.Generator
) -> float:
    typical = np.array(item.points.typical)
    shared = generator.standard_normal((_DRAWS, 1))
    own = generator.standard_normal((_DRAWS, len(typical)))
    logs = pool.at(np.sqrt(alike) * shared + np.sqrt(1 - alike) * own) * np.log1p(typical)
    errors = np.abs(np.expm1(np.minimum(-logs, _MAX_LOG))).mean(axis=1)
    ratios = item.own_estimate / np.maximum(errors, _LEAST_ERROR)
    return float(np.mean((ratios >= 0.5) & (ratios <= 2)))  # noqa: PLR2004 - the factor
