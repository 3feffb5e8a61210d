"""Draws from a posterior with a standard normal prior, around its mode."""

from collections.abc import Callable

import numpy as np

from models.tables import FloatArray

LogDensity = Callable[[FloatArray], float]

_STEP = 1e-3
_LEAST_CURVATURE = 0.5
_INFLATION = 1.5
_BURN_IN, _THINNING, _MAX_SHRINKS = 150, 8, 60


def sample_around(log_density: LogDensity, size: int, n_draws: int, seed: int) -> FloatArray:
    """Return draws of a posterior, shape (n_draws, size), the same for the same seed.

    Generalised elliptical slice sampling: the reference is a normal distribution at the mode with
    the curvature there, widened by half, so that no step size is to be tuned.

    Parameters
    ----------
    log_density
        Log of the posterior but for a constant, in coordinates whose prior is standard normal.
    size
        Number of coordinates.
    n_draws, seed
        How many draws, and the seed.

    References
    ----------
    Murray, Adams and MacKay (2010), Elliptical slice sampling, AISTATS. Nishihara, Murray and
    Adams (2014), Parallel MCMC with generalized elliptical slice sampling, JMLR 15.

    Examples
    --------
    >>> draws = sample_around(lambda z: -0.5 * float((z - 1) @ (z - 1)) / 0.04, 2, 400, seed=0)
    >>> draws.mean(axis=0).round(1).tolist(), draws.std(axis=0).round(1).tolist()
    ([1.0, 1.0], [0.2, 0.2])
    """
    from scipy import optimize  # noqa: PLC0415 - heavy, and only fits need it

    def loss(at: FloatArray) -> float:
        return -log_density(at)

    mode = np.asarray(optimize.minimize(loss, np.zeros(size), method="L-BFGS-B").x, np.float64)
    root = _reference_root(log_density, mode)
    rng, inverse = np.random.default_rng(seed), np.linalg.inv(root)

    def excess(offset: FloatArray) -> float:
        whitened = inverse @ offset
        return log_density(mode + offset) + 0.5 * float(whitened @ whitened)

    offset, draws = np.zeros(size), np.empty((n_draws, size))
    level = excess(offset)
    for step in range(_BURN_IN + _THINNING * n_draws):
        offset, level = _elliptical_step(excess, offset, level, root, rng)
        if step >= _BURN_IN:
            draws[(step - _BURN_IN) // _THINNING] = mode + offset
    return draws


def _elliptical_step(
    excess: LogDensity,
    offset: FloatArray,
    level: float,
    root: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    partner = root @ rng.standard_normal(len(offset))
    threshold = level + np.log(rng.random())
    angle = rng.uniform(0, 2 * np.pi)
    low, high = angle - 2 * np.pi, angle
    for _ in range(_MAX_SHRINKS):
        proposal = offset * np.cos(angle) + partner * np.sin(angle)
        found = excess(proposal)
        if found > threshold:
            return proposal, found
        low, high = (angle, high) if angle < 0 else (low, angle)
        angle = rng.uniform(low, high)
    return offset, level


def _reference_root(log_density: LogDensity, mode: FloatArray) -> FloatArray:
    """Return a square root of the covariance at the mode, never wider than the prior allows."""
    size, at = len(mode), log_density(mode)
    steps = _STEP * np.eye(size)
    plus = np.array([log_density(mode + step) for step in steps])
    minus = np.array([log_density(mode - step) for step in steps])
    hessian = np.diag((plus - 2 * at + minus) / _STEP**2)
    for row in range(size):
        for column in range(row):
            both = log_density(mode + steps[row] + steps[column])
            mixed = (both - plus[row] - plus[column] + at) / _STEP**2
            hessian[row, column] = hessian[column, row] = mixed
    values, vectors = np.linalg.eigh(-hessian)
    scales = np.sqrt(_INFLATION / np.maximum(values, _LEAST_CURVATURE))
    return np.asarray(vectors * scales, dtype=np.float64)
