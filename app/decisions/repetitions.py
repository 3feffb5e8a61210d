"""What earlier runs say of a regressor's error at each configuration, and of the noise of one run.

Each run's log ratio of observed to forecast duration is ``r = b + e``: the regressor's error for
the configuration, ``b ~ N(0, model variance)``, common to all runs of the configuration, and the
noise of one run, ``e ~ N(0, noise variance)``. Both are updated run by run: b by its posterior,
the noise variance by the differences of successive runs of a configuration, which a shift enters
once. A new run is then expected at the posterior mean of b, with Student's t for the estimated
noise: narrow where a configuration was repeated, as wide as the forecast where it was not.

References: Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., section 2.5 and 5.4; von Neumann
et al. (1941), The mean square successive difference, Annals of Mathematical Statistics 12(2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_NOISE_WEIGHT: Final = 6.0
"""How many repetitions the given noise counts for, against the noise that is seen."""

_DIFFERENCE_WEIGHT: Final = 2.0 / 3.0
"""Degrees of freedom of one successive difference (von Neumann et al. 1941)."""

_LEAST_NOISE_SHARE: Final = 0.3
_MOST_NOISE_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the earlier runs let expect of the log ratio of a new run.

    Parameters
    ----------
    mean, deviation
        Of the new run's log ratio; `deviation` is positive.
    degrees
        Degrees of freedom of Student's t.
    runs
        How many earlier runs there were of the configuration.
    """

    mean: float
    deviation: float
    degrees: float
    runs: int

    def probability_above(self, ratio: float) -> float:
        """Return the probability that a new run's log ratio is this large or larger.

        Examples
        --------
        >>> round(Expectation(0.0, 0.1, 30.0, 5).probability_above(0.2), 3)
        0.027
        """
        from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

        return float(special.stdtr(self.degrees, -(ratio - self.mean) / self.deviation))

    def quantile(self, probability: float) -> float:
        """Return the log ratio that a new run is below with a probability in (0, 1)."""
        from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

        units = float(special.stdtrit(self.degrees, probability))
        return self.mean + units * self.deviation


@dataclass(slots=True)
class Level:
    """What the runs of one configuration say of the regressor's error there.

    `variance_ratio` is the posterior variance of the error over that of the noise, `mean` its
    posterior mean; `total` sums the log ratios of the `runs` runs, `previous` is the last one.
    """

    model_variance: float
    variance_ratio: float
    previous: float | None = None
    mean: float = 0.0
    total: float = 0.0
    runs: int = 0


@dataclass(slots=True)
class Repetitions:
    """The noise of one run, and the level of each configuration.

    Parameters
    ----------
    variance
        Of the noise, as a squared log deviation, positive; what is known before any repetition.
    weight
        How many repetitions that rests on.
    """

    variance: float
    weight: float = _NOISE_WEIGHT
    levels: dict[int, Level] = field(default_factory=dict)

    def level(self, scale: float, group: int) -> Level:
        """Return the level of a configuration, a new one where it has had no run."""
        if group not in self.levels:
            model = max(scale * scale - self.variance, 0.05 * scale * scale)
            self.levels[group] = Level(model, model / self.variance)
        return self.levels[group]

    def expect(self, scale: float, group: int) -> Expectation:
        """Return what a new run of a configuration is expected to take.

        Parameters
        ----------
        scale
            Log deviation of the forecast for a new run, positive.
        group
            The configuration's number.
        """
        level = self.level(scale, group)
        deviation = float((self.variance * (1.0 + level.variance_ratio)) ** 0.5)
        return Expectation(level.mean, deviation, self.weight, level.runs)

    def learn(self, ratio: float, scale: float, group: int, *, is_normal: bool = True) -> None:
        """Take a run's log ratio into the level of its configuration and into the noise.

        A run that is not normal leaves the level alone. The noise learns from every run: were
        the far ones left out of it, it would seem smaller than it is.
        """
        level = self.level(scale, group)
        if is_normal:
            spread = 1.0 + level.variance_ratio
            level.mean += level.variance_ratio / spread * (ratio - level.mean)
            level.variance_ratio /= spread
            level.total += ratio
            level.runs += 1
        if level.previous is not None:
            self._learn_noise((ratio - level.previous) ** 2 / 2.0)
        level.previous = ratio

    def count_once(self) -> None:
        """Take back what counts twice, the regressor being fitted on the runs learned so far.

        Its forecast holds what they say already: the error of a level is then that of the
        forecast or of the mean of its runs, whichever is smaller, and not of both together.
        """
        for level in self.levels.values():
            of_model = level.model_variance / self.variance
            level.variance_ratio = min(of_model, 1.0 / level.runs) if level.runs else of_model

    def _learn_noise(self, square: float) -> None:
        # An accident is limited: it must not look like noise for ever.
        limited = min(square, 9.0 * self.variance)
        weight = self.weight + _DIFFERENCE_WEIGHT
        self.variance = (self.weight * self.variance + _DIFFERENCE_WEIGHT * limited) / weight
        self.weight = weight


def repetitions(scales: FloatArray | Sequence[float], noise: float | None) -> Repetitions:
    """Return what is known before the first run.

    Parameters
    ----------
    scales
        Log deviations of the forecasts of the runs to come, shape (n,), n at least 1, positive.
    noise
        Log deviation of repetitions where it is known; half of the median scale otherwise.

    Examples
    --------
    >>> seen = repetitions([0.05], 0.03)
    >>> before = seen.expect(0.05, 0).deviation
    >>> for ratio in (0.04, 0.05, 0.045):
    ...     seen.learn(ratio, 0.05, 0)
    >>> after = seen.expect(0.05, 0)
    >>> round(before, 3), round(after.mean, 3), after.deviation < before
    (0.05, 0.038, True)
    """
    typical = float(np.median(scales))
    start = typical / 2.0 if noise is None else noise
    start = min(max(start, _LEAST_NOISE_SHARE * typical), _MOST_NOISE_SHARE * typical)
    return Repetitions(start * start)
