"""Which of many columns tell most of how much memory a run takes."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.tables import FloatArray, IntArray

_DECIMALS, _ROUNDING = 9, 1e-9
"""Scores are compared to as many decimals, so that the order of rows does not matter."""


class Telling:
    """A ranking of rows, and what columns that were taken leave unexplained of it.

    Columns are taken greedily: each time the one that explains most of the rest, of equal ones the
    first. So of columns that vary together one is taken.

    Parameters
    ----------
    use
        The ranking, shape (n,); NaN where nothing is known of a row.
    known
        Columns that explain part of the ranking anyway, shape (n,) each.

    References
    ----------
    Pati, Rezaiifar and Krishnaprasad (1993), Orthogonal matching pursuit, 27th Asilomar Conference
    on Signals, Systems and Computers. Iman and Conover (1979), The use of the rank transform in
    regression, Technometrics 21(4). Kelley (1935), An unbiased correlation ratio measure, PNAS 21.

    Examples
    --------
    >>> depth, width = np.array([1.0, 2.0, 3.0, 1.0]), np.array([7.0, 7.0, 2.0, 2.0])
    >>> columns = {"param.copy": depth + 1, "param.depth": depth, "param.width": width}
    >>> Telling(10 * depth + width, []).take_numbers(columns, 2)
    ['param.copy', 'param.width']
    >>> levels = {"param.site": ["a", "b", "b", "a"], "param.mode": ["x", "y", "z", "x"]}
    >>> Telling(depth, []).take_categories(levels, 4)
    ['param.mode']
    """

    def __init__(self, use: FloatArray, known: Sequence[FloatArray]) -> None:
        self._rows = np.flatnonzero(~np.isnan(use))
        self._rest = _ranks(use[self._rows])
        table = self._beside_rest(known)
        for position in range(1, len(table)):
            table = _without(table, table[position])
        self._rest = table[0]

    def take_numbers(self, columns: Mapping[str, FloatArray], count: int) -> list[str]:
        """Return the names of as many numeric columns as wanted, by the correlation of ranks.

        Parameters
        ----------
        columns
            The columns, each of shape (n,); NaN where a value is missing.
        count
            How many to take, at most as many as there are.
        """
        table = self._beside_rest(list(columns.values()))
        names, chosen = list(columns), list[int]()
        while len(chosen) < min(count, len(names)):
            scores = np.abs(_directions(table[1:]) @ table[0]).round(_DECIMALS)
            scores[chosen] = -1.0
            chosen.append(int(scores.argmax()))
            table = _without(table, table[1 + chosen[-1]])
        self._rest = table[0]
        return [names[index] for index in chosen]

    def take_categories(
        self, columns: Mapping[str, Sequence[str | None]], max_levels: int
    ) -> list[str]:
        """Return the names of categories with no more levels in all than wanted.

        They are compared by the share of the rest that lies between their levels, less what as many
        levels explain by chance.
        """
        codes = {name: _codes(column)[self._rows] for name, column in columns.items()}
        sizes = {name: len(set(column) - {None}) for name, column in columns.items()}
        chosen: list[str] = []
        while True:
            room = max_levels - sum(sizes[name] for name in chosen)
            names = [name for name in columns if name not in chosen and sizes[name] <= room]
            if not names:
                return chosen
            scores = [round(_share_between(self._rest, codes[name]), _DECIMALS) for name in names]
            chosen.append(names[int(np.argmax(scores))])
            self._rest = _within(self._rest, codes[chosen[-1]])

    def _beside_rest(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Return the rest of the ranking, then the ranks of columns, as rows of one table."""
        return np.array([self._rest, *(_ranks(values[self._rows]) for values in columns)])


def _without(table: FloatArray, row: FloatArray) -> FloatArray:
    """Return what a row leaves unexplained of all rows of a table."""
    direction = _directions(row[None])[0]
    return table - np.outer(table @ direction, direction)


def _directions(rows: FloatArray) -> FloatArray:
    """Return rows of length 1, or of zeros where rounding alone is left of them."""
    lengths = np.sqrt(np.vecdot(rows, rows))[:, None]
    is_left = lengths > _ROUNDING
    return np.where(is_left, rows, 0.0) / np.where(is_left, lengths, 1.0)


def _ranks(values: FloatArray) -> FloatArray:
    """Return the dense ranks of a column less their mean, of length 1; missing values get 0."""
    is_known, ranks = ~np.isnan(values), np.zeros(len(values))
    if is_known.any():
        dense = np.unique(values[is_known], return_inverse=True)[1].ravel().astype(np.float64)
        ranks[is_known] = dense - dense.mean()
    scaled: FloatArray = _directions(ranks[None])[0]
    return scaled


def _codes(column: Sequence[str | None]) -> IntArray:
    """Return the number of each row's level; a missing one is a level too."""
    index = {level: code for code, level in enumerate(dict.fromkeys(column))}
    return np.array([index[level] for level in column], dtype=np.int64)


def _within(values: FloatArray, codes: IntArray) -> FloatArray:
    """Return the values less the means of their levels."""
    counts = np.maximum(np.bincount(codes), 1)
    means = np.bincount(codes, values) / counts
    return np.asarray(values - means[codes], dtype=np.float64)


def _share_between(values: FloatArray, codes: IntArray) -> float:
    """Return the share of the variance that lies between levels, corrected for their number."""
    total, within = float(values @ values), _within(values, codes)
    dof = len(values) - len(np.unique(codes))
    if total < _ROUNDING or not dof:
        return 0.0
    return 1.0 - float(within @ within) / dof / (total / (len(values) - 1))
