"""Quadratic forms, laid out so that a question takes no more of them than it needs."""

from collections.abc import Sequence

import numpy as np

from models.tables import FloatArray, IntArray

_BLOCK = 96
"""Rows of a quadratic form that stand together."""


class LevelForms:
    """Slopes and quadratic forms in the indicators of levels, and in their products with features.

    Of the indicators of a category one is 1 in a row, the others are 0: of each product with them
    a row needs what stands at its levels. Many levels cost no more than few.

    Parameters
    ----------
    levels
        Number of levels of each category; none where nothing is looked up.
    width
        Number of the features that the indicators are paired with.
    n_members
        Number of means.

    Examples
    --------
    Two categories of two levels, one feature; the mean is 3 at the first category's second level,
    the variance what the levels 1 and 0 have in common.

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
        # Beside one another, since a row takes all of a level.
        self._of_level = np.zeros((self.size, width + n_members))
        self._among = np.zeros((self.size, self.size))

    def add_slopes(self, slopes: FloatArray, member: int) -> None:
        """Add to a mean what each level adds, shape (size,)."""
        self._of_level[:, self._width + member] += slopes

    def add_between(self, between: FloatArray, columns: slice) -> None:
        """Add to the form the block of some features and the levels, shape (n_columns, size)."""
        self._of_level[:, columns] += 2 * between.T

    def add_form(self, form: FloatArray, columns: slice) -> None:
        """Add the rows of the levels: of a form in some features, then the levels."""
        n_features = form.shape[1] - self.size
        self.add_between(form[:, :n_features].T, columns)
        self._among += form[:, n_features:]

    def at(self, codes: IntArray, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what is added to the means, shape (n, n_members), and to the variance.

        Parameters
        ----------
        codes
            The level of each category, shape (n, n_categories).
        features
            What the indicators are paired with, shape (n, width).
        """
        places = codes + self._firsts
        first, *others = places.T
        rows = self._of_level.take(first, axis=0)
        for each in others:
            rows += self._of_level.take(each, axis=0)
        variance = np.vecdot(features, rows[:, : self._width])
        among = self._among[places[:, :, None], places[:, None, :]]
        variance += np.add.reduce(among, (1, 2))
        return rows[:, self._width :], variance


def upper_blocks(form: FloatArray) -> list[tuple[int, FloatArray]]:
    """Return a quadratic form as blocks of rows, each from its diagonal on.

    With the part right of a diagonal block doubled they add up to the whole, at little more than
    half of its memory: that, not the arithmetic, is what one question costs. The form is symmetric
    in its first columns; those beyond its rows are doubled already.

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
