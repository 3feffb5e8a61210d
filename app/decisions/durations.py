"""Beliefs about durations: exact arithmetic on calibrated forecasts in log space."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_LARGEST: Final = 690.0
"""The largest logarithm of seconds that is reported."""

_MIN_DEVIATION: Final = 1e-9
"""Least standard deviation of the logarithm within a piece."""


@dataclass(frozen=True, slots=True)
class DurationBeliefs:
    """Distributions of n durations, each piecewise normal in the logarithm.

    A calibrated forecast is of this form (its half width is piecewise linear in that of the
    standard normal), and stays so when a duration is seen to exceed a bound or a normal observation
    of its logarithm is added. Hence every answer is exact, without sampling or a grid. Bounds at
    any confidence are quantiles of one distribution, hence ordered and nested.

    Parameters
    ----------
    log_mass
        Log probability of each piece, shape (n, pieces); each row's probabilities add up to 1.
    means, deviations
        Mean and standard deviation of the normal of which a piece is a part, log seconds, shape
        (n, pieces).
    lows, highs
        Start and end of each piece, log seconds, shape (n, pieces), rising along a row.
    """

    log_mass: FloatArray
    means: FloatArray
    deviations: FloatArray
    lows: FloatArray
    highs: FloatArray

    @classmethod
    def from_widths(
        cls, log_median: FloatArray, below: FloatArray, above: FloatArray, knots: FloatArray
    ) -> "DurationBeliefs":
        """Return the beliefs of calibrated forecasts, whose two sides may differ.

        Parameters
        ----------
        log_median
            Log seconds, shape (n,).
        below, above
            Distances of the bounds at `knots[1:]` from the median, log seconds, shape (n, k), not
            decreasing.
        knots
            Half widths of the standard normal, from 0, shape (k + 1,).

        Examples
        --------
        >>> knots = np.array([0.0, 0.674, 1.645])
        >>> below, above = np.array([[0.1, 0.2]]), np.array([[0.5, 1.5]])
        >>> skew = DurationBeliefs.from_widths(np.log([100.0]), below, above, knots)
        >>> [bound.round(1).tolist() for bound in skew.interval(0.9)]
        [[81.9], [448.1]]
        """
        lower, upper = _Side.of(below, knots), _Side.of(above, knots)
        center = log_median[:, None]
        mass = _log_mass(knots, np.append(knots[1:], np.inf))
        flipped = slice(None, None, -1)
        return cls(
            log_mass=np.tile(np.concatenate([mass[flipped], mass]), (len(center), 1)),
            means=_joined((center - lower.offsets)[:, flipped], center + upper.offsets),
            deviations=_joined(lower.slopes[:, flipped], upper.slopes),
            lows=_joined((center - lower.ends)[:, flipped], center + upper.starts),
            highs=_joined((center - lower.starts)[:, flipped], center + upper.ends),
        )

    def with_heavier_tails(self, deviation: FloatArray) -> "DurationBeliefs":
        """Return the beliefs with outer pieces that fall no faster than a given normal.

        Parameters
        ----------
        deviation
            Log standard deviation of that normal, shape (n,); 0 leaves a row as it is.

        Notes
        -----
        The density between the outermost knots and the probabilities beyond them do not change. A
        run far outside is thus judged by its own observations, not by the forecast, whose tails
        were never observed.
        """
        means, deviations = self.means.copy(), self.deviations.copy()
        for piece, edge in ((0, self.highs[:, 0]), (-1, self.lows[:, -1])):
            unit = (edge - means[:, piece]) / deviations[:, piece]
            deviations[:, piece] = np.maximum(deviations[:, piece], deviation)
            means[:, piece] = edge - unit * deviations[:, piece]
        return replace(self, means=means, deviations=deviations)

    def __len__(self) -> int:
        return len(self.log_mass)

    def take(self, rows: npt.ArrayLike) -> "DurationBeliefs":
        """Return the beliefs of some rows, in their order."""
        chosen = np.asarray(rows, dtype=np.intp)
        return DurationBeliefs(
            self.log_mass[chosen],
            self.means[chosen],
            self.deviations[chosen],
            self.lows[chosen],
            self.highs[chosen],
        )

    def times(self, factor: FloatArray) -> "DurationBeliefs":
        """Return the beliefs about durations that are `factor` times as long, shape (n,)."""
        shift = np.log(factor)[:, None]
        return replace(
            self, means=self.means + shift, lows=self.lows + shift, highs=self.highs + shift
        )

    def mean(self) -> FloatArray:
        """Return the expected durations in seconds, shape (n,)."""
        from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

        low, high = self._standardized(self.lows), self._standardized(self.highs)
        deviations = self.deviations
        log_shares = _log_ratio(
            _log_mass(low - deviations, high - deviations), _log_mass(low, high)
        )
        log_means = self.means + deviations**2 / 2 + log_shares
        # The mean of an extremely wide belief would overflow.
        return np.exp(np.minimum(special.logsumexp(self.log_mass + log_means, axis=1), _LARGEST))

    def median(self) -> FloatArray:
        """Return the median durations in seconds, shape (n,)."""
        return self.quantile(0.5)

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds in seconds, each of shape (n,)."""
        return self.quantile((1 - confidence) / 2), self.quantile((1 + confidence) / 2)

    def quantile(self, probability: float | FloatArray) -> FloatArray:
        """Return the durations that are not exceeded with the given probability, shape (n,).

        Raises
        ------
        ValueError
            If a probability is not within (0, 1).
        """
        probabilities = np.broadcast_to(np.asarray(probability, dtype=np.float64), (len(self),))
        if not ((probabilities > 0) & (probabilities < 1)).all():
            raise ValueError("A probability lies between 0 and 1.")
        mass = np.exp(self.log_mass)
        cumulative = np.cumsum(mass, axis=1)
        piece = np.minimum((cumulative < probabilities[:, None]).sum(axis=1), mass.shape[1] - 1)
        rows = np.arange(len(self))
        # Rounding may leave the total of the mass just short of the wanted probability.
        piece = np.where(mass[rows, piece] > 0, piece, np.argmax(mass, axis=1))
        before = cumulative[rows, piece] - mass[rows, piece]
        share = np.clip((probabilities - before) / mass[rows, piece], 0.0, 1.0)
        cells = (rows, piece)
        low, high = self._standardized(self.lows)[cells], self._standardized(self.highs)[cells]
        logs = self.means[cells] + self.deviations[cells] * _truncated_quantile(low, high, share)
        seconds: FloatArray = np.exp(np.clip(logs, self.lows[cells], self.highs[cells]))
        return seconds

    def probability_below(self, seconds: FloatArray) -> FloatArray:
        """Return the probability in [0, 1] that a duration is below `seconds`, shape (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(seconds > 0, np.log(seconds), -np.inf)[:, None]
        low, high = self._standardized(self.lows), self._standardized(self.highs)
        until = self._standardized(np.clip(logs, self.lows, self.highs))
        share = np.exp(_log_ratio(_log_mass(low, until), _log_mass(low, high)))
        below = np.where(logs > self.lows, share, 0.0)
        probability: FloatArray = (np.exp(self.log_mass) * below).sum(axis=1)
        return np.clip(probability, 0.0, 1.0)

    def exceeding(self, seconds: FloatArray) -> "DurationBeliefs":
        """Return the beliefs given that durations exceed `seconds`, shape (n,)."""
        with np.errstate(divide="ignore"):
            logs = np.where(seconds > 0, np.log(np.maximum(seconds, 0.0)), -np.inf)[:, None]
        lows = np.clip(logs, self.lows, self.highs)
        low, high = self._standardized(self.lows), self._standardized(self.highs)
        log_survival = _log_ratio(_log_mass(self._standardized(lows), high), _log_mass(low, high))
        return replace(self, log_mass=_normalized(self.log_mass + log_survival), lows=lows)

    def observing(self, log_seconds: FloatArray, precision: FloatArray) -> "DurationBeliefs":
        """Return the beliefs after a normal observation of each logarithm (Bayes).

        Parameters
        ----------
        log_seconds
            The observed logarithms, shape (n,).
        precision
            Inverse of their variance, shape (n,); 0 means no observation.
        """
        variance = self.deviations**2
        observed, weight = log_seconds[:, None], precision[:, None]
        posterior_variance = variance / (1.0 + variance * weight)
        # In this form large terms cancel, so that far observations stay exact.
        means = self.means + posterior_variance * weight * (observed - self.means)
        deviations = np.sqrt(posterior_variance)
        evidence = -0.5 * (
            np.log1p(variance * weight)
            + weight * (observed - self.means) ** 2 / (1.0 + variance * weight)
        )
        posterior_mass = _log_mass(
            (self.lows - means) / deviations, (self.highs - means) / deviations
        )
        prior_mass = _log_mass(self._standardized(self.lows), self._standardized(self.highs))
        log_mass = self.log_mass + _log_ratio(posterior_mass, prior_mass) + evidence
        return replace(self, log_mass=_normalized(log_mass), means=means, deviations=deviations)

    def share_of(self, precision: FloatArray) -> FloatArray:
        """Return the share of an included observation in these beliefs, shape (n,).

        Parameters
        ----------
        precision
            Precision of the observation, as given to `observing`; 0 means no observation.

        Notes
        -----
        This is its share in the mean of each piece, averaged over the pieces by their present
        probability: far beyond the bounds of a forecast, the observation prevails.
        """
        share: FloatArray = (np.exp(self.log_mass) * self.deviations**2).sum(axis=1) * precision
        return np.clip(share, 0.0, 1.0)

    def _standardized(self, logs: FloatArray) -> FloatArray:
        return (logs - self.means) / self.deviations


@dataclass(frozen=True, slots=True)
class _Side:
    """The pieces of one side of the median, outwards: bounds and normals, shape (n, k + 1)."""

    starts: FloatArray
    ends: FloatArray
    slopes: FloatArray
    offsets: FloatArray

    @classmethod
    def of(cls, bounds: FloatArray, knots: FloatArray) -> "_Side":
        zeros = np.zeros((len(bounds), 1))
        starts = _joined(zeros, bounds)
        # Even a certain duration needs a width, by which it can be divided.
        slopes = np.maximum(np.diff(starts, axis=1) / np.diff(knots), _MIN_DEVIATION)
        offsets = starts[:, :-1] - slopes * knots[:-1]
        # The last piece extends beyond the last knot; it is split there for `with_heavier_tails`.
        return cls(
            starts,
            _joined(starts[:, 1:], zeros + np.inf),
            _joined(slopes, slopes[:, -1:]),
            _joined(offsets, offsets[:, -1:]),
        )


def _joined(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.concatenate([first, second], axis=1)


def _normalized(log_mass: FloatArray) -> FloatArray:
    from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

    normalized: FloatArray = log_mass - special.logsumexp(log_mass, axis=1, keepdims=True)
    return normalized


def _log_ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return the log share of a part; minus infinity for a piece without width."""
    with np.errstate(invalid="ignore"):
        ratio: FloatArray = part - whole
    return np.where(np.isnan(ratio), -np.inf, ratio)


def _log_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the log probability of the standard normal between bounds, exact in both tails."""
    from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

    is_upper = low > 0
    start, end = np.where(is_upper, -high, low), np.where(is_upper, -low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = special.log_ndtr(end)
        mass: FloatArray = whole + np.log1p(-np.exp(special.log_ndtr(start) - whole))
    return mass


def _truncated_quantile(low: FloatArray, high: FloatArray, share: FloatArray) -> FloatArray:
    """Return the point with the given share of a truncated standard normal's mass below it."""
    from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

    is_upper = low > 0
    start = np.where(is_upper, -high, low)
    part = np.where(is_upper, 1.0 - share, share)
    with np.errstate(divide="ignore"):
        mass = np.logaddexp(special.log_ndtr(start), np.log(part) + _log_mass(low, high))
    units = special.ndtri_exp(np.minimum(mass, 0.0))
    inverse: FloatArray = np.where(is_upper, -units, units)
    return inverse
