"""Moves of many draws at once by elliptical slice sampling, with no step size to tune."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.tables import FloatArray

LogDensity = Callable[[FloatArray], FloatArray]
"""Log density of points up to a constant: shape (n, size) to shape (n,)."""

_DEGREES_OF_FREEDOM, _RIDGE = 8, 1e-6
"""Of Student's t, and a ridge added to the variances in case all draws are equal."""

_MAX_SHRINKS = 60
"""Arcs are practically empty after this many: a draw without an accepted proposal stays."""


def slice_sample(
    log_density: LogDensity, draws: FloatArray, rng: np.random.Generator, *, n_sweeps: int
) -> FloatArray:
    """Return draws after moves that leave the density invariant.

    Generalised elliptical slice sampling of two halves in turn: each half moves on ellipses from
    Student's t distribution with the mean and covariance of the other half.

    Parameters
    ----------
    log_density
        Log of the density to sample, up to a constant.
    draws
        Draws approximately from that density, at least four times as many as coordinates, shape
        (n, size).
    rng
        Source of randomness.
    n_sweeps
        Number of moves of each draw.

    References
    ----------
    Murray, Adams and MacKay (2010), Elliptical slice sampling, AISTATS. Nishihara, Murray and
    Adams (2014), Parallel MCMC with generalized elliptical slice sampling, JMLR 15, algorithm 3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def log_density(z):
    ...     return -2 * ((z - 1) ** 2).sum(axis=1)
    >>> moved = slice_sample(log_density, rng.normal(1, 1, (400, 2)), rng, n_sweeps=9)
    >>> moved.mean(axis=0).round(1).tolist(), moved.std(axis=0).round(1).tolist()
    ([1.0, 1.0], [0.5, 0.5])
    """
    draws = draws.copy()
    for _ in range(n_sweeps):
        halves = np.split(rng.permutation(len(draws)), [len(draws) // 2])
        for moving, others in (halves, halves[::-1]):
            reference = _Reference.of(draws[others])
            draws[moving] = _step(log_density, draws[moving], reference, rng)
    return draws


@dataclass(frozen=True, slots=True)
class _Reference:
    """Student's t distribution: its centre, a root of its scale and the inverse of that root."""

    centre: FloatArray
    root: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, draws: FloatArray) -> "_Reference":
        covariance = np.atleast_2d(np.cov(draws.T)) + _RIDGE * np.eye(draws.shape[1])
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        inverse = np.asarray(np.linalg.inv(root), dtype=np.float64)
        return cls(draws.mean(axis=0), root, inverse)

    def squared_distances(self, offsets: FloatArray) -> FloatArray:
        """Return squared Mahalanobis distances, shape (n,)."""
        return np.asarray(((offsets @ self.inverse.T) ** 2).sum(axis=1), dtype=np.float64)

    def log_density(self, offsets: FloatArray) -> FloatArray:
        weight = (_DEGREES_OF_FREEDOM + len(self.centre)) / 2
        return -weight * np.log1p(self.squared_distances(offsets) / _DEGREES_OF_FREEDOM)

    def auxiliary_draws(self, offsets: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return draws from the normal distributions of which the t distribution is a mixture."""
        shape = (_DEGREES_OF_FREEDOM + len(self.centre)) / 2
        rates = (_DEGREES_OF_FREEDOM + self.squared_distances(offsets)) / 2
        scales = np.sqrt(rates / rng.gamma(shape, size=len(offsets)))
        drawn = rng.standard_normal(offsets.shape) @ self.root.T
        return np.asarray(scales[:, None] * drawn, dtype=np.float64)


def _step(
    log_density: LogDensity, draws: FloatArray, reference: _Reference, rng: np.random.Generator
) -> FloatArray:
    """Move each draw once on its ellipse, on ever shorter arcs until a proposal is accepted."""

    def log_ratio(offsets: FloatArray) -> FloatArray:
        return log_density(reference.centre + offsets) - reference.log_density(offsets)

    offsets = draws - reference.centre
    auxiliary = reference.auxiliary_draws(offsets, rng)
    moved, pending = offsets.copy(), np.arange(len(draws))
    thresholds = log_ratio(offsets) + np.log(rng.random(len(draws)))
    angles = rng.uniform(0, 2 * np.pi, len(draws))
    low, high = angles - 2 * np.pi, angles.copy()
    for _ in range(_MAX_SHRINKS):
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
        proposals = offsets[pending] * cosine + auxiliary[pending] * sine
        refused = ~(log_ratio(proposals) > thresholds[pending])
        moved[pending[~refused]] = proposals[~refused]
        if not refused.any():
            break
        pending, angles, low, high = pending[refused], angles[refused], low[refused], high[refused]
        low, high = np.where(angles < 0, angles, low), np.where(angles < 0, high, angles)
        angles = rng.uniform(low, high)
    return reference.centre + moved
