"""Columns that a question leaves open although another one tells them, as it did in all runs."""

from collections.abc import Sequence
from math import isnan
from typing import Final

import numpy as np

from models.features.encoder import MAX_UNIDENTIFIED_VARIANCE, Encoder
from models.features.numeric import (
    Companion,
    NumericFeature,
    apply_transform,
    quotient_of,
    snapped,
)
from models.questions.companions import Pair
from models.tables import LARGEST, BoolArray, FeatureTable, FloatArray

_DIGITS: Final = 12
"""Significant digits of implied values: conversions there and back leave no trace."""


class ImpliedColumns:
    """Values that a question leaves open and that a column which repeats them implies.

    Of two columns that went together in all runs, one is a feature and the other its companion. A
    question that names only the companion asks the same as one that names both.

    Parameters
    ----------
    encoder
        The encoder of the fit.
    pairs
        The categories that were left out (`models.questions.companions.paired_categories`).

    Examples
    --------
    >>> samples = np.array([1e3, 1e4, 1e5, 1e6])
    >>> columns = {"dataset_size": samples, "param.bytes": 3072 * samples}
    >>> implied = ImpliedColumns(Encoder.learn(FeatureTable(columns, {}, 4)), ())
    >>> question = FeatureTable({"param.bytes": np.array([6144.0])}, {}, 1)
    >>> implied.filled(question).numeric["dataset_size"].tolist()
    [2.0]
    """

    def __init__(self, encoder: Encoder, pairs: Sequence[Pair]) -> None:
        features = {feature.column: feature for feature in encoder.numeric}
        self._numeric = [(item, features[item.of]) for item in encoder.companions]
        self._categories: list[tuple[str, str, dict[str | None, str | None]]] = []
        for left_out, kept, codes in pairs:
            source, target = encoder.categories[left_out], encoder.categories[kept]
            levels = [target.levels[code] for code in codes.tolist()]
            # Where some runs have no level, a question without one asks for just that.
            if None not in (*source.levels, *target.levels):
                level_of = dict(zip(source.levels, levels, strict=True))
                other_of = dict(zip(levels, source.levels, strict=True))
                self._categories.append((source.column, target.column, level_of))
                self._categories.append((target.column, source.column, other_of))

    def filled(self, features: FeatureTable) -> FeatureTable:
        """Return the questions with the implied values filled in."""
        for companion, kept in self._numeric:
            is_open = _open_rows(companion, kept, features)
            if is_open is not None:
                features = _with_implied(companion, kept, features, is_open)
        for source, target, level_of in self._categories:
            given = features.categorical.get(target, (None,) * features.n_rows)
            if source in features.categorical and None in given:
                pairs = zip(given, features.categorical[source], strict=True)
                levels = [level_of.get(name) if own is None else own for own, name in pairs]
                categorical = {**features.categorical, target: levels}
                features = FeatureTable(features.numeric, categorical, features.n_rows)
        return features

    def variance(self, questions: FeatureTable) -> FloatArray | float:
        """Return what the implied values add to the variance of the log duration, shape (n,).

        In the runs, the two columns were apart by up to the companion's tolerance.
        """
        variance: FloatArray | float = 0.0
        for companion, kept in self._numeric:
            if companion.tolerance > 0:
                is_open = _open_rows(companion, kept, questions)
                if is_open is not None:
                    own = min(companion.tolerance**2, MAX_UNIDENTIFIED_VARIANCE)
                    variance = variance + np.where(is_open, own, 0.0)
        return variance


def _open_rows(
    companion: Companion, kept: NumericFeature, features: FeatureTable
) -> BoolArray | None:
    """Return which questions name the companion alone, None if none does."""
    told, own = features.numeric.get(companion.feature.column), features.numeric.get(kept.column)
    if told is None:
        return None
    # Scalars for a single row: an array of one element costs ten times as much.
    if features.n_rows == 1 and own is not None and not isnan(own.item()):
        return None
    is_open = ~np.isnan(told) if own is None else np.isnan(own) & ~np.isnan(told)
    return is_open if is_open.any() else None


def _with_implied(
    companion: Companion, kept: NumericFeature, features: FeatureTable, is_open: BoolArray
) -> FeatureTable:
    """Return the questions with the kept column filled in where it is open."""
    told, workers = features.numeric[companion.feature.column], features.numeric.get("workers")
    workers = None if workers is None else snapped(workers)
    values = quotient_of(snapped(told), workers, companion.feature.quotient)
    values = apply_transform(companion.feature, values)
    values = _restored(kept, (values - companion.intercept) / companion.slope, workers)
    rounded = [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
    own = features.numeric.get(kept.column, np.nan)
    numeric = {**features.numeric, kept.column: np.where(is_open, rounded, own)}
    return FeatureTable(numeric, features.categorical, features.n_rows)


def _restored(
    feature: NumericFeature, values: FloatArray, workers: FloatArray | None
) -> FloatArray:
    """Return the column behind transformed, centred values; NaN where it is beyond all bounds.

    Examples
    --------
    >>> column = np.array([0.0, 1.0, 1000.0])
    >>> table = FeatureTable({"param.steps": column}, {}, 3)
    >>> (feature,) = Encoder.learn(table).numeric
    >>> _restored(feature, apply_transform(feature, column), None).round(9).tolist()
    [0.0, 1.0, 1000.0]
    """
    values = values + feature.center
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if feature.transform == "scaled":
            size = np.abs(values)
            size = np.where(size > 1, np.exp(size - 1), size)
            column = np.copysign(size, values) * feature.unit + feature.origin
        else:
            logarithmic = np.exp if feature.transform == "log" else np.expm1
            column = logarithmic(values) * feature.unit
        if feature.quotient and workers is not None:
            per_worker = feature.quotient == "per_worker"
            column = column * workers if per_worker else workers / column
        return np.where(np.abs(column) <= LARGEST, column, np.nan)
