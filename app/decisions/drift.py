"""Whether durations have shifted: a cumulative sum over what each run says beyond the ones before.

Each run's log ratio of observed to forecast duration is ``r = b + e``: the regressor's error for
the configuration, ``b ~ N(0, model variance)``, common to all runs of the configuration, and the
noise of one run, ``e ~ N(0, noise variance)``. The innovation of a run (what it differs by from
what the earlier runs of its configuration let expect) is standard normal as long as nothing
changes, however wrong the regressor is; a change makes all innovations lean to one side. What no
innovation can show is a change before the first run: there the level of a configuration itself is
held against the error that the regressor admits.

References: Page (1954), Continuous inspection schemes; Hawkins (1987), Self-starting CUSUM charts;
Siegmund (1985), Sequential Analysis, for the approximation of the run length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import copysign, exp, log
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]

SLACK: Final = 0.5
"""Half the shift, in standard deviations of one run, that is found soonest."""

_BOUNDARY: Final = 1.166
"""Siegmund's correction for the overshoot of a discrete sum."""

_LARGEST_SCORE: Final = 4.0
_LEVEL_ALARM: Final = 4.5
_LEAST_RUNS_OF_LEVEL: Final = 3
_NOISE_WEIGHT: Final = 6.0
"""How many repetitions the given noise counts for, against the noise that is seen."""

_LEAST_NOISE_SHARE: Final = 0.3
_MOST_NOISE_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class DriftChart:
    """The state of a cumulative sum after a sequence of runs.

    Parameters
    ----------
    statistic
        The larger of the two sums (slower, faster) after the last run, in standard deviations.
    threshold
        Where the alarm is raised.
    first_alarm
        Index of the first run at which a sum passed the threshold, None without one.
    start
        Index of the run since which the durations have most likely shifted; without alarm the run
        after the last zero of the larger sum.
    change_ratio
        Typical ratio of observed to forecast duration since `start` over that of the runs before
        (over 1 where there are none before).
    """

    statistic: float
    threshold: float
    first_alarm: int | None
    start: int
    change_ratio: float

    @property
    def has_alarm(self) -> bool:
        """Whether the alarm was raised."""
        return self.first_alarm is not None


def threshold_for(false_alarm_probability: float, runs: int, *, sides: int = 2) -> float:
    """Return the threshold that `runs` runs without a change pass with this probability.

    The number of runs until a false alarm is nearly exponential with the mean of Siegmund's
    approximation, ``(exp(2kb) - 2kb - 1) / (2 k^2)``, b = threshold + 1.166, k = `SLACK`, for
    one side.

    Parameters
    ----------
    false_alarm_probability
        In (0, 1), over all of the runs.
    runs
        At least 1.
    sides
        1 where only slower runs count, 2 where both do.

    Examples
    --------
    >>> round(threshold_for(0.01, 2000), 1), round(threshold_for(0.01, 100, sides=1), 1)
    (11.0, 7.3)
    """
    wanted = sides * runs / -log(1.0 - false_alarm_probability) * 2.0 * SLACK**2
    exponent = log(wanted + 1.0)
    for _ in range(50):
        exponent = log(wanted + 1.0 + exponent)
    return max(exponent / (2.0 * SLACK) - _BOUNDARY, 1.0)


@dataclass(slots=True)
class _Level:
    """What the runs of one configuration say of the regressor's error there."""

    model_variance: float
    variance_ratio: float
    previous: float
    mean: float = 0.0
    total: float = 0.0
    runs: int = 0


@dataclass(slots=True)
class _Noise:
    """The noise of one run: a variance and the number of repetitions it rests on."""

    variance: float
    weight: float = _NOISE_WEIGHT
    levels: dict[int, _Level] = field(default_factory=dict)

    def score(self, ratio: float, scale: float, group: int) -> tuple[float, float]:
        """Return the normal scores of a run's innovation and of its level; learn from the run."""
        level = self.levels.get(group)
        if level is None:
            model = max(scale * scale - self.variance, 0.05 * scale * scale)
            level = self.levels[group] = _Level(model, model / self.variance, ratio)
        else:
            self._learn((ratio - level.previous) ** 2 / 2.0)
        spread = 1.0 + level.variance_ratio
        innovation = ratio - level.mean
        score = _normal_score(innovation / (self.variance * spread) ** 0.5, self.weight)
        level.mean += level.variance_ratio / spread * innovation
        level.variance_ratio /= spread
        level.previous = ratio
        return score, self._level_score(level, ratio)

    def _level_score(self, level: _Level, ratio: float) -> float:
        level.total += ratio
        level.runs += 1
        if level.runs < _LEAST_RUNS_OF_LEVEL:
            return 0.0
        variance = level.model_variance + self.variance / level.runs
        return float(level.total / level.runs / variance**0.5)

    def _learn(self, square: float) -> None:
        # Differences of successive runs see a shift once at most, and an accident is limited:
        # neither must look like noise.
        limited = min(square, 9.0 * self.variance)
        self.variance = (self.weight * self.variance + limited) / (self.weight + 1.0)
        self.weight += 1.0


