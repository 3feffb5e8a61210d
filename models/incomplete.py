"""Runs that leave out what others tell: set aside where they blur what the others show."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.configurations import Configurations, collapse
from models.encoding import Encoder
from models.hardware import HardwareDescription
from models.regimes import FEW_CONFIGURATIONS, N_FOLDS
from models.scaling_laws import ScalingLaw
from models.tables import BoolArray, FeatureTable, IntArray, RunTable

_LEAST_GAIN = 0.1
"""The share of their error that complete configurations must be rid of; a heuristic."""

_MOST_COLUMNS = 4
"""Columns that are looked at alone: each takes a dozen small fits."""

_LEAST_ERROR = 0.01
"""Held-out log errors below this count as much: no law is that exact."""


def find_incomplete(
    runs: RunTable, hardware: Mapping[str, HardwareDescription] | None = None, *, seed: int = 0
) -> BoolArray:
    """Return which runs to set aside since they leave out what others tell, shape (n_runs,).

    A run without, say, its dataset size stands at the median of the others', and what its duration
    owes to its own size looks like noise of all. Column by column, from the one that fewest leave
    out, and at last for all of them, the runs that leave it out are set aside if a sum of power
    laws forecasts held-out runs that tell it better without them, by a tenth of the mean
    |log error|, and if a third of the runs and 12 configurations are left. Where a category tells
    who leaves a column out, it does not apply there and nothing is missing. A run stays that has a
    level, or lies beyond a range, that no other run shows.

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
    incomplete = np.zeros(runs.n_runs, dtype=np.bool_)
    unknown = _unknown(runs)
    each = [[mask] for mask in unknown[:_MOST_COLUMNS]]
    for masks in [*each, unknown] if len(unknown) > 1 else each:
        wider = _joined(incomplete, masks)
        wider &= incomplete | ~_alone(runs.features, wider)
        if (
            wider.sum() > incomplete.sum()
            and _gain(runs, incomplete, wider, hardware, seed) >= _LEAST_GAIN
        ):
            incomplete = wider
    return incomplete


def _joined(incomplete: BoolArray, masks: Sequence[BoolArray]) -> BoolArray:
    """Return the incomplete runs and those of masks, as long as a third of all runs is left."""
    for mask in masks:
        wider = incomplete | mask
        if 3 * wider.sum() <= 2 * len(wider):
            incomplete = wider
    return incomplete


def _unknown(runs: RunTable) -> list[BoolArray]:
    """Return for each column that some runs leave out, and no category tells which, who does.

    Those whom fewest leave out come first, then by durations, so that neither names nor the order
    of columns matter.
    """
    categories = runs.features.categorical.values()
    masks = [np.isnan(values) for values in runs.features.numeric.values()]
    masks += [np.array([level is None for level in levels]) for levels in categories]
    distinct = {
        mask.tobytes(): mask
        for mask in masks
        if mask.any() and not mask.all() and not any(_tells(levels, mask) for levels in categories)
    }
    seconds = runs.duration_seconds
    return sorted(distinct.values(), key=lambda mask: (mask.sum(), sorted(seconds[mask])))


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
    wider: BoolArray,
    hardware: Mapping[str, HardwareDescription] | None,
    seed: int,
) -> float:
    """Return the share of the others' mean |log error| that they are rid of without more runs."""
    before, alone = (collapse(runs.take(np.flatnonzero(~out))) for out in (incomplete, wider))
    known = set(alone.keys)
    asked = np.array([row for row, key in enumerate(before.keys) if key in known])
    if len(asked) < FEW_CONFIGURATIONS:
        return 0.0
    with_more = _held_out_error(before, asked, hardware, seed)
    return 1 - _held_out_error(alone, np.arange(len(asked)), hardware, seed) / with_more


def _held_out_error(
    configurations: Configurations,
    asked: IntArray,
    hardware: Mapping[str, HardwareDescription] | None,
    seed: int,
) -> float:
    """Return the mean |log error| of held-out folds of some rows.

    Templates are those of the law of all rows: the folds choose nothing.
    """
    encoder = Encoder.learn(configurations.features, hardware)
    X, y = encoder.encode(configurations.features).X, configurations.log_duration
    law = ScalingLaw(encoder.layout, seed=seed).fit(X, y)
    errors = np.zeros(len(asked))
    for fold in range(N_FOLDS):
        places = np.arange(fold, len(asked), N_FOLDS)
        train = np.setdiff1d(np.arange(len(y)), asked[places])
        told = law.refit_clone().fit(X[train], y[train])
        errors[places] = np.abs(y[asked[places]] - told.predict(X[asked[places]]))
    return float(np.maximum(errors, _LEAST_ERROR).mean())
