"""Members with and without a pool of other workloads, and which of them answer what."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from models.layout import Layout, LayoutPrior
from models.regimes import FEW_CONFIGURATIONS, Kind
from models.selection import HeldOut, choose_weights
from models.tables import FloatArray, IntArray

POOLED = "pooled."
"""Prefix of the name of a member whose prior was learned from other workloads."""

WITHOUT_PRIOR = frozenset({"boosted_trees"})
"""Regressors that no prior changes: fitted once."""

MAX_POOLED_CONFIGURATIONS = 150
"""A workload with more configurations than this learns its laws from its own runs alone."""

_SHARPNESS = 4
_POOL_COUNTS_AS = 6
"""Configurations that weigh as much as the pool in the forecasts of few of them."""

_LEAST_OF_NEW_LEVEL = 0.75
"""Share of the pool in what few configurations say of a level that none of them has."""

_LEAST_LOSS = 1e-9


def build_arms(
    layout: Layout, prior: LayoutPrior | None, n_configurations: int
) -> dict[str, Layout]:
    """Return the layouts to fit the candidates with, by the prefix of their names."""
    if prior is None or n_configurations > MAX_POOLED_CONFIGURATIONS:
        return {"": layout}
    return {"": layout, POOLED: replace(layout, prior=prior)}


def plain_name(name: str) -> str:
    """Return the name of a member's regressor.

    Examples
    --------
    >>> plain_name("pooled.scaling_law"), plain_name("log_linear")
    ('scaling_law', 'log_linear')
    """
    return name.removeprefix(POOLED)


def choose_arm_weights(
    names: Sequence[str],
    kind: Kind,
    axis: str,
    n_configurations: int,
    held_out: HeldOut | None,
) -> FloatArray:
    """Return the members' weights in a regime: those of both arms, by `pooled_share`."""
    groups = _groups(names)
    found: dict[bool, tuple[float, FloatArray]] = {}
    for is_pooled, rows in groups.items():
        plain = [plain_name(names[row]) for row in rows]
        own = None if held_out is None else _of_members(held_out, rows)
        weights = np.zeros(len(names))
        weights[rows] = choose_weights(plain, kind, axis, n_configurations, own)
        loss = np.nan if held_out is None else _loss(held_out, weights)
        found[is_pooled] = loss, weights
    if len(found) == 1:
        return next(iter(found.values()))[1]
    (alone_loss, alone), (pooled_loss, pooled) = found[False], found[True]
    share = pooled_share(kind, n_configurations, alone_loss, pooled_loss)
    return (1 - share) * alone + share * pooled


def pooled_share(kind: Kind, n_configurations: int, alone: float, pooled: float) -> float:
    """Return the share of the pooled members in a regime's forecasts; a heuristic.

    Fewer than 12 configurations cannot tell which arm is right: the pool counts as much as six of
    them, ``6 / (6 + n)``, and three quarters at least for a level that none of them has. From there
    on the arms answer in the ratio of the inverse fourth powers of their held-out losses: equal
    ones halve the weight, a loss twice the other's leaves a sixteenth. An untested regime has seen
    enough of the workload to do without the pool, except for a level that no run has: about that
    the other workloads alone know something.

    Parameters
    ----------
    kind
        Kind of the regime.
    n_configurations
        Configurations of the fit.
    alone, pooled
        Held-out losses of the arms: NaN if nothing was held out, infinite where a member failed.

    Examples
    --------
    >>> pooled_share("interpolation", 3, np.nan, np.nan)
    0.6666666666666666
    >>> pooled_share("interpolation", 40, 0.1, 0.1), pooled_share("transfer", 40, 0.1, np.inf)
    (0.5, 0.0)
    """
    if n_configurations < FEW_CONFIGURATIONS:
        share = _POOL_COUNTS_AS / (_POOL_COUNTS_AS + n_configurations)
        return max(share, _LEAST_OF_NEW_LEVEL) if kind == "new_level" else share
    if kind == "new_level":
        return 1.0
    if np.isnan(alone) or np.isinf(pooled):
        return 0.0
    if np.isinf(alone):
        return 1.0
    best = max(min(alone, pooled), _LEAST_LOSS)
    odds = [(best / max(loss, _LEAST_LOSS)) ** _SHARPNESS for loss in (alone, pooled)]
    return odds[1] / sum(odds)


def uses_pool(names: Sequence[str], weights: FloatArray) -> bool:
    """Return whether the members with weight learned their priors from other workloads."""
    return any(
        name.startswith(POOLED) and weight > 0 for name, weight in zip(names, weights, strict=True)
    )


def _groups(names: Sequence[str]) -> Mapping[bool, IntArray]:
    pooled = np.array([name.startswith(POOLED) for name in names])
    every = {flag: np.flatnonzero(pooled == flag) for flag in (False, True)}
    return {flag: rows for flag, rows in every.items() if len(rows)}


def _of_members(held_out: HeldOut, rows: IntArray) -> HeldOut:
    return replace(held_out, means=held_out.means[rows], variances=held_out.variances[rows])


def _loss(held_out: HeldOut, weights: FloatArray) -> float:
    """Return the weighted mean absolute log residual, infinite where a member failed."""
    active = weights > 0
    residual = np.abs(held_out.observed - weights[active] @ held_out.means[active])
    loss = float(residual @ held_out.weights / held_out.weights.sum())
    return loss if np.isfinite(loss) else np.inf
