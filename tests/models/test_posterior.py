"""Draws of posteriors: right against exact integrals, whatever the shape, and spread evenly."""

from collections.abc import Callable

import numpy as np
import pytest

from models.accelerator_memory.posterior import N_PARTICLES, sample_posterior, stratified_choice
from models.numerics.slice_sampling import LogDensity, slice_sample
from models.tables import FloatArray

pytestmark = pytest.mark.lengthy

SEEDS = range(8)


def ridge(z: FloatArray) -> FloatArray:
    """A sum is known to a thousandth, and nothing of the difference."""
    misfit = (z.sum(axis=1) - 1) / 1e-3
    return np.asarray(-0.5 * misfit**2 - 0.5 * (z**2).sum(axis=1), dtype=np.float64)


def banana(z: FloatArray) -> FloatArray:
    misfit = (z[:, 1] - z[:, 0] ** 2 + 1) / 0.1
    return np.asarray(-0.5 * misfit**2 - 0.5 * (z**2).sum(axis=1), dtype=np.float64)


def half_plane(z: FloatArray) -> FloatArray:
    """An outcome that is hardly ever another: no slope leads to where it is likely."""
    likelihood = np.where(z[:, 0] + z[:, 1] > 1, 1.0, 0.005)
    return np.asarray(np.log(likelihood) - 0.5 * (z**2).sum(axis=1), dtype=np.float64)


def two_modes(z: FloatArray) -> FloatArray:
    """The narrow mode is the one that an optimiser from the centre does not find."""
    near = -8 * ((z - [0.8, 0]) ** 2).sum(axis=1)
    far = -50 * ((z - [-1.5, 1]) ** 2).sum(axis=1) + np.log(4)
    return np.asarray(np.logaddexp(near, far), dtype=np.float64)


def moments_of(log_density: LogDensity) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations by a sum over a fine grid."""
    axis = np.linspace(-5, 5, 4001)
    mass, first, second = 0.0, np.zeros(2), np.zeros(2)
    for value in axis:
        points = np.column_stack([np.full(len(axis), value), axis])
        weights = np.exp(log_density(points))
        mass += float(weights.sum())
        first += weights @ points
        second += weights @ points**2
    means = first / mass
    return means, np.sqrt(second / mass - means**2)


@pytest.mark.parametrize("log_density", [ridge, banana, half_plane, two_modes])
def test_draws_have_the_moments_of_the_density(log_density: LogDensity) -> None:
    means, sds = moments_of(log_density)

    draws = np.concatenate([sample_posterior(log_density, 2, seed) for seed in SEEDS])

    assert len(draws) == len(SEEDS) * N_PARTICLES
    assert np.abs((draws.mean(axis=0) - means) / sds).max() < 0.1
    np.testing.assert_allclose(draws.std(axis=0), sds, rtol=0.1)


@pytest.mark.parametrize("log_density", [ridge, banana, half_plane, two_modes])
def test_moves_of_few_steps_leave_exact_draws_as_they_are_and_spread_copies(
    log_density: LogDensity,
) -> None:
    means, sds = moments_of(log_density)
    exact = np.concatenate([sample_posterior(log_density, 2, seed) for seed in SEEDS])
    copies = np.repeat(exact[::4], 4, axis=0)

    moved = slice_sample(log_density, copies, np.random.default_rng(0), n_sweeps=3)

    assert len(np.unique(moved, axis=0)) == len(moved)
    assert np.abs((moved.mean(axis=0) - means) / sds).max() < 0.1
    np.testing.assert_allclose(moved.std(axis=0), sds, rtol=0.1)


def test_as_many_coordinates_as_a_wide_law_has_and_few_that_are_told_of() -> None:
    size, known = 60, 12

    def log_density(z: FloatArray) -> FloatArray:
        misfits = (z[:, :known] - np.linspace(-2, 2, known)) / 0.05
        return np.asarray(
            -0.5 * (misfits**2).sum(axis=1) - 0.5 * (z**2).sum(axis=1), dtype=np.float64
        )

    draws = sample_posterior(log_density, size, seed=0)

    expected = np.concatenate([np.full(known, 0.05), np.ones(size - known)])
    np.testing.assert_allclose(draws.std(axis=0), expected, rtol=0.2)
    shrunk = np.linspace(-2, 2, known) / (1 + 0.05**2)
    np.testing.assert_allclose(draws[:, :known].mean(axis=0), shrunk, atol=0.015)
    assert np.abs(draws[:, known:].mean(axis=0)).max() < 0.25


def test_equal_seeds_give_equal_draws_and_others_others() -> None:
    first, second = sample_posterior(banana, 2, seed=4), sample_posterior(banana, 2, seed=4)

    np.testing.assert_array_equal(first, second)
    assert not np.isin(sample_posterior(banana, 2, seed=5), first).any()


@pytest.mark.parametrize("of", [np.tanh, lambda z: z > 0.5])
def test_few_that_are_spread_out_tell_what_all_tell(of: Callable[[FloatArray], FloatArray]) -> None:
    rng = np.random.default_rng(0)
    particles = rng.normal(0, [3.0, 1.0], (N_PARTICLES, 2))
    mean = of(particles[:, 0]).mean()

    spread = [
        of(particles[stratified_choice(particles, 64, seed), 0]).mean() - mean for seed in range(50)
    ]
    random = [of(rng.choice(particles[:, 0], 64)).mean() - mean for _ in range(50)]

    assert np.std(spread) < 0.5 * np.std(random)
    assert abs(np.mean(spread)) < 0.01


def test_each_draw_is_chosen_once_and_each_has_its_chance() -> None:
    particles = np.random.default_rng(1).normal(size=(N_PARTICLES, 3))

    chosen = [stratified_choice(particles, 64, seed) for seed in range(200)]

    assert all(len(set(indices.tolist())) == 64 for indices in chosen)
    counts = np.bincount(np.concatenate(chosen), minlength=N_PARTICLES)
    # Each is one of eight in its cell: 25 of 200 on average, 4.7 apart.
    assert counts.min() > 5
    assert counts.max() < 50
