"""Whether durations have shifted: a cumulative sum over what each run says beyond the ones before.

Each run is held against what the earlier ones of its configuration let expect (`repetitions`). What
it differs by, its innovation, is standard normal as long as nothing changes, however wrong the
regressor is; a change makes all innovations lean to one side. What no innovation can show is a
change before the first run: there the level of a configuration itself is held against the error
that the regressor admits.

References: Page (1954), Continuous inspection schemes; Hawkins (1987), Self-starting CUSUM charts;
Siegmund (1985), Sequential Analysis, for the approximation of the run length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, exp, log, log1p
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.decisions.repetitions import Cell, Level, Repetitions, repetitions

FloatArray = NDArray[np.float64]

SLACK: Final = 0.5
"""Half the shift, in standard deviations of one run, that is found soonest."""

_BOUNDARY: Final = 1.166
"""Siegmund's correction for the overshoot of a discrete sum."""

_LARGEST_SCORE: Final = 4.0
_LEVELS_SHARE: Final = 0.1
"""Of the probability of a false alarm; a normal quantile hardly depends on it."""

_LEAST_RUNS_OF_LEVEL: Final = 3


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


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the alarm is raised: `sums` for the cumulative sums, `level` for a level's score."""

    sums: float
    level: float


def thresholds_for(false_alarm_probability: float, runs: int, *, sides: int = 2) -> Thresholds:
    """Return the thresholds that `runs` runs without a change pass with this probability.

    A tenth of the probability is the levels', the rest the sums'. The number of runs until a false
    alarm of a sum is nearly exponential with the mean of Siegmund's approximation,
    ``(exp(2kb) - 2kb - 1) / (2 k^2)``, b = threshold + 1.166, k = `SLACK`, for one side. The
    levels share theirs over all runs and sides (Bonferroni).

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
    >>> found = thresholds_for(0.02, 2000)
    >>> round(found.sums, 1), round(found.level, 2)
    (10.4, 4.89)
    """
    of_levels = _LEVELS_SHARE * false_alarm_probability
    of_sums = false_alarm_probability - of_levels
    wanted = sides * runs / -log1p(-of_sums) * 2.0 * SLACK**2
    exponent = log(wanted + 1.0)
    for _ in range(50):
        exponent = log(wanted + 1.0 + exponent)
    level = -NormalDist().inv_cdf(of_levels / (sides * runs))
    return Thresholds(max(exponent / (2.0 * SLACK) - _BOUNDARY, 1.0), level)


def _normal_score(units: float, degrees: float) -> float:
    from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

    tail = float(special.stdtr(degrees, -abs(units)))
    score = -float(special.ndtri(max(tail, 1e-12)))
    return copysign(min(score, _LARGEST_SCORE), units)


def _level_score(level: Level, noise_variance: float) -> float:
    """Return a configuration's mean so far in deviations that the regressor admits for it."""
    if level.runs < _LEAST_RUNS_OF_LEVEL:
        return 0.0
    variance = level.model_variance + noise_variance / level.runs
    return float(level.total / level.runs / variance**0.5)


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
    log_ratios: FloatArray,
    cells: Sequence[Cell],
    noise: float | None,
    *,
    learned: int = 0,
) -> DriftScores:
    """Return what each run says of a change.

    Parameters
    ----------
    log_ratios
        Log of observed over forecast duration, in the order of arrival, shape (n,).
    cells
        The configuration of each run, shape (n,).
    noise
        Usual log standard deviation of repetitions where it is known; half of the median scale
        otherwise.
    learned
        How many of the first runs the regressor has seen itself: they tell levels and noise, but
        are not scored. The scores are of shape (n - learned,).
    """
    if len(cells) <= learned:
        nothing = np.empty(0)
        return DriftScores(nothing, nothing, nothing)
    seen = repetitions(cells, noise)
    rows = list(zip(log_ratios.tolist(), cells, strict=True))
    for ratio, cell in rows[:learned]:
        seen.learn(ratio, cell)
    seen.count_once()
    scored = [_score(seen, *row) for row in rows[learned:]]
    innovations, levels = np.array(scored).T
    return DriftScores(log_ratios[learned:], innovations, levels)


def _score(seen: Repetitions, ratio: float, cell: Cell) -> tuple[float, float]:
    expected = seen.expect(cell)
    units = (ratio - expected.mean) / expected.deviation
    seen.learn(ratio, cell)
    level = seen.level(cell)
    return _normal_score(units, expected.degrees), _level_score(level, seen.noise_variance(level))


def chart(scores: DriftScores, thresholds: Thresholds, *, slower_only: bool = False) -> DriftChart:
    """Return the cumulative sums of scores up to the alarm, or to the end without one.

    Parameters
    ----------
    scores
        As `score_runs` returns them.
    thresholds
        As `thresholds_for` returns them.
    slower_only
        Whether runs that became faster are no cause for alarm.

    Examples
    --------
    >>> innovations = np.array([0.1, -0.3, 2.0, 3.0, 2.5, 3.5])
    >>> scores = DriftScores(0.1 * innovations, innovations, np.zeros(6))
    >>> found = chart(scores, Thresholds(5.0, 4.5))
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
            if sums[side] > thresholds.sums:
                start = _change_point(sign * scores.innovations, starts[side], index)
                return _alarm(scores, sums[side], thresholds.sums, index, start)
            if sign * level > thresholds.level:
                statistic = max(sums[side], thresholds.sums)
                return _alarm(scores, statistic, thresholds.sums, index, 0)
    side = int(sums[1] > sums[0])
    change = _change(scores.log_ratios, starts[side])
    return DriftChart(sums[side], thresholds.sums, None, starts[side], change)


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
