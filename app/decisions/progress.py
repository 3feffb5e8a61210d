"""What a job under way says of its own duration: progress and elapsed time as observations."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from app.decisions.durations import DurationBeliefs, FloatArray

RATE_VARIATION: Final = 0.1
"""Relative standard deviation of the rate over a whole run, where nothing else is said."""

SURPRISE: Final = 1.0
"""Log standard deviation beyond the bounds of 99 %, where a forecast's tails were never seen."""

_LARGEST_PRECISION: Final = 1e12


@dataclass(frozen=True, slots=True)
class RemainingBeliefs:
    """Distributions of the seconds that jobs still need.

    The remaining time is ``total - spent`` where the time spent is known, else
    ``(1 - progress) total``; both rise with the total, so that quantiles carry over exactly.

    Parameters
    ----------
    total
        What is believed of the whole durations, of n jobs.
    spent
        Seconds that count towards the total, shape (n,); 0 where they are unknown.
    share
        What is left of a total that nothing was spent on, in (0, 1], shape (n,); 1 elsewhere.
    """

    total: DurationBeliefs
    spent: FloatArray
    share: FloatArray

    def mean(self) -> FloatArray:
        """Return the expected remaining seconds, shape (n,), not negative."""
        return self._left(self.total.mean())

    def quantile(self, probability: float | FloatArray) -> FloatArray:
        """Return the remaining seconds that are not exceeded with a probability, shape (n,)."""
        return self._left(self.total.quantile(probability))

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds in seconds, each of shape (n,)."""
        return self.quantile((1 - confidence) / 2), self.quantile((1 + confidence) / 2)

    def probability_below(self, seconds: FloatArray) -> FloatArray:
        """Return the probability that a job ends within `seconds` from now, shape (n,)."""
        return self.total.probability_below(seconds / self.share + self.spent)

    def _left(self, total: FloatArray) -> FloatArray:
        return np.maximum((total - self.spent) * self.share, 0.0)


def rate_precision(progress: FloatArray, rate_variation: float | FloatArray) -> FloatArray:
    """Return the precision with which ``log(elapsed / progress)`` tells the log duration.

    The time until progress p is taken as ``X(p) = T (p + s B(p))`` with a Brownian motion B and
    s the variation of the rate: given the end ``X(1)``, the bridge has the relative variance
    ``s^2 (1 - p) / p``. Nothing is known at 0, everything at 1.

    Examples
    --------
    >>> rate_precision(np.array([0.0, 0.5, 0.9]), 0.1).round(6).tolist()
    [0.0, 100.0, 900.0]
    """
    with np.errstate(divide="ignore"):
        precision = progress / (np.square(rate_variation) * (1.0 - progress))
    return np.minimum(precision, _LARGEST_PRECISION)


def remaining(
    prior: DurationBeliefs,
    progress: FloatArray,
    elapsed_s: FloatArray,
    rate_variation: float = RATE_VARIATION,
) -> RemainingBeliefs:
    """Return what is believed of the time that jobs still need.

    Progress with elapsed time is a normal observation of the log duration (`rate_precision`);
    elapsed time without progress only says that the job takes longer; progress without elapsed
    time only scales the forecast.

    Parameters
    ----------
    prior
        The forecasts of the whole durations, of n jobs.
    progress
        Share of the work that is done, in [0, 1), shape (n,); NaN where it is unknown.
    elapsed_s
        Seconds since the start, shape (n,); NaN where they are unknown.
    rate_variation
        Relative standard deviation of the rate over a whole run.
    """
    has_elapsed = ~np.isnan(elapsed_s)
    done = np.nan_to_num(progress)
    seen = has_elapsed & (done > 0) & (np.nan_to_num(elapsed_s) > 0)
    observed = np.log(np.where(seen, elapsed_s, 1.0)) - np.log(np.where(seen, done, 1.0))
    precision = np.where(seen, rate_precision(done, rate_variation), 0.0)
    spent = np.where(has_elapsed, elapsed_s, 0.0)
    total = prior.with_surprises(SURPRISE).observing(observed, precision).exceeding(spent)
    return RemainingBeliefs(total, spent, np.where(has_elapsed, 1.0, 1.0 - done))
