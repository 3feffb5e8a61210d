"""Features of the memory law: local batch, workers, parameters, precision, the GPU's memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, log, nan, sqrt
from typing import NamedTuple

import numpy as np

from models.accelerator_memory.precisions import (
    count_columns,
    effect_column,
    names_bits,
    prior_effect,
)
from models.accelerator_memory.telling import Telling
from models.once import once
from models.tables import CORE_COLUMNS, SMALLEST, FeatureTable, FloatArray, IntArray

MAX_PARAMETERS, MAX_LEVELS, MAX_ALL_LEVELS = 6, 8, 32
"""Limits of numeric parameters, of a category's levels and of those of all categories.

Larger categories are left out; of too many columns, those remain that tell most. The time of a fit
grows with the third power of their number."""

_LEAST = log(1e-6)
"""Log share of the median that stands for all smaller numbers, zero and less included."""

_CLUSTER_COLUMNS = (*CORE_COLUMNS, "nodes")
_MACHINE_COLUMNS = ("gpu_type", "instance_type")


@dataclass(frozen=True, slots=True)
class MemoryRows:
    """Rows as the memory law sees them.

    Parameters
    ----------
    log_batch
        Log of the local batch relative to its centre, shape (n,); NaN where needed but unknown.
    log_workers
        Log of the workers relative to their centre, shape (n,); one worker where unknown.
    parameters
        Transformed numeric parameters relative to their centres, shape (n, n_parameters).
    levels
        Indicators (0 or 1) of the levels of each row, in the columns of
        `models.accelerator_memory.precisions.ordered_effects`, shape (n, n_columns).
    unseen
        Summed prior log effect of the levels without runs and without a column, shape (n,).
    n_unseen
        Number of these levels, shape (n,).
    """

    log_batch: FloatArray
    log_workers: FloatArray
    parameters: FloatArray
    levels: FloatArray
    unseen: FloatArray
    n_unseen: FloatArray

    def design(self, *extra: FloatArray) -> FloatArray:
        """Return the design matrix, followed by `extra` columns, each of shape (n, any).

        Its columns are 1, batch, workers, parameters, levels, unseen and the root of `n_unseen`.
        """
        sizes = np.stack([np.ones(len(self.log_batch)), self.log_batch, self.log_workers], axis=1)
        unseen = np.stack([self.unseen, np.sqrt(self.n_unseen)], axis=1)
        return np.concatenate([sizes, self.parameters, self.levels, unseen, *extra], axis=1)


class Seen(NamedTuple):
    """The columns of a row on which memory depends: names with numbers, and names with levels."""

    numbers: tuple[tuple[str, float], ...]
    levels: tuple[tuple[str, str | None], ...]

    def table(self) -> FeatureTable:
        """Return the row as a table."""
        numeric = {name: np.array([value]) for name, value in self.numbers}
        return FeatureTable(numeric, {name: [level] for name, level in self.levels}, 1)


@dataclass(frozen=True)
class MemoryFeatures:
    """How rows are turned into the features of the memory law, as learned from runs.

    Parameters
    ----------
    batch_center
        Median log local batch of the runs, None if no run has one.
    workers_center
        Median log of the workers of the runs.
    parameters
        Name, centre and unit of each numeric parameter; unit 0 stands for the logarithm.
    categories
        Name and levels of each categorical parameter.
    """

    batch_center: float | None
    workers_center: float
    parameters: tuple[tuple[str, float, float], ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def learn(cls, features: FeatureTable, use: FloatArray) -> "MemoryFeatures":
        """Learn centres and levels; numeric parameters that never vary are left out.

        `use` ranks the rows by how much memory they took, NaN where nobody knows; shape (n,). It
        says which parameters are left out if there are too many (`Telling`).
        """
        batch, workers = _log_local_batch(features), _log_workers(features)
        center = None if np.isnan(batch).all() else float(np.nanmedian(batch))
        varied = {
            name: values
            for name, values in sorted(features.numeric.items())
            if name not in _CLUSTER_COLUMNS and len(np.unique(values[~np.isnan(values)])) > 1
        }
        levels_of = {
            name: tuple(sorted({level for level in column if level is not None}))
            for name, column in sorted(features.categorical.items())
            if name not in _MACHINE_COLUMNS
        }
        levels_of = {name: each for name, each in levels_of.items() if 1 <= len(each) <= MAX_LEVELS}
        chosen = {*varied, *levels_of}
        if len(varied) > MAX_PARAMETERS or sum(map(len, levels_of.values())) > MAX_ALL_LEVELS:
            telling = Telling(use, [batch, workers])
            numbers = telling.take_numbers(varied, MAX_PARAMETERS)
            chosen = {*numbers, *_telling_categories(telling, features, levels_of)}
        return cls(
            center,
            float(np.median(workers)),
            tuple((name, *_center(values)) for name, values in varied.items() if name in chosen),
            tuple((name, levels) for name, levels in levels_of.items() if name in chosen),
        )

    @property
    def levels(self) -> list[str]:
        """All known levels of all categories; each is one parameter of the law."""
        return [level for _, levels in self.categories for level in levels]

    def seen_of(self, features: FeatureTable) -> "Seen | None":
        """Return what all rows of a table have in common, None if they differ or lack a number."""
        if not features.n_rows:
            return None
        numbers, levels = [], []
        for name in self._categorical_names:
            column = features.categorical.get(name)
            if column is not None:
                if column.count(column[0]) < len(column):
                    return None
                levels.append((name, column[0]))
        for name in self._numeric_names:
            values = features.numeric.get(name)
            if values is not None:
                first = values.item(0)
                if isnan(first) or np.logical_or.reduce(values != first):
                    return None
                numbers.append((name, first))
        return Seen(tuple(numbers), tuple(levels))

    @once
    def _numeric_names(self) -> tuple[str, ...]:
        """The numeric columns on which memory depends."""
        return "batch_size", "workers", *(name for name, _, _ in self.parameters)

    @once
    def _categorical_names(self) -> tuple[str, ...]:
        """The categorical columns on which memory depends."""
        return "gpu_type", *(name for name, _ in self.categories)

    def design(self, features: FeatureTable, extra: FloatArray) -> FloatArray:
        """Return `MemoryRows.design` of a table's rows, with `extra` columns."""
        if features.n_rows != 1:
            return self.rows(features).design(extra)
        # A single row is computed with plain numbers: arrays of length 1 cost ten times as much.
        numeric, categorical = features.numeric, features.categorical
        batch = 0.0
        if self.batch_center is not None:
            batch = _one_log_batch(numeric) - self.batch_center
        row = [1.0, batch, _one_log_workers(numeric) - self.workers_center]
        for name, center, unit in self.parameters:
            value = _one_centred(numeric[name].item(), center, unit) if name in numeric else 0.0
            row.append(0.0 if isnan(value) else value)
        unseen, n_unseen = 0.0, 0
        for name, known in self.categories:
            level = categorical[name][0] if name in categorical else None
            columns, column = [0.0] * count_columns(known), effect_column(level, known)
            if column is not None:
                columns[column] = 1.0
            elif level is not None:
                unseen, n_unseen = unseen + prior_effect(level), n_unseen + 1
            row += columns
        matrix: FloatArray = np.array([[*row, unseen, sqrt(n_unseen), *extra[0].tolist()]])
        return matrix

    def rows(self, features: FeatureTable) -> MemoryRows:
        """Return the rows of a table; unknown numeric parameters are set to their centres."""
        n = features.n_rows
        parameters: FloatArray = np.zeros((n, len(self.parameters)))
        for index, (name, center, unit) in enumerate(self.parameters):
            values = features.numeric.get(name)
            if values is not None:
                column = _centred(values, center, unit)
                parameters[:, index] = np.where(np.isnan(column), 0.0, column)
        n_columns = sum(count_columns(known) for _, known in self.categories)
        levels: FloatArray = np.zeros((n, n_columns))
        unseen, n_unseen = np.zeros(n), np.zeros(n)
        first = 0
        for name, known in self.categories:
            for row, level in enumerate(features.categorical.get(name) or ()):
                offset = effect_column(level, known)
                if offset is not None:
                    levels[row, first + offset] = 1.0
                elif level is not None:
                    unseen[row] += prior_effect(level)
                    n_unseen[row] += 1
            first += count_columns(known)
        batch = np.zeros(n)
        if self.batch_center is not None:
            batch = _log_local_batch(features) - self.batch_center
        workers = _log_workers(features) - self.workers_center
        return MemoryRows(batch, workers, parameters, levels, unseen, n_unseen)


