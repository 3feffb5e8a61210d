"""Lower triangular matrices, stored without their zeros."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from models.tables import BoolArray, FloatArray

_BLOCK = 100


@dataclass(frozen=True, slots=True, eq=False)
class LowerTriangle:
    """A lower triangular matrix as its entries: half the memory, without a copy when read.

    Attributes
    ----------
    n
        Number of rows.
    numbers
        The rows up to the diagonal, concatenated, shape (n (n + 1) / 2,).
    """

    n: int
    numbers: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> Self:
        """Return the lower triangle of a square matrix; entries above the diagonal are dropped."""
        return cls(len(matrix), matrix[is_lower(len(matrix))])

    def full(self) -> FloatArray:
        """Return the matrix with its zeros, shape (n, n), a new array each time.

        Examples
        --------
        >>> LowerTriangle(2, np.array([1.0, 2.0, 3.0])).full()
        array([[1., 0.],
               [2., 3.]])
        """
        matrix: FloatArray = np.zeros((self.n, self.n))
        matrix[is_lower(self.n)] = self.numbers
        return matrix


@lru_cache(maxsize=8)
def is_lower(n: int) -> BoolArray:
    """Return which places of a square matrix lie on or below its diagonal, shape (n, n)."""
    return np.tri(n, dtype=np.bool_)


def gram_of_lower(matrix: FloatArray) -> FloatArray:
    """Return ``L^T L`` of a lower triangular matrix L, by blocks that skip most of its zeros.

    Examples
    --------
    >>> matrix = np.tril(np.random.default_rng(0).normal(size=(230, 230)))
    >>> bool(np.allclose(gram_of_lower(matrix), matrix.T @ matrix))
    True
    """
    n = len(matrix)
    gram: FloatArray = np.empty((n, n))
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        below = matrix[start:, start:end]
        gram[start:end, start:end] = below.T @ below
        right = below[end - start :].T @ matrix[end:, end:]
        gram[start:end, end:], gram[end:, start:end] = right, right.T
    return gram