def _normal_score(units: float, degrees: float) -> float:
    tail = float(special.stdtr(degrees, -abs(units)))
    score = -float(special.ndtri(max(tail, 1e-12)))
    return copysign(min(score, _LARGEST_SCORE), units)


@dataclass(frozen=True, slots=True)
class DriftScores:
    """What each run says of a change, as standard normal scores, each of shape (n,).

    `innovations` hold a run against the earlier ones of its configuration, `levels` the mean of
    the configuration so far against the error that the regressor admits there.
    """

    log_ratios: FloatArray
    innovations: FloatArray
    levels: FloatArray


def score_runs(
    log_ratios: FloatArray, scales: FloatArray, groups: Sequence[int], noise: float | None
) -> DriftScores:
    """Return what each run says of a change.

    Parameters
    ----------
    log_ratios
        Log of observed over forecast duration, in the order of arrival, shape (n,).
    scales
        Standard deviation of the forecast's log duration for a new run, shape (n,), positive.
    groups
        A number for each run's configuration, shape (n,).
    noise
        Log standard deviation of repetitions where it is known; half of the median scale otherwise.
    """
    if not len(scales):
        return DriftScores(np.empty(0), np.empty(0), np.empty(0))
    typical = float(np.median(scales))
    start = typical / 2.0 if noise is None else noise
    start = min(max(start, _LEAST_NOISE_SHARE * typical), _MOST_NOISE_SHARE * typical)
    state = _Noise(start * start)
    scored = [
        state.score(ratio, scale, group)
        for ratio, scale, group in zip(log_ratios.tolist(), scales.tolist(), groups, strict=True)
    ]
    innovations, levels = np.array(scored).T
    return DriftScores(log_ratios, innovations, levels)


def chart(scores: DriftScores, threshold: float, *, slower_only: bool = False) -> DriftChart:
    """Return the cumulative sums of scores up to the alarm, or to the end without one.

    Parameters
    ----------
    scores
        As `score_runs` returns them.
    threshold
        As `threshold_for` returns it.
    slower_only
        Whether runs that became faster are no cause for alarm.

    Examples
    --------
    >>> innovations = np.array([0.1, -0.3, 2.0, 3.0, 2.5, 3.5])
    >>> found = chart(DriftScores(0.1 * innovations, innovations, np.zeros(6)), 5.0)
    >>> found.first_alarm, found.start
    (4, 2)
    """
    sums, starts = [0.0, 0.0], [0, 0]
    signs = (1.0,) if slower_only else (1.0, -1.0)
    pairs = zip(scores.innovations.tolist(), scores.levels.tolist(), strict=True)
    for index, (innovation, level) in enumerate(pairs):
        for side, sign in enumerate(signs):
            sums[side] = max(sums[side] + sign * innovation - SLACK, 0.0)
            if sums[side] == 0.0:
                starts[side] = index + 1
            if sums[side] > threshold:
                start = _change_point(sign * scores.innovations, starts[side], index)
                return _alarm(scores, sums[side], threshold, index, start)
            if sign * level > _LEVEL_ALARM:
                return _alarm(scores, max(sums[side], threshold), threshold, index, 0)
    side = int(sums[1] > sums[0])
    change = _change(scores.log_ratios, starts[side])
    return DriftChart(sums[side], threshold, None, starts[side], change)


def _alarm(
    scores: DriftScores, statistic: float, threshold: float, index: int, start: int
) -> DriftChart:
    change = _change(scores.log_ratios, start)
    return DriftChart(statistic, threshold, index, start, change)


def _change_point(scores: FloatArray, first: int, last: int) -> int:
    """Return since which run a shift of any size is most likely, between two runs."""
    since = np.cumsum(scores[first : last + 1][::-1])[::-1]
    gains = since / np.sqrt(np.arange(len(since), 0, -1))
    return first + int(np.argmax(gains))


def _change(log_ratios: FloatArray, start: int) -> float:
    since, before = log_ratios[start:], log_ratios[:start]
    if not len(since):
        return 1.0
    return exp(float(np.median(since)) - (float(np.median(before)) if len(before) else 0.0))