def capacity_names(features: FeatureTable) -> Sequence[str]:
    """Return the GPU type of each row, the empty string where none is named."""
    return [name or "" for name in features.categorical.get("gpu_type", [""] * features.n_rows)]


def capacity_codes(names: Sequence[str], known: Mapping[str, float]) -> tuple[list[str], IntArray]:
    """Return the types whose memory is unknown, and each row's index among them or -1.

    Examples
    --------
    >>> capacity_codes(["mine", "T4"], {"T4": 23.5})[1].tolist()
    [0, -1]
    """
    latent = sorted(set(names) - set(known))
    index = {name: code for code, name in enumerate(latent)}
    return latent, np.array([index.get(name, -1) for name in names], dtype=np.int64)


def _telling_categories(
    telling: Telling, features: FeatureTable, levels_of: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return categories with no more than `MAX_ALL_LEVELS` levels in all.

    Those whose levels name bits come first, even if they never varied: their effect is known.
    """
    chosen: list[str] = []
    for with_bits in (True, False):
        columns = {
            name: features.categorical[name]
            for name, levels in levels_of.items()
            if names_bits(levels) == with_bits
        }
        room = MAX_ALL_LEVELS - sum(len(levels_of[name]) for name in chosen)
        chosen += telling.take_categories(columns, room)
    return chosen


def _log_local_batch(features: FeatureTable) -> FloatArray:
    batch = features.numeric.get("batch_size")
    if batch is None:
        return np.full(features.n_rows, np.nan)
    log_batch = np.log(np.where(batch > 0, batch, np.nan))
    return np.asarray(log_batch - _log_workers(features), dtype=np.float64)


def _log_workers(features: FeatureTable) -> FloatArray:
    workers = features.numeric.get("workers", np.ones(features.n_rows))
    return np.asarray(np.log(np.where(workers > 0, workers, 1.0)), dtype=np.float64)


def _one_log_workers(numeric: Mapping[str, FloatArray]) -> float:
    """Return `_log_workers` of one row."""
    workers = numeric["workers"].item() if "workers" in numeric else 1.0
    return log(workers) if workers > 0 else 0.0


def _one_log_batch(numeric: Mapping[str, FloatArray]) -> float:
    """Return `_log_local_batch` of one row."""
    batch = numeric["batch_size"].item() if "batch_size" in numeric else nan
    return log(batch) - _one_log_workers(numeric) if batch > 0 else nan


def _center(values: FloatArray) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    unit = 0.0 if (known > 0).all() else max(float(np.abs(known).max()), SMALLEST)
    return float(np.median(_transform(known, unit))), unit


def _one_centred(value: float, center: float, unit: float) -> float:
    """Return `_centred` of one value."""
    if unit:
        return value / unit - center
    # In this order: the maximum of NaN and a number is NaN.
    return max(log(max(value, SMALLEST)) - center, _LEAST)


def _centred(values: FloatArray, center: float, unit: float) -> FloatArray:
    """Return transformed numbers relative to their centre; NaN stays NaN.

    A number without a logarithm counts as the least one: a larger number never takes less memory.
    """
    if unit:
        return values / unit - center
    return np.maximum(np.log(np.maximum(values, SMALLEST)) - center, _LEAST)


def _transform(values: FloatArray, unit: float) -> FloatArray:
    return values / unit if unit else np.log(values)
