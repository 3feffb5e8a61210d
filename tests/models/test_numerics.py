"""The numerical tools against what they stand for, computed the long way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.numerics.optimisation import minimise_in_box, minimise_on_simplex
from models.numerics.quadratic_forms import LevelForms, upper_blocks
from models.numerics.slice_sampling import slice_sample
from models.numerics.triangles import LowerTriangle
from models.tables import FloatArray


@pytest.mark.parametrize("seed", [0, 1])
def test_level_forms_are_the_dense_form_of_indicators(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels, width, n_rows = (3, 2, 4), 2, 7
    size = sum(levels)
    codes = np.column_stack([rng.integers(0, count, n_rows) for count in levels])
    features = rng.normal(size=(n_rows, width))
    indicators = np.concatenate(
        [np.eye(count)[codes[:, place]] for place, count in enumerate(levels)], axis=1
    )
    slopes, cross = rng.normal(size=(2, size)), rng.normal(size=(width, size))
    form = rng.normal(size=(size, size))
    forms = LevelForms(levels, width, 2)
    for member, of_member in enumerate(slopes):
        forms.add_slopes(of_member, member)
    forms.add_form(np.concatenate([cross[:1].T, form], axis=1), slice(0, 1))
    forms.add_cross_block(cross[1:], slice(1, 2))

    means, variance = forms.at(codes, features)

    both = np.einsum("ri,ij,rj->r", features, cross, indicators)
    own = np.einsum("ri,ij,rj->r", indicators, form, indicators)
    assert np.allclose(means, indicators @ slopes.T)
    assert np.allclose(variance, 2 * both + own)


@given(n=st.integers(0, 300), n_further=st.integers(0, 3))
def test_upper_blocks_give_the_whole_form(n: int, n_further: int) -> None:
    rng = np.random.default_rng(n)
    square = rng.normal(size=(n, n))
    further = rng.normal(size=(n, n_further))
    row = rng.normal(size=n + n_further)

    blocks = upper_blocks(np.concatenate([square + square.T, further], axis=1))

    value = sum(float(row[at : at + len(block)] @ block @ row[at:]) for at, block in blocks)
    expected = row[:n] @ (square + square.T) @ row[:n] + row[:n] @ further @ row[n:]
    assert np.isclose(value, expected)
    assert all(len(block) <= 144 for _, block in blocks)


def test_triangle_keeps_what_is_on_and_below_the_diagonal() -> None:
    matrix = np.arange(9.0).reshape(3, 3)

    triangle = LowerTriangle.of(matrix)

    assert (triangle.n, triangle.numbers.tolist()) == (3, [0.0, 3.0, 4.0, 6.0, 7.0, 8.0])
    assert triangle.full().tolist() == np.tril(matrix).tolist()


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ((0.5, 1.1, 0.3), (0.2, 0.8, 0.0)),
        ((-1.0, 0.5, 0.4), (0.0, 0.55, 0.45)),
        ((3.0, 3.0, 1.0), (0.5, 0.5, 0.0)),
    ],
)
def test_weights_are_the_nearest_on_the_simplex(
    goal: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    def loss(weights: FloatArray) -> float:
        return float(((weights - goal) ** 2).sum())

    start = np.array([0.8, 0.1, 0.1])

    found = minimise_on_simplex(loss, lambda weights: 2 * (weights - goal), start)

    assert found.round(3).tolist() == list(expected)


def test_weights_stay_where_the_loss_is_undefined() -> None:
    start = np.array([0.9, 0.1])

    found = minimise_on_simplex(lambda _: np.nan, lambda _: np.full(2, np.nan), start)

    assert found.tolist() == [0.9, 0.1]


def test_iterations_in_a_box_are_bounded() -> None:
    def valley(x: FloatArray) -> tuple[float, FloatArray]:
        across = x[1] - x[0] ** 2
        slope = np.array([-2 * (1 - x[0]) - 400 * x[0] * across, 200 * across])
        return float((1 - x[0]) ** 2 + 100 * across**2), slope

    start, bounds = np.array([-1.2, 1.0]), [(-2.0, 2.0)] * 2

    assert minimise_in_box(valley, start, bounds, 200).round(3).tolist() == [1.0, 1.0]
    assert valley(minimise_in_box(valley, start, bounds, 2))[0] > 1.0


def test_draws_come_to_follow_a_skewed_density() -> None:
    def log_density(points: FloatArray) -> FloatArray:
        # Gumbel's distribution in the first coordinate, a normal one in the second.
        first, second = points.T
        return np.asarray(-first - np.exp(-first) - 2 * (second - 1) ** 2)

    rng = np.random.default_rng(0)
    draws = rng.normal(2.0, 2.0, (4000, 2))

    once = slice_sample(log_density, draws, rng, n_sweeps=1)
    moved = slice_sample(log_density, once, rng, n_sweeps=20)

    assert (once != draws).all()
    assert np.allclose(moved.mean(axis=0), [np.euler_gamma, 1.0], atol=0.06)
    assert np.allclose(moved.std(axis=0), [np.pi / 6**0.5, 0.5], atol=0.06)
    below = (moved[:, :1] < [-0.8, 0.0, 2.0]).mean(axis=0)
    assert np.allclose(below, np.exp(-np.exp([0.8, 0.0, -2.0])), atol=0.02)
    assert abs(float(np.mean((moved[:, 0] - moved[:, 0].mean()) * (moved[:, 1] - 1)))) < 0.03


def test_draws_that_are_all_equal_move() -> None:
    def log_density(points: FloatArray) -> FloatArray:
        return np.asarray(-(points**2).sum(axis=1))

    moved = slice_sample(log_density, np.zeros((40, 2)), np.random.default_rng(0), n_sweeps=1)

    assert np.unique(moved, axis=0).shape == (40, 2)


def test_draws_that_cannot_move_stay() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(40, 1))
    is_start = set(draws.ravel().tolist())

    def log_density(points: FloatArray) -> FloatArray:
        known = [value in is_start for value in points.ravel().tolist()]
        return np.where(known, 0.0, -np.inf)

    moved = slice_sample(log_density, draws, rng, n_sweeps=1)

    assert np.allclose(moved, draws)
