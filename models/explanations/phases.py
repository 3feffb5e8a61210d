"""Shares of the phases of a run in its duration, learned from the runs that report phases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.features.encoder import Encoder
from models.features.layout import Layout
from models.state.checks import check_bounded, demand
from models.tables import FeatureTable, FloatArray

OTHER = "other"
"""The part of a duration that no phase accounts for, and phases beyond the largest ones."""

MAX_PHASES = 8

# A phase that a run lacks, or that took no time, gets this share so that its logarithm is finite.
_MIN_SHARE = 1e-3
# The ridge stands for slopes with a standard deviation of about 1 and residuals of about 1/3.
_RIDGE, _INTERCEPT_RIDGE = 0.1, 0.01
# A rest below this share is taken as rounding and gets no phase of its own.
_MIN_REST = 0.01


@dataclass(frozen=True, slots=True)
class PhaseRuns:
    """Runs that report how long their phases took.

    Parameters
    ----------
    features
        The features of the runs.
    duration_seconds
        Durations, shape (n,), positive and finite.
    seconds
        Name of a phase to its seconds in each run, shape (n,), not negative, NaN where it was not
        reported.

    Raises
    ------
    ValueError
        If lengths differ, a duration is not positive or a phase is negative.

    Examples
    --------
    >>> features = FeatureTable({"workers": np.array([2.0])}, {}, 1)
    >>> PhaseRuns(features, np.array([9.0]), {"setup": np.array([1.0])}).features.n_rows
    1
    """

    features: FeatureTable
    duration_seconds: FloatArray
    seconds: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        lengths = {len(self.duration_seconds), *(len(seconds) for seconds in self.seconds.values())}
        if lengths != {self.features.n_rows}:
            raise ValueError("Features, durations and phases differ in length.")
        if not (np.isfinite(self.duration_seconds) & (self.duration_seconds > 0)).all():
            raise ValueError("Durations are positive finite seconds.")
        for seconds in self.seconds.values():
            known = seconds[~np.isnan(seconds)]
            if not (np.isfinite(known) & (known >= 0)).all():
                raise ValueError("Phases are finite seconds, 0 and more.")


@dataclass(frozen=True, slots=True)
class PhaseLaw:
    """The shares of the phases as a function of the configuration.

    Each phase is a power law of the features relative to the others: the log ratios of the shares
    to their geometric mean are linear in the encoded features.

    Parameters
    ----------
    names
        The phases, in the order of the columns.
    coefficients
        Of the centred log ratios, shape (n_design_columns, n_phases).

    References
    ----------
    Aitchison (1982), The statistical analysis of compositional data, J. R. Statist. Soc. B 44(2).
    """

    names: tuple[str, ...]
    coefficients: FloatArray

    def shares(self, layout: Layout, X: FloatArray) -> FloatArray:
        """Return the share of each phase in each row, shape (n, n_phases), summing to 1.

        Parameters
        ----------
        layout
            How to read the columns of X.
        X
            Encoded questions, shape (n, n_columns); a code without a level counts as the average.
        """
        logs = _design(layout, X) @ self.coefficients
        parts = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares: FloatArray = parts / parts.sum(axis=1, keepdims=True)
        return shares


def fit_phases(runs: PhaseRuns | None, encoder: Encoder) -> PhaseLaw | None:
    """Fit the shares by ridge regression of their log ratios; None if no run reports phases.

    The rest of the duration is a phase of its own, ``other``. Where phases overlap and add up to
    more than the duration, shares are relative to their sum.

    Examples
    --------
    >>> features = FeatureTable({"workers": np.array([1.0, 2.0, 4.0])}, {}, 3)
    >>> runs = PhaseRuns(features, np.full(3, 10.0), {"compute": np.array([9.0, 8.0, 6.0])})
    >>> encoder = Encoder.learn(features)
    >>> law = fit_phases(runs, encoder)
    >>> law.names, law.shares(encoder.layout, encoder.encode(features).X).round(1)[:, 1].tolist()
    (('compute', 'other'), [0.1, 0.2, 0.4])
    """
    if runs is None:
        return None
    names, shares = _composition(runs)
    if not names:
        return None
    has_phases = shares.sum(axis=1) > 0
    logs = np.log(np.maximum(shares[has_phases], _MIN_SHARE))
    logs -= logs.mean(axis=1, keepdims=True)
    design = _design(encoder.layout, encoder.encode(runs.features).X[has_phases])
    # The last bits of sums depend on the order of the summands, hence a fixed order.
    order = np.lexsort((*logs.T, *design.T))
    logs, design = logs[order], design[order]
    penalty = np.full(design.shape[1], _RIDGE)
    # The constant and the gate (a single worker) are hardly penalised.
    penalty[[0, 1 + encoder.layout.n_numeric]] = _INTERCEPT_RIDGE
    normal = design.T @ design + np.diag(penalty)
    return PhaseLaw(names, np.linalg.solve(normal, design.T @ logs))


def check_phases(names: Sequence[str], coefficients: FloatArray, layout: Layout) -> PhaseLaw | None:
    """Return the law of an artefact's names and numbers, None where there are no names.

    Raises
    ------
    ValueError
        If they do not fit together.
    """
    if not names:
        return None
    demand(len(set(names)) == len(names) <= MAX_PHASES, "phases are too many or there twice")
    width = 2 + layout.n_numeric + sum(layout.levels)
    check_bounded(coefficients, (width, len(names)), "phases")
    return PhaseLaw(tuple(names), coefficients)


def _composition(runs: PhaseRuns) -> tuple[tuple[str, ...], FloatArray]:
    """Return the names of the phases and their shares in each run; all 0 in runs without phases."""
    phases = sorted(runs.seconds)
    if not phases:
        return (), np.empty((len(runs.duration_seconds), 0))
    seconds = np.column_stack([np.nan_to_num(runs.seconds[name]) for name in phases])
    total = seconds.sum(axis=1)
    shares = seconds / np.maximum(total, runs.duration_seconds)[:, None]
    # Summed in one order, so that phases of equal size are so in any order of the runs.
    sizes = np.sort(shares, axis=0).sum(axis=0)
    order = np.argsort(-sizes, kind="stable")[: MAX_PHASES - 1]
    chosen = [index for index in order.tolist() if shares[:, index].any()]
    rest = np.where(total > 0, 1.0 - shares[:, chosen].sum(axis=1), 0.0)
    if rest.max(initial=0.0) < _MIN_REST:
        return tuple(phases[index] for index in chosen), shares[:, chosen]
    names, other = [phases[index] for index in chosen], OTHER
    while other in names:
        other += "_"
    return (*names, other), np.column_stack([shares[:, chosen], rest])


def _design(layout: Layout, X: FloatArray) -> FloatArray:
    """Return a column of ones, the numeric features, the gate and the levels' indicators."""
    columns = [np.ones((len(X), 1)), layout.numeric(X), layout.gate(X)[:, None]]
    for codes, count in zip(layout.codes(X).T, layout.levels, strict=True):
        columns.append((codes[:, None] == np.arange(count)).astype(np.float64))
    return np.hstack(columns)
