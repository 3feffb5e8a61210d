"""What a process that holds some configurations learns from many: the weights of those it holds."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from models.laws.scaling_laws import spread_subset
from models.processes.kernels import ServingKernel
from models.tables import FloatArray, IntArray

MAX_CONDITIONED = 4000
"""As many configurations tell the mean of a process that holds fewer."""

_JITTER = 1e-6
"""Added to the diagonal of correlations of configurations that may be next to each other."""


def conditioning_rows(n_rows: int) -> IntArray | slice:
    """Return which of a fit's configurations tell the mean of a process that holds fewer."""
    return spread_subset(n_rows, MAX_CONDITIONED, 0)


@dataclass(frozen=True, slots=True)
class Rows:
    """Configurations as a kernel sees them: scaled numeric features and category codes."""

    x: FloatArray
    codes: IntArray


def conditioned(
    kernel: ServingKernel, held: Rows, told: Rows, scatter: float, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return how the weights of the held configurations follow the residuals of those told.

    With K the covariance of the process, m the held ones, n those told and
    ``D = diag(K_nn - K_nm K_mm^-1 K_mn) + noise``: ``(K_mm + K_mn D^-1 K_nm)^-1 K_mn D^-1``.

    Parameters
    ----------
    kernel
        Correlations with the held configurations.
    held, told
        Configurations, m and n of them.
    scatter
        Variance of the process.
    noise
        Variance of the mean of each told configuration's repetitions, shape (n,).

    Returns
    -------
    tuple of FloatArray
        Two factors, shapes (m, m) and (m, n): their product is seldom needed.

    References
    ----------
    Snelson and Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs, NeurIPS 18.
    """
    # Processes of one fit share kernels but for their variance, and are told the same.
    shape = b"".join(np.asarray(part).tobytes() for part in kernel.parts)
    key = shape + told.x.tobytes() + told.codes.tobytes()
    inverse, whitened, left = _whitened(_Asked(key, kernel, held, told))
    weighted = whitened / (left + noise / scatter)
    precision = np.eye(len(inverse)) + weighted @ whitened.T
    response = np.asarray(np.linalg.solve(precision, inverse).T, dtype=np.float64)
    return response / scatter, weighted


@dataclass(frozen=True, slots=True)
class _Asked:
    """Configurations and a kernel, told from others by their bytes."""

    key: bytes
    kernel: ServingKernel = field(compare=False)
    held: Rows = field(compare=False)
    told: Rows = field(compare=False)


@lru_cache(maxsize=1)
def _whitened(asked: _Asked) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what all processes of a kernel share.

    The inverse factor of the held rows' correlations, it times those with the told ones, and the
    variance of these that the held ones leave.
    """
    known = asked.kernel(asked.held.x, asked.held.codes)
    inverse = np.linalg.inv(np.linalg.cholesky(known + _JITTER * np.eye(len(known))))
    whitened: FloatArray = inverse @ asked.kernel(asked.told.x, asked.told.codes).T
    return inverse, whitened, np.maximum(1 - (whitened**2).sum(axis=0), 0.0)
