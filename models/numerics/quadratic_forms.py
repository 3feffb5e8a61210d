"""Quadratic forms, laid out so that a question reads no more of them than it needs."""

from collections.abc import Sequence

import numpy as np

from models.tables import FloatArray, IntArray

_BLOCK = 96
"""Approximate number of rows of a quadratic form in one block."""


class LevelForms:
    """Slopes and quadratic forms in the indicators of levels, and in their products with features.

    In a row, one indicator of each category is 1 and the others are 0, so that a row needs the
    entries at its own levels only. Many levels cost no more than few.

    Parameters
    ----------
    levels
        Number of levels of each category; empty where nothing is looked up.
    width
        Number of the features that the indicators are paired with.
    n_members
        Number of means.

    Examples
    --------
    Two categories of two levels, one feature: the mean is 3 at the first category's second level,
    the variance comes from the entries of levels 1 and 0.

    >>> forms = LevelForms((2, 2), 1, 1)
    >>> forms.add_slopes(np.array([0.0, 3.0, 0.0, 0.0]), 0)
    >>> forms.add_form(np.concatenate([np.ones((4, 1)), np.eye(4)], axis=1), slice(0, 1))
    >>> means, variance = forms.at(np.array([[1, 0]]), np.array([[0.5]]))
    >>> means.tolist(), variance.tolist()
    ([[3.0]], [4.0])
    """

    def __init__(self, levels: Sequence[int], width: int, n_members: int) -> None:
        self.size = sum(levels)
        self._firsts = np.cumsum([0, *levels])[:-1]
        self._width = width
        # In one array, since a row reads all entries of a level.
        self._level_entries = np.zeros((self.size, width + n_members))
        self._level_form = np.zeros((self.size, self.size))

    def add_slopes(self, slopes: FloatArray, member: int) -> None:
        """Add to a mean the contribution of each level, shape (size,)."""
        self._level_entries[:, self._width + member] += slopes

    def add_cross_block(self, cross_block: FloatArray, columns: slice) -> None:
        """Add to the form the block of some features and the levels, shape (n_columns, size)."""
        self._level_entries[:, columns] += 2 * cross_block.T

    def add_form(self, form: FloatArray, columns: slice) -> None:
        """Add the levels' rows of a form; its columns are some features, then the levels."""
        n_features = form.shape[1] - self.size
        self.add_cross_block(form[:, :n_features].T, columns)
        self._level_form += form[:, n_features:]

    def at(self, codes: IntArray, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the contributions to the means, shape (n, n_members), and to the variance, (n,).

        Parameters
        ----------
        codes
            The level of each category, shape (n, n_categories).
        features
            The features that the indicators are paired with, shape (n, width).
        """
        positions = codes + self._firsts
        first, *others = positions.T
        rows = self._level_entries.take(first, axis=0)
        for position in others:
            rows += self._level_entries.take(position, axis=0)
        variance = np.vecdot(features, rows[:, : self._width])
        pair_entries = self._level_form[positions[:, :, None], positions[:, None, :]]
        variance += np.add.reduce(pair_entries, (1, 2))
        return rows[:, self._width :], variance


def upper_blocks(form: FloatArray) -> list[tuple[int, FloatArray]]:
    """Return a quadratic form as blocks of rows, each starting at its diagonal.

    The part to the right of a diagonal block is doubled, so that the blocks give the whole form at
    little more than half of its memory, which, not arithmetic, dominates the cost of one question.
    The form is symmetric in its first columns; the columns beyond its rows are doubled already.

    Examples
    --------
    >>> [(start, block.shape) for start, block in upper_blocks(np.zeros((200, 230)))]
    [(0, (100, 230)), (100, (100, 130))]
    >>> [(start, block.shape) for start, block in upper_blocks(np.zeros((177, 230)))]
    [(0, (89, 230)), (89, (88, 141))]
    """
    n, blocks = len(form), []
    size = -(-n // max(1, round(n / _BLOCK))) if n else 1
    for start in range(0, n, size):
        end = min(start + size, n)
        block = form[start:end, start:].copy()
        block[:, size : n - start] += form[end:, start:end].T
        blocks.append((start, block))
    return blocks
