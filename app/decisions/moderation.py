"""How far the noise of one configuration may differ from the usual one.

The noise variance of a configuration is ``m`` times the usual one, with m scaled inverse
chi-squared with w degrees of freedom: the few squares of its own runs are weighed against w squares
of the usual size. How much configurations differ, hence w, is learned from all of them. If they are
alike, w is large and each configuration borrows strength from the others; if one is much noisier
(short, remote, sometimes preempted), w is small and it is judged by its own runs.

Reference: Smyth (2004), Linear models and empirical Bayes methods for assessing differential
expression, Statistical Applications in Genetics and Molecular Biology 3(1): moderated t.
"""

from dataclasses import dataclass, field
from math import exp, lgamma, log
from typing import Final

_DEGREES: Final = (3.0, 6.0, 12.0, 24.0, 48.0, 1000.0)
_LOG_PRIOR: Final = (*[log(0.1)] * 5, log(0.5))
"""One half for configurations that are all alike, as they mostly are."""


@dataclass(frozen=True, slots=True)
class Squares:
    """Squared differences between a configuration's runs, over the usual variance.

    Parameters
    ----------
    total
        Their sum, each times its degrees of freedom, at least 0.
    degrees
        The sum of their degrees of freedom, at least 0.
    """

    total: float = 0.0
    degrees: float = 0.0

    def plus(self, square: float, degrees: float) -> "Squares":
        """Return these squares and one more."""
        return Squares(self.total + degrees * square, self.degrees + degrees)

    def factor(self, prior_degrees: float) -> float:
        """Return the expected variance over the usual one."""
        return (prior_degrees + self.total) / (prior_degrees + self.degrees)

    def log_likelihood(self, prior_degrees: float) -> float:
        """Return the log density of the squares with m integrated out, up to a constant."""
        half = (prior_degrees + self.degrees) / 2.0
        return lgamma(half) - half * log(prior_degrees + self.total)


@dataclass(slots=True)
class Moderation:
    """How much the noise of configurations differs, as learned from all of them.

    Examples
    --------
    >>> alike, apart = Moderation(), Moderation()
    >>> for number in range(10):
    ...     alike.learn(Squares(), Squares(10.0, 10.0))
    ...     apart.learn(Squares(), Squares(100.0 if number else 1.0, 10.0))
    >>> alike.degrees > 100 > 5 > apart.degrees
    True
    """

    _log_posterior: list[float] = field(default_factory=lambda: list(_LOG_PRIOR))
    degrees: float = field(init=False)
    """The harmonic mean of the prior degrees of freedom, positive."""

    def __post_init__(self) -> None:
        self.degrees = self._mean_degrees()

    def learn(self, before: Squares, after: Squares) -> None:
        """Update with the change of one configuration's squares."""
        for index, degrees in enumerate(_DEGREES):
            gain = after.log_likelihood(degrees) - before.log_likelihood(degrees)
            self._log_posterior[index] += gain
        self.degrees = self._mean_degrees()

    def _mean_degrees(self) -> float:
        largest = max(self._log_posterior)
        weights = [exp(log_posterior - largest) for log_posterior in self._log_posterior]
        inverse = sum(weight / degrees for weight, degrees in zip(weights, _DEGREES, strict=True))
        return sum(weights) / inverse
