"""What repetitions of a configuration say about its next run."""

import numpy as np

from models.runs.configurations import UNBOUNDED, Configurations
from models.tables import FloatArray

PRIOR_NOISE_SD = 0.02
"""Prior log standard deviation of repetitions."""

_MIN_DOF = 2


def pooled_variance(variance: float, dof: int, prior_dof: int) -> float:
    """Return the variance of repetitions pooled with prior degrees of freedom of `PRIOR_NOISE_SD`.

    Examples
    --------
    >>> pooled_variance(0.01, 0, 3) == PRIOR_NOISE_SD**2, round(pooled_variance(0.01, 1, 1), 4)
    (True, 0.0052)
    """
    return (dof * variance + prior_dof * PRIOR_NOISE_SD**2) / (dof + prior_dof)


def half_widths_of_repetitions(configurations: Configurations) -> FloatArray:
    """Return the half width of the 90 % interval of a new run of each configuration, shape (n,).

    ``t s sqrt(1 + 1 / c)`` in log units, with c repetitions, s the pooled deviation of repetitions
    (with one prior degree of freedom of .02) and Student's t at its degrees of freedom; at least
    ``sqrt(2 / c)`` times the range of the c runs, since configurations may differ in their noise.
    `UNBOUNDED` where there is one run, or fewer than two degrees of freedom in all.

    References
    ----------
    Hahn and Meeker (1991), Statistical intervals, ch. 4: prediction intervals.

    Examples
    --------
    >>> from models.runs.configurations import collapse
    >>> from models.tables import FeatureTable, RunTable
    >>> features = FeatureTable({"workers": np.array([1.0, 2.0, 1.0, 1.0])}, {}, 4)
    >>> table = collapse(RunTable(features, np.array([90.0, 60.0, 100.0, 110.0]), list("abcd")))
    >>> half_widths_of_repetitions(table).round(2).tolist()
    [1000.0, 0.28]
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy, and not for those who only serve

    unbounded = np.full(len(configurations.counts), UNBOUNDED)
    dof = configurations.noise_dof
    if dof < _MIN_DOF:
        return unbounded
    variance = pooled_variance(configurations.noise_variance, dof, 1)
    deviations = configurations.spreads * np.sqrt(variance * (1 + 1 / configurations.counts))
    widths = configurations.ranges[:, 1] - configurations.ranges[:, 0]
    least = widths * np.sqrt(2 / configurations.counts)
    half_widths = np.maximum(float(stdtrit(dof, 0.95)) * deviations, least)
    return np.where(configurations.counts > 1, half_widths, unbounded)
