"""Linear algebra of fits: what Cholesky factors give is what any other method gives."""

import numpy as np
import pytest

from models.numerics.positive_definite import invert_lower, invert_positive, solve_positive
from models.tables import FloatArray


def _positive(n: int, seed: int = 0) -> FloatArray:
    root = np.random.default_rng(seed).normal(size=(n, n + 2))
    return np.asarray(root @ root.T, dtype=np.float64)


@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("columns", [None, 1, 4])
def test_solution_solves(n: int, columns: int | None) -> None:
    matrix = _positive(n)
    right = np.random.default_rng(1).normal(size=n if columns is None else (n, columns))
    original = right.copy()

    solution = solve_positive(matrix.copy(), right)

    np.testing.assert_allclose(matrix @ solution, right, atol=1e-8)
    np.testing.assert_array_equal(right, original)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_inverse_and_determinant_are_those_of_the_matrix(n: int) -> None:
    matrix = _positive(n)
    original = matrix.copy()

    inverse, log_determinant = invert_positive(matrix)

    np.testing.assert_allclose(inverse @ matrix, np.eye(n), atol=1e-7)
    np.testing.assert_array_equal(inverse, inverse.T)
    assert log_determinant == pytest.approx(np.linalg.slogdet(original)[1])
    np.testing.assert_array_equal(matrix, original)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_inverse_of_a_factor_is_one_too(n: int) -> None:
    factor = np.tril(_positive(n))
    original = factor.copy()

    inverse = invert_lower(factor)

    np.testing.assert_allclose(inverse @ original, np.eye(n), atol=1e-8)
    np.testing.assert_array_equal(inverse, np.tril(inverse))
    np.testing.assert_array_equal(factor, original)


def test_what_is_not_positive_definite_is_refused() -> None:
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])

    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        solve_positive(indefinite.copy(), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        invert_positive(indefinite)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        invert_lower(np.array([[1.0, 0.0], [1.0, 0.0]]))
