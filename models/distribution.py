"""The forecast distribution of a duration: calibrated half widths of its log around the median."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from math import copysign, erf, exp, sqrt
from operator import lt
from statistics import NormalDist
from typing import Final

import numpy as np

from models.errors import DamagedForecastError
from models.tables import BoolArray, FloatArray

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Confidence levels at which quantiles are calibrated; between them they are interpolated."""

AT_80: Final = LEVELS.index(0.8)
AT_90: Final = LEVELS.index(0.9)
"""Positions of these levels in `LEVELS`."""

NORMAL_KNOTS: FloatArray = np.array([0.0, *(NormalDist().inv_cdf((1 + c) / 2) for c in LEVELS)])
"""The standard normal's half widths at 0 and at `LEVELS`: abscissae of the calibrated curve."""

NORMAL_90: Final = float(NORMAL_KNOTS[1 + AT_90])
"""The standard normal's half width at 90 %, in deviations."""

_KNOTS: Final[list[float]] = NORMAL_KNOTS.tolist()
_INNER_KNOTS: Final = _KNOTS[1:-1]

MAX_LOG_BOUND = 700.0
"""Largest absolute bound, in log units: beyond it, exponentials overflow or vanish."""


def normal_quantiles(n: int) -> FloatArray:
    """Return the standard normal's quantiles at the midpoints of n equal shares, shape (n,).

    Examples
    --------
    >>> normal_quantiles(2).round(3).tolist()
    [-0.674, 0.674]
    """
    return np.array([NormalDist().inv_cdf((index + 0.5) / n) for index in range(n)])


