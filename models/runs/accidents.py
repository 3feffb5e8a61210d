"""The probability that something went wrong with a run, given its distance from others."""

import numpy as np

from models.tables import FloatArray

ACCIDENT_SHARE = 0.01
"""Prior share of runs with an accident."""

ACCIDENT_SD = 1.4
"""Log scale of its effect on a duration: a factor of 4."""

T_DOF = 4.0
"""Degrees of freedom of Student's t: a standard deviation is known within a factor of 1.5."""


def accident_probability(deviation: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the probability of an accident, given a run's deviation and its variance without one.

    Examples
    --------
    >>> accident_probability(np.log([1.2, 1.5, 8.0]), np.full(3, 0.04**2)).round(2).tolist()
    [0.03, 0.5, 1.0]
    """
    prior = np.log(ACCIDENT_SHARE / (1 - ACCIDENT_SHARE))
    return probability(accident_log_odds(deviation, variance) + prior)


def accident_log_odds(deviation: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the log Bayes factor of an accident against none.

    A log duration deviates as Student's t with four degrees of freedom, of scale ``v^(1/2)``
    without an accident and of ``(v + 1.4^2)^(1/2)`` with one. With equally heavy tails, a larger
    deviation is never a smaller reason to believe in an accident.

    References
    ----------
    Box and Tiao (1968), A Bayesian approach to some outlier problems, Biometrika 55(1), 119-129.
    """
    accident_variance = ACCIDENT_SD**2 + variance
    log_tails = np.log1p(deviation**2 / variance / T_DOF)
    log_tails -= np.log1p(deviation**2 / accident_variance / T_DOF)
    log_scales = np.log(accident_variance / variance) / 2
    return np.asarray((T_DOF + 1) / 2 * log_tails - log_scales, dtype=np.float64)


def probability(log_odds: FloatArray) -> FloatArray:
    """Return the probability of log odds."""
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -50.0, 50.0))), dtype=np.float64)
