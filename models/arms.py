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

POOLED_SHARE = 0.7
"""Share of the pooled members in the forecasts of a workload with few configurations."""

MIN_ALONE = 3
"""Fewer configurations show no trend of their own."""

MAX_POOLED_CONFIGURATIONS = 150
"""A workload with more configurations than this learns its laws from its own runs alone."""


def build_arms(
    layout: Layout, prior: LayoutPrior | None, n_configurations: int
) -> dict[str, Layout]:
    """Return the layouts to fit the candidates with, by the prefix of their names.

    From 3 configurations on the candidates are fitted with and without the pool; fewer say nothing
    of their own.
    """
    if prior is None or n_configurations > MAX_POOLED_CONFIGURATIONS:
        return {"": layout}
    pooled = {POOLED: replace(layout, prior=prior)}
    return pooled if n_configurations < MIN_ALONE else {"": layout, **pooled}


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
    """Return the members' weights in a regime: those of the arm that forecast it better.

    Fewer than 12 configurations cannot tell which one that is: both arms answer, the pooled one
    with the larger share, so that a pool unlike the workload does less harm. A level that no run
    has, and a regime without a held-out set, is answered by the pooled members.
    """
    groups = _groups(names)
    is_mixed = n_configurations < FEW_CONFIGURATIONS and kind != "new_level" and len(groups) > 1
    found: list[tuple[float, FloatArray]] = []
    for rows in groups.values():
        plain = [plain_name(names[row]) for row in rows]
        own = None if held_out is None else _of_members(held_out, rows)
        weights = np.zeros(len(names))
        weights[rows] = choose_weights(plain, kind, axis, n_configurations, own)
        found.append((0.0 if held_out is None else _loss(held_out, weights), weights))
    if is_mixed:
        alone, pooled = (weights for _, weights in found)
        return (1 - POOLED_SHARE) * alone + POOLED_SHARE * pooled
    return min(reversed(found), key=lambda pair: pair[0])[1]


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
