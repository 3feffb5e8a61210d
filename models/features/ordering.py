"""An order of configurations by content, independent of names, units and order of upload."""

import hashlib

import numpy as np

from models.tables import (
    CORE_COLUMNS,
    HARDWARE_COLUMNS,
    SMALLEST,
    FeatureTable,
    FloatArray,
    IntArray,
)

NUMERIC = frozenset({*CORE_COLUMNS, *HARDWARE_COLUMNS})
CATEGORICAL = frozenset({"gpu_type", "instance_type"})
"""Columns with a known meaning; any other is a parameter, whatever its name."""

_ABOVE_TIES = 1 + 2.0**-50
"""Further than a ratio in other units differs by rounding, and far below the twelfth digit."""


def numeric_columns(features: FeatureTable) -> list[FloatArray]:
    """Return the numeric columns by name, with minus infinity where a value is missing."""
    return [_numbers(features, name) for name in sorted(features.numeric)]


def _numbers(features: FeatureTable, name: str) -> FloatArray:
    # No value is infinite, so minus infinity is unambiguous; adding 0.0 makes -0.0 equal 0.0.
    column = features.numeric[name]
    return np.asarray(np.where(np.isnan(column), -np.inf, column) + 0.0, dtype=np.float64)


def numeric_parameters(features: FeatureTable, grades: IntArray | None = None) -> list[str]:
    """Return the numeric columns that are parameters, in an order independent of names and units.

    Parameters
    ----------
    features
        Rows in an order independent of names.
    grades
        Ascending; rows of the same grade may be in any order. All differ by default.

    Examples
    --------
    >>> columns = {"param.a": np.array([8.0, 4.0]), "param.b": np.array([1.0, 2.0])}
    >>> numeric_parameters(FeatureTable(columns, {}, 2))
    ['param.b', 'param.a']
    """
    grades = np.arange(features.n_rows) if grades is None else grades

    def content(name: str) -> list[list[float]]:
        column = _numbers(features, name)
        ratios = _without_unit(column)
        by_grade = np.lexsort((column, grades))
        return [np.sort(ratios).tolist(), ratios[by_grade].tolist(), column[by_grade].tolist()]

    return sorted(set(features.numeric) - NUMERIC, key=lambda name: (content(name), name))


def categorical_parameters(features: FeatureTable, grades: IntArray | None = None) -> list[str]:
    """Return the categorical columns that are parameters, in an order independent of names.

    Parameters
    ----------
    features, grades
        As for `numeric_parameters`.

    Examples
    --------
    >>> columns = {"param.a": ["x", "y", "z"], "param.b": ["x", "x", "y"]}
    >>> categorical_parameters(FeatureTable({}, columns, 3))
    ['param.b', 'param.a']
    """
    grades = np.arange(features.n_rows) if grades is None else grades

    def content(name: str) -> tuple[int, list[list[int]]]:
        levels: dict[str | None, list[int]] = {}
        for level, grade in zip(features.categorical[name], grades.tolist(), strict=True):
            levels.setdefault(level, []).append(grade)
        return len(levels), sorted(levels.values())

    return sorted(set(features.categorical) - CATEGORICAL, key=lambda name: (content(name), name))


