"""Whether durations have shifted: a cumulative sum over what each run says beyond the ones before.

Each run is held against what the earlier ones of its configuration let expect (`repetitions`). What
it differs by, its innovation, is standard normal as long as nothing changes, however wrong the
regressor is; a change makes all innovations lean to one side. What no innovation can show is a
change before the first run: there the level of a configuration itself is held against the error
that the regressor admits. An alarm stands as long as the typical run since shows at least a quarter
of the change that raised it: a slow machine that was replaced is no drift for ever.

References: Page (1954), Continuous inspection schemes; Hawkins (1987), Self-starting CUSUM charts;
Siegmund (1985), Sequential Analysis, for the approximation of the run length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, exp, log, log1p, pi
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
_MEDIAN_VARIANCE: Final = pi / 2.0
"""Of the median of normal values over that of their mean."""

_STANDING_SHARE: Final = 0.25
"""Of the change that raised an alarm, what the runs since must still show."""


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
        after the last zero of the larger sum. Where the level of a configuration raised the alarm,
        its first run.
    change_ratio
        Typical ratio of observed to forecast duration since `start` over that of the earlier runs
        of the same configuration (of all where it has none, over 1 where there are none at all);
        of one configuration where its level raised the alarm.
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
    """Return a configuration's median so far in deviations that the regressor admits for it."""
    if level.runs < _LEAST_RUNS_OF_LEVEL:
        return 0.0
    variance = level.model_variance + _MEDIAN_VARIANCE * noise_variance / level.runs
    return float(level.median() / variance**0.5)


@dataclass(frozen=True, slots=True)
class DriftScores:
    """What each run says of a change, as standard normal scores, each of shape (n,).

    `innovations` hold a run against the earlier ones of its configuration, `levels` the median of
    the configuration so far against the error that the regressor admits there; `groups` are the
    numbers of the configurations.
    """

    log_ratios: FloatArray
    groups: NDArray[np.int64]
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
        return DriftScores(nothing, np.empty(0, np.int64), nothing, nothing)
    seen = repetitions(cells, noise)
    rows = list(zip(log_ratios.tolist(), cells, strict=True))
    for ratio, cell in rows[:learned]:
        seen.learn(ratio, cell)
    seen.count_once()
    scored = [_score(seen, *row) for row in rows[learned:]]
    innovations, levels = np.array(scored).T
    groups = np.array([cell.group for cell in cells[learned:]], np.int64)
    return DriftScores(log_ratios[learned:], groups, innovations, levels)


def _score(seen: Repetitions, ratio: float, cell: Cell) -> tuple[float, float]:
    expected = seen.expect(cell)
    units = (ratio - expected.mean) / expected.deviation
    seen.learn(ratio, cell)
    level = seen.level(cell)
    return _normal_score(units, expected.degrees), _level_score(level, seen.noise_variance(level))


@dataclass(frozen=True, slots=True)
class _Alarm:
    """What raised an alarm: the runs `among` all since `start`, slower (1) or faster (-1)."""

    statistic: float
    index: int
    start: int
    sign: float
    among: NDArray[np.bool_]


def chart(scores: DriftScores, thresholds: Thresholds, *, slower_only: bool = False) -> DriftChart:
    """Return the cumulative sums of scores up to the alarm, or to the end without one.

    An alarm that the runs after it do not bear out is none; the sums begin anew behind it.

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
    >>> same = np.zeros(6, np.int64)
    >>> scores = DriftScores(0.1 * innovations, same, innovations, np.zeros(6))
    >>> found = chart(scores, Thresholds(5.0, 4.5))
    >>> found.first_alarm, found.start
    (4, 2)
    """
    first = 0
    while True:
        found = _follow(scores, thresholds, first, slower_only=slower_only)
        if isinstance(found, DriftChart):
            return found
        change = _change(scores, found.start, found.among)
        raised = _change(scores, found.start, found.among, found.index + 1)
        if found.sign * change > max(_STANDING_SHARE * found.sign * raised, 0.0):
            statistic, threshold = found.statistic, thresholds.sums
            return DriftChart(statistic, threshold, found.index, found.start, exp(change))
        first = found.index + 1


def _follow(
    scores: DriftScores, thresholds: Thresholds, first: int, *, slower_only: bool
) -> _Alarm | DriftChart:
    """Return the next alarm from a run on, or the sums at the end."""
    sums, starts = [0.0, 0.0], [first, first]
    signs = (1.0,) if slower_only else (1.0, -1.0)
    everything = np.full(len(scores.groups), True)  # noqa: FBT003 - numpy's way
    pairs = zip(scores.innovations[first:].tolist(), scores.levels[first:].tolist(), strict=True)
    for index, (innovation, level) in enumerate(pairs, first):
        for side, sign in enumerate(signs):
            sums[side] = max(sums[side] + sign * innovation - SLACK, 0.0)
            if sums[side] == 0.0:
                starts[side] = index + 1
            if sums[side] > thresholds.sums:
                start = _change_point(sign * scores.innovations, starts[side], index)
                return _Alarm(sums[side], index, start, sign, everything)
            if sign * level > thresholds.level:
                statistic = max(sums[side], thresholds.sums)
                among = scores.groups == scores.groups[index]
                return _Alarm(statistic, index, int(np.argmax(among)), sign, among)
    side = int(sums[1] > sums[0])
    change = _change(scores, starts[side], everything)
    return DriftChart(sums[side], thresholds.sums, None, starts[side], exp(change))


def _change_point(scores: FloatArray, first: int, last: int) -> int:
    """Return since which run a shift of any size is most likely, between two runs."""
    since = np.cumsum(scores[first : last + 1][::-1])[::-1]
    gains = since / np.sqrt(np.arange(len(since), 0, -1))
    return first + int(np.argmax(gains))


def _change(
    scores: DriftScores, start: int, among: NDArray[np.bool_], end: int | None = None
) -> float:
    """Return the median change of the runs in [start, end) against what was usual before."""
    ratios, groups = scores.log_ratios[among], scores.groups[among]
    rows = np.flatnonzero(among)
    before = rows < start
    since = ~before if end is None else ~before & (rows < end)
    if not since.any():
        return 0.0
    otherwise = float(np.median(ratios[before])) if before.any() else 0.0
    usual = {
        group: float(np.median(ratios[before & (groups == group)]))
        for group in set(groups[before].tolist())
    }
    normal = [usual.get(group, otherwise) for group in groups[since].tolist()]
    return float(np.median(ratios[since] - normal))
