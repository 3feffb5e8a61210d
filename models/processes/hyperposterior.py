"""The posterior of the hyper-parameters of a process, given configurations."""

from dataclasses import dataclass

import numpy as np

from models.numerics.positive_definite import invert_lower
from models.processes.kernels import KernelParameters
from models.processes.training_kernel import TrainingKernel
from models.tables import FloatArray

_JITTERS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


@dataclass(frozen=True, slots=True)
class Observed:
    """What n configurations show about a process around a law with p parameters.

    Attributes
    ----------
    kernel
        Their distances and numbers of repetitions.
    residual
        Log durations less the law's, shape (n,).
    coupling
        Covariance of the law's parameters with the log durations, shape (p, n).
    base
        Covariance of the log durations due to the law's parameters alone, shape (n, n).
    """

    kernel: TrainingKernel
    residual: FloatArray
    coupling: FloatArray
    base: FloatArray


def negative_log_posterior(
    observed: Observed,
    logs: FloatArray,
    means: FloatArray,
    sds: FloatArray,
    *,
    shape_fixed: bool,
) -> tuple[float, FloatArray]:
    """Return the negative log posterior of the hyper-parameters and its gradient.

    Parameters
    ----------
    observed
        What the configurations show.
    logs
        Log hyper-parameters as `KernelParameters.from_log` reads them, shape (k,).
    means, sds
        Means and standard deviations of the logs under the log-normal priors, shape (k,).
    shape_fixed
        Leave the kernel's slopes for all but the three deviations at 0.

    References
    ----------
    Rasmussen and Williams (2006), Gaussian processes for machine learning, section 5.4.1.
    """
    kernel, residual = observed.kernel, observed.residual
    parameters = KernelParameters.from_log(logs, kernel.n_numeric)
    covariance = kernel.covariance(logs)
    noise = parameters.roughness**2 + parameters.noise**2 / kernel.counts
    factor = cholesky(covariance + observed.base, noise)
    inverse = invert_lower(factor)
    precision = inverse.T @ inverse
    alpha = precision @ residual
    deviations = (logs - means) / sds
    value = residual @ alpha / 2 + np.log(np.diag(factor)).sum() + deviations @ deviations / 2
    inner = (precision - np.outer(alpha, alpha)) / 2
    gradient = kernel.gradient(logs, inner, shape_fixed=shape_fixed)
    return float(value), gradient + deviations / sds


def cholesky(covariance: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the lower factor of a covariance plus `noise` on its diagonal, jittered if necessary.

    Raises
    ------
    ValueError
        If the covariance is far from positive definite.
    """
    for jitter in _JITTERS:
        try:
            factor = np.linalg.cholesky(covariance + np.diag(noise + jitter))
        except np.linalg.LinAlgError:
            continue
        return np.asarray(factor, dtype=np.float64)
    raise ValueError("The covariance of the configurations is not positive definite.")
