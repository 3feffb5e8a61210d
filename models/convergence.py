"""How many samples a training needs to its target at a batch size: the gradient noise scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.errors import ArtifactError
from models.numerics.robust_scale import robust_sd
from models.tables import FloatArray

N_NOISE_SCALES = 161
"""Points of the grid on which the noise scale's posterior is held."""

# Batch sizes are mostly chosen below the noise scale; by how much is not known beforehand.
_PRIOR_RATIO, _PRIOR_SD, _GRID_SDS = 4.0, 2.5, 4.0
# The samples that repeated trainings need to reach their target differ by a tenth.
_NOISE_A, _NOISE_B = 2.0, 2 * 0.1**2
_INLIER_SDS, _ROUNDS, _MIN_ROBUST = 2.5, 8, 4
"""Robust deviations within which a run has full weight, reweighting rounds, fewest runs for it."""

_MIN_SD = 0.03
"""Lower bound of the robust deviation of residuals, in log units."""

_CONFIDENCE = 0.9

_LARGEST_LOG, _LARGEST_VARIANCE = 300.0, 2e4
"""Bounds on the numbers of an artefact, which no fit reaches: variances are squares of logs."""


@dataclass(frozen=True, slots=True)
class ConvergenceRuns:
    """Runs that reached their target, and the samples that it took.

    Parameters
    ----------
    batch_size
        Global batch sizes, shape (n,), positive and finite.
    samples
        Samples (in the unit of the data set) until the target was reached, shape (n,), positive
        and finite.

    Raises
    ------
    ValueError
        If lengths differ or a number is not positive and finite.

    Examples
    --------
    >>> ConvergenceRuns(np.array([256.0]), np.array([1e6])).n_runs
    1
    """

    batch_size: FloatArray
    samples: FloatArray

    def __post_init__(self) -> None:
        if self.batch_size.shape != self.samples.shape or self.batch_size.ndim != 1:
            raise ValueError("Batch sizes and samples differ in length.")
        for values in (self.batch_size, self.samples):
            if not (np.isfinite(values) & (values > 0)).all():
                raise ValueError("Batch sizes and samples are positive and finite.")

    @property
    def n_runs(self) -> int:
        """How many runs the table holds."""
        return len(self.samples)


