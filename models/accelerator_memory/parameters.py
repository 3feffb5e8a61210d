"""The parameters of the memory law: their places in a vector, and the peaks that they imply."""

from dataclasses import dataclass

import numpy as np

from models.accelerator_memory.features import MemoryFeatures, MemoryRows
from models.accelerator_memory.precisions import LEVEL_SD, ordered_effects, prior_effect
from models.tables import FloatArray, IntArray

GIB = 2.0**30

_N_FIXED = 6
"""Number of parameters that are not specific to a column: the first six of `Parameters`."""

_MAX_EXPONENT = 3.0

_OUTCOME_SD = 0.03
"""Log standard deviation of what besides the peak decides whether a run fits: fragmentation."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Named columns of draws, each of shape (n_draws, ...); `effects` by `ordered_effects`.

    Exponents lie between 0 and 3, since nothing in a training grows faster than the cube of a size.
    `sharding` is the exponent with which workers share the part that does not depend on the batch:
    0 where each holds all of it, 1 where each holds an equal part.
    """

    base: FloatArray
    per_sample: FloatArray
    sigma: FloatArray
    usable: FloatArray
    unseen: FloatArray
    sharding: FloatArray
    base_exponents: FloatArray
    sample_exponents: FloatArray
    effects: FloatArray
    capacities: FloatArray

    @classmethod
    def of(cls, draws: FloatArray, features: MemoryFeatures, n_latent: int) -> "Parameters":
        """Name the columns of `draws`, shape (n_draws, n_parameters)."""
        n, levels = len(features.parameters), len(features.levels)
        ends = np.cumsum([_N_FIXED, n, n, levels, n_latent])
        parts = np.split(draws, ends[:-1], axis=1)
        fixed = parts[0].T
        exponents = [_MAX_EXPONENT * _logistic(part) for part in parts[1:3]]
        levels_by_category = [levels for _, levels in features.categories]
        effects = ordered_effects(parts[3], fixed[4], levels_by_category)
        sigma, sharding = np.exp(fixed[2]), _logistic(fixed[5])
        columns = [*fixed[:2], sigma, *fixed[3:5], sharding, *exponents, effects, parts[4]]
        return cls(*columns)

    def peaks(self, rows: MemoryRows) -> FloatArray:
        """Return the log peak in bytes, shape (n_draws, n_rows)."""
        base = self.base[:, None] + self.base_exponents @ rows.parameters.T
        base -= self.sharding[:, None] * rows.log_workers
        slope = self.per_sample[:, None] + self.sample_exponents @ rows.parameters.T
        peaks = log_of_sum(base, slope + rows.log_batch)
        if rows.levels.shape[1]:
            peaks += self.effects @ rows.levels.T
        if rows.n_unseen.any():
            peaks += rows.unseen + LEVEL_SD * self.unseen[:, None] * np.sqrt(rows.n_unseen)
        return np.asarray(peaks, dtype=np.float64)

    def limits(self, known: FloatArray, codes: IntArray) -> FloatArray:
        """Return the log of the usable bytes, shape (n_draws, n_rows).

        `known` is the log memory of each row's GPU; rows with a code have an estimated memory.
        """
        limits = known + self.usable[:, None]
        latent = codes >= 0
        if latent.any():
            limits[:, latent] = self.capacities[:, codes[latent]]
        return limits

    def stacked(self) -> FloatArray:
        """Return one matrix for all draws that maps a design to both terms minus the limit.

        Its rows belong to the columns of `MemoryRows.design`, followed by the log memory of the GPU
        (0 if unknown), whether it is known, and each GPU whose memory is a parameter. Its columns
        are the base of all draws, then the part that grows with the batch of all draws.
        """
        n = len(self.base)
        shared = np.concatenate(
            [
                self.effects.T,
                np.ones((1, n)),
                LEVEL_SD * self.unseen[None],
                np.full((1, n), -1.0),
                -self.usable[None],
                -self.capacities.T,
            ]
        )
        zeros = np.zeros((1, n))
        base = np.concatenate(
            [self.base[None], zeros, -self.sharding[None], self.base_exponents.T, shared]
        )
        slope = np.concatenate(
            [self.per_sample[None], zeros + 1, zeros, self.sample_exponents.T, shared]
        )
        return np.concatenate([base, slope], axis=1)

    def outcome_scale(self) -> FloatArray:
        """Return the scale of the error relative to the limit, shape (n_draws, 1)."""
        return np.sqrt(self.sigma**2 + _OUTCOME_SD**2)[:, None]


def _logistic(x: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-x)), dtype=np.float64)


def log_of_sum(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return log(exp(one) + exp(other)) of finite numbers.

    `numpy.logaddexp` is a single call but not vectorised: for many rows it takes three times as
    long.

    Examples
    --------
    >>> log_of_sum(np.array([0.0, 900.0]), np.array([0.0, -900.0])).round(4).tolist()
    [0.6931, 900.0]
    """
    excess: FloatArray = np.log1p(np.exp(-np.abs(one - other)))
    return excess + np.maximum(one, other)


def error_probability(errors: FloatArray) -> FloatArray:
    """Return the distribution function of the law's errors, Student's t with 4 degrees of freedom.

    Its tails are heavier than normal ones, to allow for odd measurements.

    Examples
    --------
    >>> error_probability(np.array([0.0, 2.132, -1e200])).round(3).tolist()
    [0.5, 0.95, 0.0]
    """
    bounded = np.minimum(np.maximum(errors, -1e9), 1e9)
    square = bounded * bounded
    shifted = square + 4
    probability = 0.5 + bounded * (square + 6) / (2 * shifted * np.sqrt(shifted))
    return np.asarray(probability, dtype=np.float64)


def error_log_density(errors: FloatArray) -> FloatArray:
    """Return the log density of the distribution of `error_probability`."""
    return np.asarray(np.log(0.375) - 2.5 * np.log1p(errors**2 / 4), dtype=np.float64)


def prior_of(features: MemoryFeatures, n_latent: int) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of all parameters, each of shape (n_parameters,).

    Two GiB for weights and as much for activations at the median local batch, each within a
    factor of 4; errors of 6 %; 94 % of the memory is usable. Exponents have a median of .23; a
    quarter is below .05, since many parameters of a training do not affect its memory, and a
    quarter above 1. The median of the sharding is .08, a fifth is above .5.
    """
    n, scale = len(features.parameters), float(np.log(2 * GIB))
    means = [scale, scale, float(np.log(0.06)), -0.06, 0.0, -2.5]
    sds = [1.4, 1.4, 0.7, 0.06, 1.0, 3.0]
    means += [-2.5] * (2 * n) + [prior_effect(level) for level in features.levels]
    sds += [2.5] * (2 * n) + [LEVEL_SD] * len(features.levels)
    means += [float(np.log(16 * GIB))] * n_latent
    sds += [1.0] * n_latent
    return np.array(means), np.array(sds)