@dataclass(frozen=True, slots=True)
class ForecastDistribution:
    """Distributions of the duration of new runs, one per row.

    ``log T = log_median +- q(c) scale`` contains a share c of new runs. q is increasing and
    piecewise linear in the standard normal's half width at c, so that intervals are nested. It may
    differ above and below the median.

    Parameters
    ----------
    log_median
        Log of the median duration in seconds, shape (n,).
    scale
        Standard deviation of the log duration before calibration, shape (n,), positive.
    regimes
        The kind of question each row asks (``interpolation``, or the axis it leaves).
    curves
        Calibrated half widths in units of `scale` at `LEVELS`, shape (n, 5), increasing.
    curves_above
        Half widths above the median where they differ; `curves` are then those below it.

    Raises
    ------
    DamagedForecastError
        If a value is not finite, a scale is not positive, a curve is not positive and increasing,
        or a bound is beyond `MAX_LOG_BOUND`.

    Examples
    --------
    >>> curves = NORMAL_KNOTS[None, 1:]
    >>> forecast = ForecastDistribution(np.log([100.0]), np.array([0.1]), ("workers",), curves)
    >>> lower, upper = forecast.interval(0.9)
    >>> round(float(lower[0]), 1), round(float(upper[0]), 1)
    (84.8, 117.9)
    >>> round(float(forecast.quantile(0.95)[0]), 1)
    117.9
    >>> forecast.probability_below(upper).round(3).tolist()
    [0.95]
    """

    log_median: FloatArray
    scale: FloatArray
    regimes: tuple[str, ...]
    curves: FloatArray
    curves_above: FloatArray | None = None

    def __post_init__(self) -> None:
        self._check(self.curves)
        if self.curves_above is not None:
            self._check(self.curves_above)

    def _check(self, curves: FloatArray) -> None:
        if len(self.scale) == 1 and self._is_sound(curves):
            return
        # Values that are not finite fail these comparisons: any comparison with NaN is false.
        scale = self.scale
        bound = np.abs(self.log_median) + 2 * scale * np.add.reduce(curves[:, -1:], axis=1)
        if _all((bound <= MAX_LOG_BOUND) & (scale > 0)):
            if _all(curves[:, :1] > 0) and _all(curves[:, 1:] > curves[:, :-1]):
                return
            raise DamagedForecastError("Calibrated half widths must be positive and increase.")
        if np.isfinite(bound).all() and (scale > 0).all():
            raise DamagedForecastError("The bounds of a forecast are beyond all numbers.")
        raise DamagedForecastError("A forecast is not finite, or its scale is not positive.")

    def _is_sound(self, curves: FloatArray) -> bool:
        """Whether a single row passes all checks: scalars are ten times as fast as arrays."""
        scale, curve = self.scale.item(), curves[0].tolist()
        bound = abs(self.log_median.item()) + 2 * scale * curve[-1]
        is_rising = all(map(lt, [0.0, *curve], curve))
        return is_rising and bound <= MAX_LOG_BOUND and scale > 0

    def median(self) -> FloatArray:
        """Return the median durations in seconds, shape (n,)."""
        return _exp(self._center())

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds in seconds for a new run, each of shape (n,).

        Raises
        ------
        ValueError
            If `confidence` is not within (0, 1).
        """
        if not 0 < confidence < 1:
            raise ValueError(f"A confidence lies between 0 and 1, not at {confidence}.")
        center, score = self._center(), _score((1 + confidence) / 2)
        below, curves_above = self._half_width(score, self.curves), self.curves_above
        above = below if curves_above is None else self._half_width(score, curves_above)
        return _exp(center - below), _exp(center + above)

    def quantile(self, probability: float) -> FloatArray:
        """Return the durations in seconds that a new run stays below with this probability.

        Raises
        ------
        ValueError
            If `probability` is not within (0, 1).
        """
        if not 0 < probability < 1:
            raise ValueError(f"A probability lies between 0 and 1, not at {probability}.")
        score = _score(probability)
        curves = self.curves if score < 0 else self.upper_curves()
        return _exp(self._center() + copysign(1.0, score) * self._half_width(abs(score), curves))

    def upper_curves(self) -> FloatArray:
        """Return the half widths above the median in units of `scale`, shape (n, 5)."""
        return self.curves if self.curves_above is None else self.curves_above

    def probability_below(self, seconds: FloatArray) -> FloatArray:
        """Return the probability in [0, 1] that a new run takes less than `seconds`, shape (n,).

        Times that are not positive have probability 0.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            log_seconds = np.where(seconds > 0, np.log(seconds), -np.inf)
        deviations = (log_seconds - self.log_median) / self.scale
        curves = self.curves
        if self.curves_above is not None:
            curves = np.where(deviations[:, None] > 0, self.curves_above, curves)
        knots = np.concatenate([np.zeros((len(self.scale), 1)), curves], axis=1)
        piece = (np.abs(deviations)[:, None] >= knots[:, 1:-1]).sum(axis=1)
        rows = np.arange(len(deviations))
        slope = np.diff(NORMAL_KNOTS)[piece] / np.diff(knots)[rows, piece]
        score = NORMAL_KNOTS[piece] + slope * (np.abs(deviations) - knots[rows, piece])
        signed = np.sign(deviations) * score
        return np.array([0.5 * (1 + erf(value / sqrt(2))) for value in signed])

    def typical_error(self) -> FloatArray:
        """Return the relative error (a fraction) that half of the new runs stay below, shape (n,).

        This is the forecast's own calibrated estimate of its accuracy for the question asked; a
        held-out error describes the average question of its kind.

        Examples
        --------
        >>> curves = NORMAL_KNOTS[None, 1:]
        >>> forecast = ForecastDistribution(np.zeros(1), np.array([0.1]), ("workers",), curves)
        >>> forecast.typical_error().round(3).tolist()
        [0.07]
        """
        middle = (self.curves[:, 0] + self.upper_curves()[:, 0]) / 2
        return np.expm1(np.minimum(self.scale * middle, 50.0))

    def _center(self) -> FloatArray | float:
        """Return the log medians, as a scalar if there is one row."""
        return self.log_median.item() if len(self.log_median) == 1 else self.log_median

    def _half_width(self, score: float, curves: FloatArray) -> FloatArray | float:
        """Return the half widths at a score, as a scalar if there is one row."""
        piece = min(bisect_right(_INNER_KNOTS, score), len(LEVELS) - 1)
        start, end = _KNOTS[piece], _KNOTS[piece + 1]
        share = (score - start) / (end - start)
        scale: FloatArray | float = self.scale
        right: FloatArray | float = curves[:, piece]
        left: FloatArray | float = curves[:, piece - 1] if piece else 0.0
        if len(self.scale) == 1:
            scale, right = self.scale.item(), curves.item(piece)
            left = curves.item(piece - 1) if piece else 0.0
        return scale * (left + share * (right - left))


def _exp(logs: FloatArray | float) -> FloatArray:
    """Return exponentials as an array; a scalar costs a tenth of an array of one element."""
    if isinstance(logs, float):
        return np.array([exp(logs) if logs <= MAX_LOG_BOUND else np.exp(logs)])
    return np.exp(logs)


def _all(are_true: BoolArray) -> bool:
    """Return `np.all` of an array without the overhead of its wrapper."""
    return bool(np.logical_and.reduce(are_true, axis=None))


@lru_cache(maxsize=1024)
def _score(probability: float) -> float:
    """Return the standard normal's quantile."""
    return NormalDist().inv_cdf(probability)
