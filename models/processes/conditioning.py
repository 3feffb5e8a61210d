"""The weights that a process gives its held configurations, learned from many more."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from models.laws.scaling_laws import random_subset
from models.processes.kernels import ServingKernel
from models.tables import FloatArray, IntArray

MAX_CONDITIONED = 4000
"""Most configurations from which the mean of a process that holds fewer is learned."""

_JITTER = 1e-6
"""Added to the diagonal of correlations, since configurations may be almost equal."""


def conditioning_rows(n_rows: int) -> IntArray | slice:
    """Return the configurations from which the mean of a process that holds fewer is learned."""
    return random_subset(n_rows, MAX_CONDITIONED, 0)


@dataclass(frozen=True, slots=True)
class Rows:
    """Configurations as a kernel sees them: scaled numeric features and category codes."""

    x: FloatArray
    codes: IntArray


def conditioning_factors(
    kernel: ServingKernel, held: Rows, observed: Rows, scatter: float, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the matrix from residuals of the observed configurations to weights of the held ones.

    With K the covariance of the process, m the held configurations, n the observed ones and
    ``D = diag(K_nn - K_nm K_mm^-1 K_mn) + noise``: ``(K_mm + K_mn D^-1 K_nm)^-1 K_mn D^-1``.

    Parameters
    ----------
    kernel
        Correlations with the held configurations.
    held, observed
        The m held and the n observed configurations.
    scatter
        Variance of the process.
    noise
        Noise variance of the mean of each observed configuration's repetitions, shape (n,).

    Returns
    -------
    tuple of FloatArray
        Two factors, shapes (m, m) and (m, n): their product is seldom needed.

    References
    ----------
    Snelson and Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs, NeurIPS 18.
    """
    # Processes of one fit share observed configurations and, up to the variance, the kernel.
    shape = b"".join(np.asarray(part).tobytes() for part in kernel.parts)
    key = shape + observed.x.tobytes() + observed.codes.tobytes()
    inverse, whitened, conditional_variance = _whitened(_WhiteningKey(key, kernel, held, observed))
    weighted = whitened / (conditional_variance + noise / scatter)
    precision = np.eye(len(inverse)) + weighted @ whitened.T
    response = np.asarray(np.linalg.solve(precision, inverse).T, dtype=np.float64)
    return response / scatter, weighted


@dataclass(frozen=True, slots=True)
class _WhiteningKey:
    """Configurations and a kernel, compared by their bytes."""

    key: bytes
    kernel: ServingKernel = field(compare=False)
    held: Rows = field(compare=False)
    observed: Rows = field(compare=False)


@lru_cache(maxsize=1)
def _whitened(key: _WhiteningKey) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what all processes of a kernel share.

    The inverse Cholesky factor of the held rows' correlations, its product with their correlations
    with the observed rows, and the relative variance of the observed rows given the held ones.
    """
    correlations = key.kernel(key.held.x, key.held.codes)
    inverse = np.linalg.inv(np.linalg.cholesky(correlations + _JITTER * np.eye(len(correlations))))
    whitened: FloatArray = inverse @ key.kernel(key.observed.x, key.observed.codes).T
    return inverse, whitened, np.maximum(1 - (whitened**2).sum(axis=0), 0.0)
