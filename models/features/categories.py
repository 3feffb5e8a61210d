"""Categorical columns: their measured levels, and which columns distinguish the runs."""

from dataclasses import dataclass

import numpy as np

from models.features.ordering import categorical_parameters
from models.tables import FeatureTable, IntArray


@dataclass(frozen=True, slots=True)
class CategoryFeature:
    """One categorical column: its measured levels (None = missing) and their run counts.

    `used` is False if the column has one level, or splits the runs as an earlier column does; its
    levels stay known, so that an unseen level is recognised. `spread` is a factor on the prior
    spread of the levels' effects (`models.columns.level_spreads`).
    """

    column: str
    levels: tuple[str | None, ...]
    counts: tuple[int, ...]
    used: bool
    spread: float = 1.0


def learn_categories(features: FeatureTable) -> list[CategoryFeature]:
    """Learn the levels of every categorical column, GPU and instance type first.

    Levels are in the order of their first row (missing last), so that renaming them changes
    nothing. A GPU type that all runs leave out is kept as a column too: such runs say little about
    a GPU type that a question asks for.

    Examples
    --------
    >>> table = FeatureTable({}, {"gpu_type": ["T4", "V100", "T4"]}, 3)
    >>> [(c.levels, c.counts, c.used) for c in learn_categories(table)]
    [(('T4', 'V100'), (2, 1), True)]
    """
    absent: tuple[str | None, ...] = (None,) * features.n_rows
    learned: list[CategoryFeature] = []
    partitions: list[IntArray] = []
    for name in ("gpu_type", "instance_type", *categorical_parameters(features)):
        column = features.categorical.get(name, absent)
        levels = sorted(dict.fromkeys(column), key=lambda level: level is None)
        if levels == [None] and name != "gpu_type":
            continue
        index = {level: code for code, level in enumerate(levels)}
        codes = np.array([index[level] for level in column], dtype=np.int64)
        repeated = any(_same_partition(codes, earlier) for earlier in partitions)
        used = len(levels) > 1 and not repeated
        if used:
            partitions.append(codes)
        counts = np.bincount(codes, minlength=len(levels))
        learned.append(CategoryFeature(name, tuple(levels), tuple(counts.tolist()), used))
    return learned


def _same_partition(one: IntArray, other: IntArray) -> bool:
    """Return whether the levels of two columns, coded from 0 on, correspond one to one."""
    if one.max() != other.max():
        return False
    # As many levels on both sides: one that determines the other is determined by it.
    partners = np.empty(int(one.max()) + 1, dtype=np.int64)
    partners[one] = other
    return bool((partners[one] == other).all())
