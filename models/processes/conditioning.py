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


def conditioned(
    kernel: ServingKernel, held: Rows, told: Rows, scatter: float, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the matrix from residuals of the told configurations to weights of the held ones.

    With K the covariance of the process, m the held configurations, n the told ones and
    ``D = diag(K_nn - K_nm K_mm^-1 K_mn) + noise``: ``(K_mm + K_mn D^-1 K_nm)^-1 K_mn D^-1``.

    Parameters
    ----------
    kernel
        Correlations with the held configurations.
    held, told
        The m held and the n told configurations.
    scatter
        Variance of the process.
    noise
        Noise variance of the mean of each told configuration's repetitions, shape (n,).

    Returns
    -------
    tuple of FloatArray
        Two factors, shapes (m, m) and (m, n): their product is seldom needed.

    References
    ----------
    Snelson and Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs, NeurIPS 18.
    """
    # Processes of one fit share told configurations and, up to the variance, the kernel.
    shape = b"".join(np.asarray(part).tobytes() for part in kernel.parts)
    key = shape + told.x.tobytes() + told.codes.tobytes()
    inverse, whitened, left = _whitened(_Asked(key, kernel, held, told))
    weighted = whitened / (left + noise / scatter)
    precision = np.eye(len(inverse)) + weighted @ whitened.T
    response = np.asarray(np.linalg.solve(precision, inverse).T, dtype=np.float64)
    return response / scatter, weighted


@dataclass(frozen=True, slots=True)
class _Asked:
    """Configurations and a kernel, compared by their bytes."""

    key: bytes
    kernel: ServingKernel = field(compare=False)
    held: Rows = field(compare=False)
    told: Rows = field(compare=False)


@lru_cache(maxsize=1)
def _whitened(asked: _Asked) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what all processes of a kernel share.

    The inverse Cholesky factor of the held rows' correlations, its product with their correlations
    with the told rows, and the relative variance of the told rows given the held ones.
    """
    known = asked.kernel(asked.held.x, asked.held.codes)
    inverse = np.linalg.inv(np.linalg.cholesky(known + _JITTER * np.eye(len(known))))
    whitened: FloatArray = inverse @ asked.kernel(asked.told.x, asked.told.codes).T
    return inverse, whitened, np.maximum(1 - (whitened**2).sum(axis=0), 0.0)
