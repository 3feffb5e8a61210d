"""Runs that leave out values that others give: set aside where they blur what the others show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.features.encoder import Encoder
from models.features.hardware import HardwareDescription
from models.laws.scaling_laws import MAX_LAW_CONFIGURATIONS, ScalingLaw
from models.questions.regimes import FEW_CONFIGURATIONS, N_FOLDS
from models.runs.configurations import Configurations, collapse
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray, RunTable

_MIN_GAIN = 0.2
"""Least relative reduction of the error on complete configurations; a heuristic."""

_MAX_COLUMNS = 4
"""Most columns that are examined one by one: each takes a dozen small fits."""

_FOLDS_OF_MANY = 2
"""Folds held out of more configurations than a law is fitted on: these are enough."""

_MIN_ERROR = 0.01
"""Smaller held-out log errors count as this: no law is that exact."""


def find_incomplete(
    runs: RunTable, hardware: Mapping[str, HardwareDescription] | None = None, *, seed: int = 0
) -> BoolArray:
    """Return which runs to set aside because they leave out what others give, shape (n_runs,).

    A run without, say, its dataset size is placed at the median of the others', and the effect of
    its own size then looks like noise. Column by column, starting with the one that fewest runs
    leave out, and finally for all columns together, runs that leave it out are set aside if without
    them a sum of power laws forecasts held-out complete runs better, by a fifth of the mean
    |log error|, and if a third of the configurations and at least 12 are left. Where the level of a
    category determines whether a column is left out, the column does not apply there and nothing is
    missing. A run is kept if it has a level, or lies beyond a range, that no complete run shows.

    Parameters
    ----------
    runs
        Completed runs.
    hardware, seed
        As for `fit_portfolio`.

    References
    ----------
    Little and Rubin (2019), Statistical analysis with missing data, ch. 3: complete cases are
    unbiased where what is missing does not depend on the duration given the rest.

    Examples
    --------
    >>> size = np.geomspace(1e3, 1e5, 24)
    >>> known = np.where(np.arange(24) % 4 == 1, np.nan, size)
    >>> features = FeatureTable({"dataset_size": known}, {}, 24)
    >>> runs = RunTable(features, size / 10, [str(row) for row in range(24)])
    >>> find_incomplete(runs).nonzero()[0].tolist()
    [1, 5, 9, 13, 17, 21]
    """
    empty_mask = np.zeros(runs.n_runs, dtype=np.bool_)
    if not _missing_masks(runs.features, runs.duration_seconds):
        return empty_mask
    configurations = collapse(runs)
    features = configurations.features
    incomplete = empty_mask[: features.n_rows]
    all_masks = _missing_masks(features, configurations.log_duration)
    cases = _CompleteCases.of(runs, configurations, hardware or {}, seed)
    single_masks = [[mask] for mask in all_masks[:_MAX_COLUMNS]]
    for masks in [*single_masks, all_masks] if len(all_masks) > 1 else single_masks:
        wider = _union(incomplete, masks)
        wider &= incomplete | ~_is_unique(features, wider)
        if wider.sum() > incomplete.sum() and cases.gain(incomplete, wider) >= _MIN_GAIN:
            incomplete = wider
    return incomplete[configurations.group]


def _union(incomplete: BoolArray, masks: Sequence[BoolArray]) -> BoolArray:
    """Return what is incomplete joined with the masks, as long as a third of all is left."""
    for mask in masks:
        wider = incomplete | mask
        if 3 * wider.sum() <= 2 * len(wider):
            incomplete = wider
    return incomplete


def _missing_masks(features: FeatureTable, durations: FloatArray) -> list[BoolArray]:
    """Return the masks of rows that leave out a column, unless a category determines the mask.

    Masks with the fewest rows come first, ties by durations, so that neither names nor the order of
    columns matter.
    """
    categories = [_codes(levels) for levels in features.categorical.values()]
    masks = [np.isnan(values) for values in features.numeric.values()]
    masks += [codes == 0 for codes in categories]
    distinct = {
        mask.tobytes(): mask
        for mask in masks
        if mask.any()
        and not mask.all()
        and not any(_determines(codes, mask) for codes in categories)
    }
    return sorted(distinct.values(), key=lambda mask: (mask.sum(), sorted(durations[mask])))


def _codes(levels: Sequence[str | None]) -> IntArray:
    """Return the number of each row's level, 0 where it is missing."""
    index = {level: code for code, level in enumerate(dict.fromkeys((None, *levels)))}
    return np.array([index[level] for level in levels], dtype=np.int64)