class NoiseScale(NamedTuple):
    """The gradient noise scale in samples: its median and the bounds of its 90 % interval."""

    median: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class ConvergenceLaw:
    """Samples to the target as a function of the batch size, with its uncertainty.

    ``E(B) = E_min (1 + B / N)``: far below the noise scale N, progress per sample does not depend
    on the batch size; far above it, progress per step does not. Each noise scale of a grid has a
    probability; given the noise scale, log E_min is Student-distributed.

    Parameters
    ----------
    log_noise_scale
        The grid, shape (N_NOISE_SCALES,), ascending.
    probability
        Probability of each noise scale, summing to 1.
    location, variance
        Location of log E_min, and variance of the log samples of a new run (its noise included),
        for each noise scale.
    n_runs, batch_sizes
        Number of runs behind the law, and their smallest and largest batch size.

    References
    ----------
    McCandlish, Kaplan, Amodei et al. (2018), An empirical model of large-batch training,
    arXiv:1812.06162, eq. 2.11. Shallue et al. (2019), Measuring the effects of data parallelism on
    neural network training, JMLR 20(112).
    """

    log_noise_scale: FloatArray
    probability: FloatArray
    location: FloatArray
    variance: FloatArray
    n_runs: int
    batch_sizes: tuple[float, float]

    def moments(self, batch_size: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the log samples that a new run needs, each of shape (n,).

        The samples grow with the batch size, at most in proportion to it.
        """
        gains = np.log1p(np.exp(np.log(batch_size)[:, None] - self.log_noise_scale))
        locations = self.location + gains
        mean = locations @ self.probability
        location_variance = (locations - mean[:, None]) ** 2 @ self.probability
        return mean, location_variance + self.variance @ self.probability

    def samples_factor(self, batch_size: FloatArray, own: FloatArray) -> FloatArray:
        """Return the samples that `batch_size` needs over those that `own` needs, shape (n,)."""
        factor: FloatArray = np.exp(self.moments(batch_size)[0] - self.moments(own)[0])
        return factor

    def noise_scale(self) -> NoiseScale:
        """Return the noise scale's median and interval."""
        cumulative = np.cumsum(self.probability) - self.probability / 2
        tail = (1 - _CONFIDENCE) / 2
        quantiles = np.interp([0.5, tail, 1 - tail], cumulative, self.log_noise_scale)
        return NoiseScale(*np.exp(quantiles).tolist())


def fit_convergence(runs: ConvergenceRuns | None) -> ConvergenceLaw | None:
    """Fit the law by its exact posterior on a grid of noise scales; None without runs.

    With y the log samples and ``g = log(1 + B / N)``, ``y = log E_min + g + e`` with normal e. The
    variance of e (inverse-gamma prior, mode near .1^2) and log E_min (flat prior) are integrated
    out in closed form; the prior of N is log-normal around four times the geometric mean batch
    size, with a standard deviation of a factor of 12. From four runs on, residuals r beyond 2.5
    robust standard deviations s have the weight ``(2.5 s / r)^2``: their pull fades with distance.

    References
    ----------
    Holland and Welsch (1977), Robust regression using iteratively reweighted least-squares, Commun.
    Stat. Theory Methods 6(9), 813-827.

    Examples
    --------
    >>> batch = np.array([64.0, 256.0, 1024.0, 4096.0, 16384.0])
    >>> law = fit_convergence(ConvergenceRuns(batch, 1e6 * (1 + batch / 1000)))
    >>> bool(900 < law.noise_scale().median < 1100)
    True
    >>> law.samples_factor(np.array([2000.0]), np.array([500.0])).round(1).tolist()
    [2.0]
    """
    if runs is None or not runs.n_runs:
        return None
    order = np.lexsort((runs.samples, runs.batch_size))
    batch, y = runs.batch_size[order], np.log(runs.samples[order])
    center, width = np.log(batch).mean() + np.log(_PRIOR_RATIO), _PRIOR_SD * _GRID_SDS
    grid = center + np.linspace(-width, width, N_NOISE_SCALES)
    weights = np.ones(len(y))
    for _ in range(_ROUNDS if len(y) >= _MIN_ROBUST else 1):
        law = _posterior(grid, center, batch, y, weights)
        residual = y - law.moments(batch)[0]
        sd = max(robust_sd(residual), _MIN_SD)
        weights = np.minimum(1.0, (_INLIER_SDS * sd / np.abs(residual).clip(1e-9)) ** 2)
    return law


def _posterior(
    grid: FloatArray, center: float, batch: FloatArray, y: FloatArray, weights: FloatArray
) -> ConvergenceLaw:
    """Return the law given the weights of the runs, which are sorted by batch size."""
    total = weights.sum()
    intercepts = y - np.log1p(np.exp(np.log(batch) - grid[:, None]))
    location = intercepts @ weights / total
    squares = ((intercepts - location[:, None]) ** 2) @ weights
    a, b = _NOISE_A + (total - 1) / 2, _NOISE_B + squares / 2
    log_posterior = -0.5 * ((grid - center) / _PRIOR_SD) ** 2 - a * np.log(b)
    probability = np.exp(log_posterior - log_posterior.max())
    return ConvergenceLaw(
        log_noise_scale=grid,
        probability=probability / probability.sum(),
        location=location,
        variance=b / (a - 1) * (1 + 1 / total),
        n_runs=len(y),
        batch_sizes=(float(batch[0]), float(batch[-1])),
    )


def convergence_arrays(law: ConvergenceLaw | None) -> dict[str, FloatArray]:
    """Return a law as the arrays of an artefact; empty without a law."""
    if law is None:
        return {}
    curves = [law.log_noise_scale, law.probability, law.location, law.variance]
    scope = np.array([float(law.n_runs), *law.batch_sizes])
    return {"convergence.curves": np.stack(curves), "convergence.scope": scope}


def build_convergence(arrays: Mapping[str, FloatArray]) -> ConvergenceLaw | None:
    """Return the law of an artefact's arrays, None where there is none.

    Raises
    ------
    ArtifactError
        If the arrays do not form a law.
    """
    if "convergence.curves" not in arrays:
        return None
    # Copied: a view would keep the whole artefact in memory as long as the law.
    curves, scope = arrays["convergence.curves"].copy(), arrays["convergence.scope"]
    if curves.shape != (4, N_NOISE_SCALES) or scope.shape != (3,):
        raise ArtifactError("The artefact's convergence law does not fit together.")
    grid, probability, location, variance = curves
    is_valid = (
        (np.diff(grid) > 0).all()
        and (probability >= 0).all()
        and abs(probability.sum() - 1) < 1e-9  # noqa: PLR2004 - rounding
        and np.abs(curves[:3]).max() < _LARGEST_LOG
        and variance.min() > 0
        and variance.max() < _LARGEST_VARIANCE
        and (scope > 0).all()
        and float(scope[0]).is_integer()
    )
    if not is_valid:
        raise ArtifactError("The artefact's convergence law does not fit together.")
    n_runs, smallest, largest = scope.tolist()
    return ConvergenceLaw(grid, probability, location, variance, int(n_runs), (smallest, largest))
