"""Noise in seconds rather than as a share of a run's duration: short runs vary more."""

import math
from dataclasses import dataclass, replace

import numpy as np

from models.numerics.log_grid import on_log_grid
from models.tables import FloatArray

_T_DOF = 4.0
"""Degrees of freedom of Student's t: a straggler among repetitions has little influence."""

_MIN_LOG_ODDS = 4.0
"""Least log odds, divided by the number of configurations: few of them mislead more easily."""

_MIN_SD, _MAX_SD, _N_SDS = 1e-3, 1.0, 32
_MIN_JITTER, _MAX_JITTER, _N_JITTERS = 1e-3, 2.0, 40
"""The grids of the relative noise, and of the jitter relative to the shortest duration."""

_FEWEST, _MAX_COMPARED = 8, 1_000
"""Fewest repeated configurations that can call for jitter, and most that are compared."""


@dataclass(frozen=True, slots=True)
class Jitter:
    """The noise variance of a log duration as a function of the duration.

    A run of d seconds with relative noise s and k seconds of jitter has a log duration with
    variance ``s^2 + ln(1 + (k / d)^2)``; the second term is the log variance of a log-normal
    variable with coefficient of variation k / d.

    Attributes
    ----------
    relative_variance
        ``s^2``.
    log_seconds
        ``ln k``, less the centre of the log durations that are passed in.
    usual_variance
        Mean of the variance over the repetitions from which it was learned.
    """

    relative_variance: float
    log_seconds: float
    usual_variance: float

    def factor(self, log_duration: FloatArray) -> FloatArray:
        """Return the variance of runs of each duration over the usual one, shape (n,)."""
        return self._variance(log_duration) / self.usual_variance

    def with_noise(self, variance: FloatArray, log_duration: FloatArray) -> FloatArray:
        """Return predicted variances with the noise of runs of each duration, shape (n,).

        `variance` contains the usual noise, which is replaced; the rest of it is kept.
        """
        noise = self._variance(log_duration)
        least = variance * np.minimum(noise / self.usual_variance, 1.0)
        return np.maximum(variance + noise - self.usual_variance, least)

    def scaled_to(self, noise_variance: float) -> "Jitter":
        """Return the same scaled to another usual variance: Student's t finds a smaller one."""
        scale = noise_variance / self.usual_variance
        return Jitter(
            self.relative_variance * scale,
            self.log_seconds + _rounded(math.log(scale) / 2),
            noise_variance,
        )

    def relative_to(self, center: float) -> "Jitter":
        """Return the same for log durations less a centre."""
        return replace(self, log_seconds=self.log_seconds - center)

    def parts(self, center: float) -> tuple[float, float]:
        """Return the relative noise and the seconds of jitter, for log durations less a centre."""
        return math.sqrt(self.relative_variance), math.exp(self.log_seconds + center)

    def _variance(self, log_duration: FloatArray) -> FloatArray:
        return self.relative_variance + _jitter_variance(self.log_seconds - log_duration)


def _jitter_variance(log_ratio: FloatArray) -> FloatArray:
    """Return ``ln(1 + r^2)`` of ``ln r``."""
    variance: FloatArray = np.log1p(np.exp(2 * np.minimum(log_ratio, 100.0)))
    return variance


def find_jitter(log_duration: FloatArray, variance: FloatArray, dof: FloatArray) -> Jitter | None:
    """Return the jitter of repetitions, None unless they call for one.

    The log durations of a configuration follow a multivariate Student's t (4 degrees of freedom)
    whose squared scale is the variance of `Jitter`. ``s`` and ``k`` are uniform in their logarithms
    on a grid. Jitter is called for if it makes the repetitions of n configurations more probable by
    a factor of ``e^(4 / n)``, leaving out the configuration with most evidence for it; s and k are
    then the exponentials of their posterior mean logarithms. Fewer than eight repeated
    configurations call for none.

    Parameters
    ----------
    log_duration
        Mean log duration of each repeated configuration, shape (n,).
    variance, dof
        Variance of its log durations, and its degrees of freedom, shape (n,).

    References
    ----------
    Davidian and Carroll (1987), Variance function estimation, JASA 82(400), 1079-1091: additive and
    multiplicative components. Kass and Raftery (1995), Bayes factors, JASA 90(430).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> seconds = np.geomspace(5, 500, 40)[:, None] * np.exp(0.02 * rng.normal(size=(40, 2)))
    >>> def fit(seconds):
    ...     logs = np.log(seconds)
    ...     return find_jitter(logs.mean(axis=1), logs.var(axis=1, ddof=1), np.ones(40))
    >>> fit(seconds) is None
    True
    >>> bool(0.3 < np.exp(fit(seconds + rng.exponential(size=(40, 2))).log_seconds) < 1.5)
    True
    """
    if len(variance) < _FEWEST:
        return None
    # Configurations are in the order of their hashes: the first ones are a random choice.
    y, v, dof = (values[:_MAX_COMPARED] for values in (log_duration, variance, dof))
    # Relative to the shortest, which is exact: the unit of the durations does not matter.
    shortest = float(y.min())
    y = y - shortest
    sds = np.geomspace(_MIN_SD, _MAX_SD, _N_SDS)
    jitters = np.log(np.geomspace(_MIN_JITTER, _MAX_JITTER, _N_JITTERS))
    jitter_variances = _jitter_variance(jitters[:, None] - y)
    without_jitter = np.array([_log_likelihoods(np.full(len(y), sd**2), v, dof) for sd in sds])
    with_jitter = np.array([_log_likelihoods(sd**2 + jitter_variances, v, dof) for sd in sds])
    if _log_odds(with_jitter.reshape(-1, len(y)), without_jitter) < _MIN_LOG_ODDS / len(y):
        return None
    with_jitter = with_jitter.sum(axis=2)
    posterior = np.exp(with_jitter - with_jitter.max())
    posterior /= posterior.sum()
    relative = float(np.exp(posterior.sum(axis=1) @ np.log(sds)) ** 2)
    log_ratio = _rounded(float(posterior.sum(axis=0) @ jitters))
    usual = float((relative + _jitter_variance(log_ratio - y)) @ dof / dof.sum())
    return Jitter(relative, shortest + log_ratio, usual)


def _rounded(log: float) -> float:
    return float(on_log_grid(np.array(log)))


def _log_likelihoods(expected: FloatArray, variance: FloatArray, dof: FloatArray) -> FloatArray:
    """Return the log likelihood of each variance up to a constant, shape (..., n)."""
    log_tail = np.log1p(dof * variance / (_T_DOF * expected))
    return -(dof * np.log(expected) + (dof + _T_DOF) * log_tail) / 2


def _log_odds(one: FloatArray, other: FloatArray) -> float:
    """Return the log Bayes factor without the configuration with most evidence for the first.

    The likelihoods have the shape (n_grid, n).
    """
    evidence = one[one.sum(axis=1).argmax()] - other[other.sum(axis=1).argmax()]
    kept = np.arange(one.shape[1]) != evidence.argmax()
    return _log_mean_exp(one[:, kept].sum(axis=1)) - _log_mean_exp(other[:, kept].sum(axis=1))


def _log_mean_exp(logs: FloatArray) -> float:
    largest = float(logs.max())
    return largest + float(np.log(np.exp(logs - largest).mean()))
