"""Linear algebra of positive definite matrices by Cholesky factors; for fits only."""

from typing import Any

import numpy as np

from models.tables import FloatArray


def _lapack() -> Any:
    from scipy.linalg import lapack  # noqa: PLC0415 - heavy, and only fits need it

    return lapack


def solve_positive(matrix: FloatArray, right_side: FloatArray) -> FloatArray:
    """Return ``A^-1 b``.

    Parameters
    ----------
    matrix
        A, symmetric and positive definite, shape (n, n); overwritten.
    right_side
        b, shape (n,) or (n, k).

    Raises
    ------
    numpy.linalg.LinAlgError
        If A is not positive definite.

    References
    ----------
    Golub and Van Loan (2013), Matrix computations, section 4.2.

    Examples
    --------
    >>> solve_positive(np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([8.0, 8.0])).round(9).tolist()
    [1.0, 2.0]
    """
    # The transpose of a symmetric matrix is the matrix in Fortran's column order: no copy is made.
    _, solution, info = _lapack().dposv(matrix.T, right_side, lower=1, overwrite_a=1)
    _check(info)
    return np.asarray(solution, dtype=np.float64)


def invert_positive(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return the inverse of a symmetric, positive definite matrix and its log determinant.

    Raises
    ------
    numpy.linalg.LinAlgError
        If it is not positive definite.

    Examples
    --------
    >>> inverse, log_determinant = invert_positive(np.array([[4.0, 2.0], [2.0, 3.0]]))
    >>> inverse.round(9).tolist(), round(log_determinant, 6)
    ([[0.375, -0.25], [-0.25, 0.5]], 2.079442)
    """
    factor, info = _lapack().dpotrf(matrix.T, lower=1)
    _check(info)
    triangle, info = _lapack().dpotri(factor, lower=1)
    _check(info)
    lower = np.tril(triangle)
    inverse = lower + np.tril(triangle, -1).T
    return inverse, 2 * float(np.log(factor.diagonal()).sum())


def invert_lower(factor: FloatArray) -> FloatArray:
    """Return the inverse of a lower triangular matrix, which is lower triangular too.

    Raises
    ------
    numpy.linalg.LinAlgError
        If there is a zero on its diagonal.

    Examples
    --------
    >>> invert_lower(np.array([[2.0, 0.0], [1.0, 1.0]])).tolist()
    [[0.5, 0.0], [-0.5, 1.0]]
    """
    # The transpose is upper triangular and in column order: no copy is made.
    upper, info = _lapack().dtrtri(factor.T, lower=0)
    _check(info)
    return np.ascontiguousarray(upper.T)


def _check(info: int) -> None:
    if info:
        raise np.linalg.LinAlgError("A matrix is not positive definite.")
