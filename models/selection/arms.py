"""Members with and without a pool of other workloads, and how much each arm counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.features.layout import Layout, LayoutPrior
from models.questions.likely_questions import Answers, ask, likely_questions
from models.questions.regimes import FEW_CONFIGURATIONS, INTERPOLATION, Kind
from models.regressor import PortfolioRegressor
from models.selection.weights import HeldOut, choose_weights, combine
from models.tables import FloatArray, IntArray

POOLED = "pooled."
"""Prefix of the name of a member whose prior was learned from other workloads."""

WITHOUT_PRIOR = frozenset({"boosted_trees"})
"""Regressors that ignore the prior, hence are fitted once."""

MAX_POOLED_CONFIGURATIONS = 150
"""A workload with more configurations than this learns its laws from its own runs alone."""

_LOSS_EXPONENT = 4
"""Exponent of the held-out losses in the weights of the arms; see `pooled_share`."""

_POOL_CONFIGURATIONS = 4
"""Number of configurations that counts as much as a pool that does not sharpen forecasts."""

_MIN_SHARE_OF_UNSEEN = 0.75
"""Least share of the pool for what no run shows, where configurations are few."""

_SHARES_OF_UNSEEN: Mapping[Kind, float] = {"new_level": 1.0, "constant_axis": 0.75}
"""Share of the pool from 12 configurations on, for an unseen level and an axis of one value."""

_MIN_LOSS, _MIN_VARIANCE = 1e-9, 1e-8
"""Smaller values are rounding errors."""


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


@dataclass(frozen=True, slots=True)
class Arms:
    """The members of a fit, and how those with a pool are weighed against those without.

    Parameters
    ----------
    names
        The members' names.
    n_configurations
        Configurations of the fit.
    answers
        The members' answers to likely questions, by axis; empty where held-out sets decide between
        the arms, or there is only one arm.
    """

    names: Sequence[str]
    n_configurations: int
    answers: Mapping[str, Answers]

    @classmethod
    def of(
        cls,
        fitted: Mapping[str, PortfolioRegressor],
        layout: Layout,
        axes: Sequence[str],
        X: FloatArray,
    ) -> "Arms":
        """Return the arms of fitted members; `axes` name the first columns of the rows X."""
        names = list(fitted)
        needs_questions = len(X) < FEW_CONFIGURATIONS and len(_rows_by_arm(names)) > 1
        questions = likely_questions(layout, axes, X) if needs_questions else {}
        return cls(names, len(X), ask(fitted.values(), questions) if questions else {})

    def weights(
        self, kind: Kind, axis: str, held_out: HeldOut | None, inside: HeldOut | None
    ) -> FloatArray:
        """Return the members' weights in a regime, both arms mixed by `pooled_share`.

        `inside` are the held-out forecasts of interpolation.
        """
        arms: dict[bool, tuple[float, FloatArray]] = {}
        for is_pooled, rows in _rows_by_arm(self.names).items():
            plain = [plain_name(self.names[row]) for row in rows]
            arm_held_out, arm_inside = _pick_members(held_out, rows), _pick_members(inside, rows)
            weights = np.zeros(len(self.names))
            weights[rows] = choose_weights(
                plain,
                kind,
                axis,
                n_configurations=self.n_configurations,
                held_out=arm_held_out,
                inside=arm_inside,
            )
            loss = np.nan if held_out is None else _loss(held_out, weights)
            arms[is_pooled] = loss, weights
        if len(arms) == 1:
            return next(iter(arms.values()))[1]
        (alone_loss, alone), (pooled_loss, pooled) = arms[False], arms[True]
        gain = self._gain(axis, alone, pooled)
        share = pooled_share(kind, self.n_configurations, alone_loss, pooled_loss, gain=gain)
        return (1 - share) * alone + share * pooled

    def _gain(self, axis: str, alone: FloatArray, pooled: FloatArray) -> float:
        """Return the geometric mean of the ratios of the variances without and with the pool.

        1 where no likely question was asked.
        """
        answers = self.answers.get(axis, self.answers.get(INTERPOLATION))
        if answers is None:
            return 1.0
        alone_variances, pooled_variances = (
            np.maximum(combine(weights, answers.means, answers.variances)[1], _MIN_VARIANCE)
            for weights in (alone, pooled)
        )
        gain = float(np.exp(np.log(alone_variances / pooled_variances).mean()))
        return gain if np.isfinite(gain) else 1.0


def pooled_share(
    kind: Kind, n_configurations: int, alone: float, pooled: float, *, gain: float = 1.0
) -> float:
    """Return the share of the pooled members in a regime's forecasts; a heuristic.

    The held-out sets of fewer than 12 configurations cannot tell which arm is right. The arms are
    then weighed by the precision that they predict: the pool counts as ``m = 4 gain``
    configurations, so its share is ``m / (m + n)``, and at least three quarters where no run tells
    anything: for a level without runs, and beyond an axis on which all runs have one value. From 12
    configurations on, the arms are weighed by the inverse fourth powers of their held-out losses:
    equal losses give equal weights, twice the loss gives odds of 1 to 16. In an untested regime the
    workload's own runs are then enough and the pool gets no weight, with two exceptions: for a
    level without runs only the other workloads know anything, and for an axis of one value the
    pool's share is three quarters again.

    Parameters
    ----------
    kind
        Kind of the regime.
    n_configurations
        Configurations of the fit.
    alone, pooled
        Held-out losses of the arms: NaN if nothing was held out, infinite where a member failed.
    gain
        Variance predicted for likely questions without the pool, relative to that with it.

    References
    ----------
    Bates and Granger (1969), The combination of forecasts, Operational Research Quarterly 20(4).

    Examples
    --------
    >>> pooled_share("interpolation", 4, np.nan, np.nan)
    0.5
    >>> pooled_share("interpolation", 4, np.nan, np.nan, gain=3.0)
    0.75
    >>> pooled_share("interpolation", 40, 0.1, 0.1), pooled_share("transfer", 40, 0.1, np.inf)
    (0.5, 0.0)
    >>> pooled_share("constant_axis", 40, np.nan, np.nan)
    0.75
    """
    if n_configurations < FEW_CONFIGURATIONS:
        pool_count = _POOL_CONFIGURATIONS * gain
        share = pool_count / (pool_count + n_configurations)
        return max(share, _MIN_SHARE_OF_UNSEEN) if kind in _SHARES_OF_UNSEEN else share
    if kind in _SHARES_OF_UNSEEN:
        return _SHARES_OF_UNSEEN[kind]
    if np.isnan(alone) or np.isinf(pooled):
        return 0.0
    if np.isinf(alone):
        return 1.0
    best = max(min(alone, pooled), _MIN_LOSS)
    odds = [(best / max(loss, _MIN_LOSS)) ** _LOSS_EXPONENT for loss in (alone, pooled)]
    return odds[1] / sum(odds)


def uses_pool(names: Sequence[str], weights: FloatArray) -> bool:
    """Return whether any member with weight learned its prior from other workloads."""
    return any(
        name.startswith(POOLED) and weight > 0 for name, weight in zip(names, weights, strict=True)
    )


def _rows_by_arm(names: Sequence[str]) -> Mapping[bool, IntArray]:
    is_pooled = np.array([name.startswith(POOLED) for name in names])
    rows_by_arm = {flag: np.flatnonzero(is_pooled == flag) for flag in (False, True)}
    return {flag: rows for flag, rows in rows_by_arm.items() if len(rows)}


def _pick_members(held_out: HeldOut | None, rows: IntArray) -> HeldOut | None:
    if held_out is None:
        return None
    return replace(held_out, means=held_out.means[rows], variances=held_out.variances[rows])


def _loss(held_out: HeldOut, weights: FloatArray) -> float:
    """Return the weighted mean absolute log residual, infinite where a member failed."""
    active = weights > 0
    errors = np.abs(held_out.observed - weights[active] @ held_out.means[active])
    loss = float(errors @ held_out.weights / held_out.weights.sum())
    return loss if np.isfinite(loss) else np.inf
