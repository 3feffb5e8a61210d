"""Runs that leave out what others tell: set aside where they blur what the others show."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.configurations import Configurations, collapse
from models.encoding import Encoder
from models.hardware import HardwareDescription
from models.regimes import FEW_CONFIGURATIONS, N_FOLDS
from models.scaling_laws import LogLinearLaw
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray, RunTable

_LEAST_GAIN = 0.1
"""What a complete configuration must gain in log predictive density, in nats; a heuristic."""


def find_incomplete(
    runs: RunTable, hardware: Mapping[str, HardwareDescription] | None = None, *, seed: int = 0
) -> BoolArray:
    """Return which runs to set aside since they leave out what others tell, shape (n_runs,).

    A run without, say, its dataset size stands at the median of the others', and what its duration
    owes to its own size looks like noise of all. Runs are complete cases or none, column by
    column from the one that fewest leave out, as long as a third of the runs and 12 configurations
    are left. They are set aside if a power law forecasts held-out complete configurations better
    without them, by a tenth of a nat each in log predictive density. Where a category tells who
    leaves a column out, it does not apply there and nothing is missing. A run stays that has a
    level, or lies beyond a range, that no complete run shows.

    Parameters
    ----------
    runs
        Runs that ended well.
    hardware, seed
        As for `fit_portfolio`.

    References
    ----------
    Little and Rubin (2019), Statistical analysis with missing data, ch. 3: complete cases are
    unbiased where what is missing does not depend on the duration given the rest.

    Examples
    --------
    >>> size = np.geomspace(1e3, 1e5, 24)
    >>> told = np.where(np.arange(24) % 4 == 1, np.nan, size)
    >>> features = FeatureTable({"dataset_size": told}, {}, 24)
    >>> runs = RunTable(features, size / 10, [str(row) for row in range(24)])
    >>> find_incomplete(runs).nonzero()[0].tolist()
    [1, 5, 9, 13, 17, 21]
    """
    nothing = np.zeros(runs.n_runs, dtype=np.bool_)
    unknown = _unknown(runs.features)
    if not unknown:
        return nothing
    incomplete = nothing
    seconds = runs.duration_seconds
    # By durations, so that neither names nor the order of columns matter.
    for left_out in sorted(unknown, key=lambda mask: (mask.sum(), sorted(seconds[mask]))):
        joined = incomplete | left_out
        if 3 * joined.sum() <= 2 * runs.n_runs:
            incomplete = joined
    incomplete = incomplete & ~_alone(runs.features, incomplete)
    if not incomplete.any():
        return nothing
    return incomplete if _gain(runs, incomplete, hardware, seed) >= _LEAST_GAIN else nothing


def _unknown(features: FeatureTable) -> list[BoolArray]:
    """Return for each column that some runs leave out, and no category tells which, who does."""
    categories = features.categorical.values()
    masks = [np.isnan(values) for values in features.numeric.values()]
    masks += [np.array([level is None for level in levels]) for levels in categories]
    return [
        mask
        for mask in masks
        if mask.any() and not mask.all() and not any(_tells(levels, mask) for levels in categories)
    ]


def _tells(levels: Sequence[str | None], mask: BoolArray) -> bool:
    """Whether the level of a category tells who leaves a column out."""
    without = {level for level, left_out in zip(levels, mask, strict=True) if left_out}
    told = {level for level, left_out in zip(levels, mask, strict=True) if not left_out}
    return None not in without and not without & told


def _alone(features: FeatureTable, incomplete: BoolArray) -> BoolArray:
    """Return which runs have a level, or lie beyond a range, that no complete run shows."""
    alone = np.zeros(len(incomplete), dtype=np.bool_)
    for values in features.numeric.values():
        known = values[~incomplete & ~np.isnan(values)]
        if known.size:
            alone |= (values < known.min()) | (values > known.max())
    for levels in features.categorical.values():
        shown = {level for level, out in zip(levels, incomplete, strict=True) if not out}
        alone |= np.array([level is not None and level not in shown for level in levels])
    return alone & incomplete


def _gain(
    runs: RunTable,
    incomplete: BoolArray,
    hardware: Mapping[str, HardwareDescription] | None,
    seed: int,
) -> float:
    """Return by how much the others' log predictive density rises without some, in nats each."""
    every, alone = collapse(runs), collapse(runs.take(np.flatnonzero(~incomplete)))
    known = set(alone.keys)
    asked = np.array([row for row, key in enumerate(every.keys) if key in known])
    if len(asked) < FEW_CONFIGURATIONS:
        return 0.0
    with_all = _densities(every, asked, hardware, seed)
    return float(_densities(alone, np.arange(len(asked)), hardware, seed).mean() - with_all.mean())


def _densities(
    configurations: Configurations,
    asked: IntArray,
    hardware: Mapping[str, HardwareDescription] | None,
    seed: int,
) -> FloatArray:
    """Return the log densities of held-out folds of some rows, shape (n_asked,).

    What repetitions differ by is the least that a forecast can be off.
    """
    encoder = Encoder.learn(configurations.features, hardware)
    X, y = encoder.encode(configurations.features).X, configurations.log_duration
    found = np.zeros(len(asked))
    for fold in range(N_FOLDS):
        places = np.arange(fold, len(asked), N_FOLDS)
        train = np.setdiff1d(np.arange(len(y)), asked[places])
        law = LogLinearLaw(encoder.layout, seed=seed).fit(X[train], y[train])
        mean, variance = law.predict_moments(X[asked[places]])
        assert variance is not None
        variance = np.maximum(variance, configurations.noise_variance)
        found[places] = -((y[asked[places]] - mean) ** 2 / variance + np.log(variance)) / 2
    return found
