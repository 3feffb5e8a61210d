"""Runs that are occasionally much slower than usual: the tails that repetitions show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.distribution import AT_90, LEVELS, NORMAL_KNOTS, normal_quantiles
from models.tables import FloatArray

_FEWEST = 20
"""Fewest repetitions that can show a tail."""

_PRIOR_DEVIATIONS = normal_quantiles(20)
"""Prior repetitions with normal noise, added to the measured ones."""

_HEAVY_RATIO = 1.3
"""Ratio of the 95 % quantile to the normal one above which a side is heavy."""

_MIN_RATIO = 1.001


@dataclass(frozen=True, slots=True)
class NoiseTails:
    """How far runs of one configuration lie from their usual duration, if noise is not normal.

    On a shared machine, one run in five may take half as long again, whatever the configuration. A
    robust deviation ignores such runs, as it must ignore accidents.

    Parameters
    ----------
    below, above
        Half widths of the noise at `LEVELS` on each side, in log units: positive, increasing.

    References
    ----------
    Gneiting, Balabdaoui, Raftery (2007), Probabilistic forecasts, calibration and sharpness, J. R.
    Statist. Soc. B 69(2): intervals that hold what they promise, before they are narrow.
    """

    below: tuple[float, ...]
    above: tuple[float, ...]

    @classmethod
    def learn(cls, deviations: FloatArray, scale: float) -> "NoiseTails | None":
        """Return the tails of repetitions, None unless they are many and heavier than normal.

        They are the quantiles of the deviations, to which twenty of normal noise are added; the
        largest deviation is left out, since it may be an accident.

        Parameters
        ----------
        deviations
            Log durations of repetitions less those of their configurations, scaled to single runs
            (`single_run_deviations`) and to the usual noise, shape (n,).
        scale
            The robust standard deviation of that noise, not negative.

        Examples
        --------
        >>> mixed = np.concatenate([np.linspace(-0.1, 0.1, 80), np.full(20, 0.5)])
        >>> tails = NoiseTails.learn(mixed, 0.1)
        >>> [round(bound, 2) for bound in tails.above]
        [0.08, 0.5, 0.5, 0.5, 0.5]
        >>> NoiseTails.learn(mixed[:80], 0.1) is None
        True
        """
        n = len(deviations) - 1
        if n < _FEWEST:
            return None
        kept = np.delete(deviations, np.argmax(np.abs(deviations)))
        augmented = np.concatenate([kept, scale * _PRIOR_DEVIATIONS])
        tails = (1 - np.array(LEVELS)) / 2
        below, above = -np.quantile(augmented, tails), np.quantile(augmented, 1 - tails)
        normal = scale * NORMAL_KNOTS[1:]
        if max(below[AT_90], above[AT_90]) <= _HEAVY_RATIO * normal[AT_90]:
            return None
        return cls(_rising(below, normal), _rising(above, normal))

    def widened(
        self, noise: FloatArray, below: FloatArray, above: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return half widths at least as wide as the noise alone, each of shape (n, 5).

        Parameters
        ----------
        noise
            The noise of each row relative to the usual one, in units of its scale, shape (n,).
        below, above
            Half widths in units of the scale; `below` holds for both sides if `above` is None.
        """
        sides = (below, self.below), (below if above is None else above, self.above)
        lower, upper = (np.maximum(width, noise[:, None] * np.array(tail)) for width, tail in sides)
        return lower, upper


def _rising(bounds: FloatArray, normal: FloatArray) -> tuple[float, ...]:
    """Return bounds no narrower than half the normal ones, each above the previous one."""
    rising: list[float] = []
    for bound in np.maximum(bounds, normal / 2).tolist():
        rising.append(max(bound, rising[-1] * _MIN_RATIO) if rising else bound)
    return tuple(rising)


def single_run_deviations(deviations: Sequence[FloatArray]) -> FloatArray:
    """Return deviations from the means of configurations, scaled to the variance of single runs.

    A deviation from the mean of c runs has ``(c - 1) / c`` of a run's variance.

    Parameters
    ----------
    deviations
        The deviations of each configuration; those with a single run are left out.

    Examples
    --------
    >>> single_run_deviations([np.zeros(1), np.array([-0.1, 0.1])]).round(3).tolist()
    [-0.141, 0.141]
    """
    scaled = [row * (len(row) / (len(row) - 1)) ** 0.5 for row in deviations if len(row) > 1]
    return np.concatenate([np.zeros(0), *scaled])
