"""The remaining time of a job under way, with progress and elapsed time as observations."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from app.decisions.durations import DurationBeliefs, FloatArray

RATE_VARIATION: Final = 0.1
"""Default relative standard deviation of the rate over a whole run."""

SURPRISE: Final = 1.0
"""Log standard deviation beyond the 99 % bounds, where tails of forecasts were never observed."""

_LARGEST_PRECISION: Final = 1e12
_MIN_SHARE: Final = 1e-12
"""Lower progress counts as this much, whose inverse is still finite."""


@dataclass(frozen=True, slots=True)
class RemainingBeliefs:
    """Distributions of the seconds that jobs still need.

    The remaining time is ``total - spent`` where the time spent is known, else
    ``(1 - progress) total``; both rise with the total, so quantiles carry over exactly.

    Parameters
    ----------
    total
        Beliefs about the whole durations of n jobs.
    spent
        Seconds that count towards the total, shape (n,); 0 where they are unknown.
    share
        Share of the total that is left where the time spent is unknown, in (0, 1], shape (n,); 1
        elsewhere.
    """

    total: DurationBeliefs
    spent: FloatArray
    share: FloatArray

    def mean(self) -> FloatArray:
        """Return the expected remaining seconds, shape (n,), not negative."""
        return self._remaining(self.total.mean())

    def quantile(self, probability: float | FloatArray) -> FloatArray:
        """Return the remaining seconds not exceeded with the given probability, shape (n,)."""
        return self._remaining(self.total.quantile(probability))

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds in seconds, each of shape (n,)."""
        return self.quantile((1 - confidence) / 2), self.quantile((1 + confidence) / 2)

    def probability_below(self, seconds: FloatArray) -> FloatArray:
        """Return the probability that a job ends within `seconds` from now, shape (n,)."""
        return self.total.probability_below(seconds / self.share + self.spent)

    def _remaining(self, total: FloatArray) -> FloatArray:
        return np.maximum((total - self.spent) * self.share, 0.0)


def rate_precision(progress: FloatArray, rate_variation: float | FloatArray) -> FloatArray:
    """Return the precision of ``log(elapsed / progress)`` as an observation of the log duration.

    The time until progress p is modelled as ``X(p) = T (p + s B(p))`` with a Brownian motion B and
    s the variation of the rate. Given the end ``X(1)``, the bridge has the relative variance
    ``s^2 (1 - p) / p``: nothing is known at 0, everything at 1.

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
    """Return the beliefs about the time that jobs still need.

    Progress with elapsed time is a normal observation of the log duration (`rate_precision`);
    elapsed time without progress only says that the job takes longer than that; progress without
    elapsed time, or with zero elapsed time, only scales the forecast.

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
    has_elapsed = np.nan_to_num(elapsed_s) > 0
    done = np.nan_to_num(progress)
    is_observed = has_elapsed & (done > 0)
    observed = np.log(np.where(is_observed, elapsed_s, 1.0)) - np.log(
        np.where(is_observed, done, 1.0)
    )
    precision = np.where(is_observed, rate_precision(done, rate_variation), 0.0)
    spent = np.where(has_elapsed, elapsed_s, 0.0)
    tail_deviations = np.where(has_elapsed, SURPRISE, 0.0)
    total = (
        prior.with_heavier_tails(tail_deviations).observing(observed, precision).exceeding(spent)
    )
    return RemainingBeliefs(total, spent, np.where(has_elapsed, 1.0, 1.0 - done))


@dataclass(frozen=True, slots=True)
class Stretch:
    """K past stretches of a job on other configurations.

    Parameters
    ----------
    progress, elapsed_s
        The share of the work done in each, in (0, 1), and the seconds that it took, shape (K,).
    log_ratio
        Forecast log duration of the whole job there minus that on the present configuration,
        shape (K,).
    covariance
        Prior covariance of the log durations of this very run: the stretches' configurations,
        then the present one, shape (K + 1, K + 1).
    """

    progress: FloatArray
    elapsed_s: FloatArray
    log_ratio: FloatArray
    covariance: FloatArray


def remaining_after(
    prior: DurationBeliefs,
    stretch: Stretch,
    progress: float | None,
    elapsed_s: float | None,
    rate_variation: float,
) -> tuple[RemainingBeliefs, float]:
    """Return the beliefs about one job that ran on other configurations before.

    Each stretch observes the log duration on its configuration. A regression by their joint
    forecast turns it into an observation of the present one, and generalised least squares combines
    all stretches into one normal observation. ``rate_precision`` is the case of a single stretch on
    the present configuration.

    Parameters
    ----------
    prior
        The forecast on the present configuration, one row.
    stretch
        The past stretches.
    progress, elapsed_s
        Those of the stretch under way, on the present configuration; None where unknown.
    rate_variation
        Relative standard deviation of the rate over a whole run.

    Returns
    -------
    The beliefs, and the share of the observation in them.
    """
    log_median = float(np.log(prior.median())[0])
    done = float(stretch.progress.sum())
    elapsed_s = elapsed_s or None
    observed, precision = _regress(stretch, progress, elapsed_s, rate_variation, log_median)
    remaining_share = 1.0 - done
    spent = 0.0 if elapsed_s is None else elapsed_s / remaining_share
    share = remaining_share if elapsed_s is not None else remaining_share - (progress or 0.0)
    tail_deviations = np.array([SURPRISE if precision or spent else 0.0])
    precisions = np.array([precision])
    total = prior.with_heavier_tails(tail_deviations).observing(np.array([observed]), precisions)
    total = total.exceeding(np.array([spent]))
    beliefs = RemainingBeliefs(total, np.array([spent]), np.array([share]))
    return beliefs, float(total.share_of(precisions)[0])


def _regress(
    stretch: Stretch,
    progress: float | None,
    elapsed_s: float | None,
    rate_variation: float,
    log_median: float,
) -> tuple[float, float]:
    """Return the log duration observed for the present configuration, and its precision."""
    shares, seconds = stretch.progress, stretch.elapsed_s
    covariance, means = stretch.covariance, log_median + stretch.log_ratio
    slopes = covariance[:-1, -1] / covariance[-1, -1]
    residual_covariance = covariance[:-1, :-1] - np.outer(slopes, covariance[:-1, -1])
    if progress and elapsed_s:
        shares, seconds = np.append(shares, progress), np.append(seconds, elapsed_s)
        means, slopes = np.append(means, log_median), np.append(slopes, 1.0)
        residual_covariance = np.pad(residual_covariance, (0, 1))
    if not shares.size:
        return log_median, 0.0
    noise = np.square(rate_variation) * (np.diag(1.0 / np.maximum(shares, _MIN_SHARE)) - 1.0)
    weights = np.linalg.solve(residual_covariance + noise, slopes)
    precision = min(float(weights @ slopes), _LARGEST_PRECISION)
    residuals = np.log(seconds) - np.log(shares) - means
    return log_median + float(weights @ residuals) / float(weights @ slopes), precision