def _determines(codes: IntArray, mask: BoolArray) -> bool:
    """Whether the level of a category determines which rows leave a column out."""
    n = int(codes.max()) + 1
    without, given = np.bincount(codes[mask], minlength=n), np.bincount(codes[~mask], minlength=n)
    return not without[0] and not ((without > 0) & (given > 0)).any()


def _is_unique(features: FeatureTable, incomplete: BoolArray) -> BoolArray:
    """Return which runs have a level, or lie beyond a range, that no complete run shows."""
    is_unique = np.zeros(len(incomplete), dtype=np.bool_)
    for values in features.numeric.values():
        known = values[~incomplete & ~np.isnan(values)]
        if known.size:
            is_unique |= (values < known.min()) | (values > known.max())
    for levels in features.categorical.values():
        shown = {level for level, out in zip(levels, incomplete, strict=True) if not out}
        is_unique |= np.array([level is not None and level not in shown for level in levels])
    return is_unique & incomplete


@dataclass(frozen=True, slots=True)
class _CompleteCases:
    """Judges whether configurations are forecast better without others.

    `squares` and `dof` are the sum of squares and degrees of freedom of the repetitions of each
    configuration.
    """

    features: FeatureTable
    log_duration: FloatArray
    squares: FloatArray
    dof: FloatArray
    hardware: Mapping[str, HardwareDescription]
    seed: int

    @classmethod
    def of(
        cls,
        runs: RunTable,
        configurations: Configurations,
        hardware: Mapping[str, HardwareDescription],
        seed: int,
    ) -> "_CompleteCases":
        """Return the cases of the configurations of runs."""
        group, y = configurations.group, configurations.log_duration
        squared = (np.log(runs.duration_seconds) - y[group]) ** 2
        squares = np.bincount(group, weights=squared).astype(np.float64)
        return cls(configurations.features, y, squares, configurations.counts - 1, hardware, seed)

    def gain(self, incomplete: BoolArray, wider: BoolArray) -> float:
        """Return the relative reduction of the others' error when `wider` is left out as well."""
        complete = np.flatnonzero(~wider)
        if len(complete) < FEW_CONFIGURATIONS:
            return 0.0
        wider_error = self._error(np.flatnonzero(~incomplete), complete)
        return 1 - self._error(complete, complete) / wider_error

    def _error(self, rows: IntArray, scored: IntArray) -> float:
        """Return the mean |log error| on held-out folds of `scored`, a subset of the known rows.

        The folds use the templates of the law of all rows. No error counts as less than the noise
        of repetitions.
        """
        features = self.features.take(rows)
        encoder = Encoder.learn(features, self.hardware)
        X, y = encoder.encode(features).X, self.log_duration[rows]
        law = ScalingLaw(encoder.layout, seed=self.seed).fit(X, y)
        positions = np.searchsorted(rows, scored)
        errors = []
        for fold in range(N_FOLDS if len(scored) <= MAX_LAW_CONFIGURATIONS else _FOLDS_OF_MANY):
            test = positions[fold::N_FOLDS]
            train = np.setdiff1d(np.arange(len(y)), test)
            refitted = law.refit_clone().fit(X[train], y[train])
            errors.append(np.abs(y[test] - refitted.predict(X[test])))
        noise = float(np.sqrt(self.squares[rows].sum() / max(self.dof[rows].sum(), 1.0)))
        return float(np.maximum(np.concatenate(errors), max(noise, _MIN_ERROR)).mean())