def structural_keys(features: FeatureTable, values: FloatArray) -> list[str]:
    """Return a hash of each row (64 hex digits) that neither names of levels nor units change.

    Numbers count relative to the least of their column. Levels are identified by their rows: rows
    are coloured by their numbers and `values`, levels by the colours of their rows, rows by the
    colours of their levels, until no new colour appears. Columns that never vary do not count.

    Parameters
    ----------
    features
        Distinct rows.
    values
        A measured value of each row, shape (n_rows,).

    References
    ----------
    Weisfeiler and Leman (1968), The reduction of a graph to canonical form, Nauchno-Technicheskaya
    Informatsiya 2(9), 12-16.

    Examples
    --------
    >>> workers, seconds = np.array([1.0, 2.0, 1.0]), np.array([9.0, 5.0, 7.0])
    >>> one = FeatureTable({"workers": workers}, {"gpu_type": ["T4", "T4", "V100"]}, 3)
    >>> two = FeatureTable({"workers": workers}, {"gpu_type": ["b", "b", "a"]}, 3)
    >>> structural_keys(one, seconds) == structural_keys(two, seconds)
    True
    """
    # Sorted by measured values, so that the order of columns and levels does not depend on names.
    rows = np.argsort(values, kind="stable")
    by_value = features.take(rows)
    is_new = np.diff(values[rows], prepend=values[rows[:1]]) > 0
    grades = np.cumsum(is_new.astype(np.int64))
    columns = [
        _without_unit(_numbers(features, name))
        for name in [
            *sorted(NUMERIC & features.numeric.keys()),
            *numeric_parameters(by_value, grades),
        ]
    ]
    numbers = [column for column in columns if len(np.unique(column)) > 1]
    categories = [
        _codes(list(features.categorical[name]))
        for name in [
            *sorted(CATEGORICAL & features.categorical.keys()),
            *categorical_parameters(by_value, grades),
        ]
        if len(set(features.categorical[name])) > 1
    ]
    ranks = _level_ranks(_ranked([*numbers, values]), categories)
    table = np.column_stack([np.zeros(features.n_rows), *numbers, *ranks])
    return [hashlib.sha256(row.tobytes()).hexdigest() for row in table]


def _without_unit(column: FloatArray) -> FloatArray:
    """Return the ratio of each number to the least magnitude above zero, to twelve digits."""
    magnitudes = np.abs(column[np.isfinite(column) & (column != 0)])
    unit = max(magnitudes.min(), SMALLEST) if len(magnitudes) else 1.0
    fractions, exponents = np.frexp(column / unit)
    # Just above ties of the rounding, where ratios of whole numbers lie: 5.451 / .032, say.
    return np.ldexp((fractions * _ABOVE_TIES).round(12), exponents)


def _codes(column: list[str | None]) -> IntArray:
    """Return the position of each row's level by name, missing first."""
    names = sorted(set(column), key=lambda level: (level is not None, level or ""))
    index = {level: code for code, level in enumerate(names)}
    return np.array([index[level] for level in column], dtype=np.int64)


def _ranked(columns: list[FloatArray] | list[IntArray]) -> IntArray:
    """Return the rank of each row among the distinct rows."""
    return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()


def _level_ranks(colours: IntArray, categories: list[IntArray]) -> list[IntArray]:
    """Return the rank of each row's level in its category, by the rows of the level.

    Levels that nothing distinguishes are ordered by name: forecasts are the same if exchanged.
    """
    ranks = []
    for codes in categories:
        colours = _refined(colours, categories)
        ranks.append(_ranks_by_colours(codes, colours, is_final=True))
        colours = _ranked([colours, ranks[-1]])
    return ranks


def _refined(colours: IntArray, categories: list[IntArray]) -> IntArray:
    """Return the rows' colours, refined by those of their levels until no new colour appears."""
    while colours.max(initial=-1) + 1 < len(colours):  # else each row has a colour of its own
        levels = [_ranks_by_colours(codes, colours, is_final=False) for codes in categories]
        finer = _ranked([colours, *levels])
        if finer.max(initial=0) == colours.max(initial=0):
            return finer
        colours = finer
    return colours


def _ranks_by_colours(codes: IntArray, colours: IntArray, *, is_final: bool) -> IntArray:
    """Return the rank of each row's level by the colours of its rows, then by name if final."""
    order = np.lexsort((colours, codes))
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    signatures = [rows.tobytes() for rows in np.split(colours[order], ends)]
    keys = [(signature, code if is_final else 0) for code, signature in enumerate(signatures)]
    rank = {key: position for position, key in enumerate(sorted(set(keys)))}
    return np.array([rank[keys[code]] for code in codes.tolist()], dtype=np.int64)
