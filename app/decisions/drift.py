"""Whether durations have shifted: a cumulative sum of each run's deviation from earlier runs.

Each run is compared with what the earlier runs of its configuration predict (`repetitions`). Its
standardised deviation, the innovation, is standard normal as long as nothing changes, however wrong
the regressor is; after a change, innovations lean to one side. Innovations cannot show a change
before the first run, so the level of a configuration is also compared with the error that the
regressor admits. An alarm stands as long as the typical run since then shows at least a quarter of
the change that raised it, so that a slow machine that was replaced is not reported for ever.

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
"""Half of the shift, in standard deviations of one run, that is detected fastest."""

_BOUNDARY: Final = 1.166
"""Siegmund's correction for the overshoot of a discrete sum."""

_LARGEST_SCORE: Final = 4.0
_LEVELS_SHARE: Final = 0.1
"""Share of levels in the false alarm probability; a normal quantile hardly depends on it."""

_MIN_RUNS_OF_LEVEL: Final = 3
_MEDIAN_VARIANCE: Final = pi / 2.0
"""Variance of the median of normal values over that of their mean."""

_STANDING_SHARE: Final = 0.25
"""Share of the change at an alarm that the runs since then must still show."""


@dataclass(frozen=True, slots=True)
class DriftChart:
    """The state of a cumulative sum after a sequence of runs.

    Parameters
    ----------
    statistic
        The larger of the two sums (slower, faster) after the last run, in standard deviations.
    threshold
        Value of the statistic above which the alarm is raised.
    first_alarm
        Index of the run that raised the alarm, None without one.
    start
        Index of the run since which durations have most likely shifted; without an alarm, the run
        after the last zero of the larger sum. Where the level of a configuration raised the alarm,
        the first run of that configuration.
    change_ratio
        Typical ratio of observed to forecast duration since `start`, over that of the earlier runs
        of the same configuration (of all runs where it has none; over 1 where there are none at
        all). Where the level of a configuration raised the alarm, of its runs alone.
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
    """Alarm thresholds: `sums` for the cumulative sums, `level` for the score of a level."""

    sums: float
    level: float


def thresholds_for(false_alarm_probability: float, runs: int, *, sides: int = 2) -> Thresholds:
    """Return the thresholds that `runs` runs without a change exceed with this probability.

    A tenth of the probability is for levels, the rest for sums. The number of runs until a false
    alarm of a one-sided sum is nearly exponential, with the mean by Siegmund's approximation,
    ``(exp(2kb) - 2kb - 1) / (2 k^2)``, b = threshold + 1.166, k = `SLACK`. The share of the levels
    is divided among all runs and sides (Bonferroni).

    Parameters
    ----------
    false_alarm_probability
        In (0, 1), over all of the runs.
    runs
        At least 1.
    sides
        1 if only slower runs count, 2 if faster ones do too.

    Examples
    --------
    >>> found = thresholds_for(0.02, 2000)
    >>> round(found.sums, 1), round(found.level, 2)
    (10.4, 4.89)
    """
    levels_probability = _LEVELS_SHARE * false_alarm_probability
    sums_probability = false_alarm_probability - levels_probability
    scaled_run_length = sides * runs / -log1p(-sums_probability) * 2.0 * SLACK**2
    exponent = log(scaled_run_length + 1.0)
    for _ in range(50):
        exponent = log(scaled_run_length + 1.0 + exponent)
    level = -NormalDist().inv_cdf(levels_probability / (sides * runs))
    return Thresholds(max(exponent / (2.0 * SLACK) - _BOUNDARY, 1.0), level)


def _normal_score(standardized: float, degrees: float) -> float:
    from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

    tail = float(special.stdtr(degrees, -abs(standardized)))
    score = -float(special.ndtri(max(tail, 1e-12)))
    return copysign(min(score, _LARGEST_SCORE), standardized)


def _level_score(level: Level, noise_variance: float) -> float:
    """Return a configuration's median so far, in units of the deviation that is admitted for it.

    It is 0 where somebody acknowledged the level: innovations show what changes after that.
    """
    if level.runs < _MIN_RUNS_OF_LEVEL or level.is_acknowledged:
        return 0.0
    variance = level.model_variance + _MEDIAN_VARIANCE * noise_variance / level.runs
    return float(level.median() / variance**0.5)


@dataclass(frozen=True, slots=True)
class DriftScores:
    """Evidence of a change from each run, as standard normal scores, each of shape (n,).

    `innovations` compare a run with the earlier ones of its configuration, `levels` the median of
    the configuration so far with the error that the regressor admits there; `groups` are the
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
    acknowledged: int = 0,
) -> DriftScores:
    """Return the evidence of a change from each run.

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
        How many of the first runs are normal, as the regressor was fitted on them or they were
        acknowledged: they determine levels and noise but are not scored. The scores are of shape
        (n - learned,).
    acknowledged
        How many of these, the first ones, were acknowledged: each configuration's level is theirs,
        wherever the regressor has it.
    """
    if len(cells) <= learned:
        empty = np.empty(0)
        return DriftScores(empty, np.empty(0, np.int64), empty, empty)
    state = repetitions(cells, noise)
    rows = list(zip(log_ratios.tolist(), cells, strict=True))
    for ratio, cell in rows[:acknowledged]:
        state.learn_acknowledged(ratio, cell)
    for ratio, cell in rows[acknowledged:learned]:
        state.learn(ratio, cell)
    state.count_once()
    scored = [_score(state, *row) for row in rows[learned:]]
    innovations, levels = np.array(scored).T
    groups = np.array([cell.group for cell in cells[learned:]], np.int64)
    return DriftScores(log_ratios[learned:], groups, innovations, levels)


def _score(state: Repetitions, ratio: float, cell: Cell) -> tuple[float, float]:
    expected = state.expect(cell)
    standardized = (ratio - expected.mean) / expected.deviation
    state.learn(ratio, cell)
    level = state.level(cell)
    return _normal_score(standardized, expected.degrees), _level_score(
        level, state.noise_variance(level)
    )


@dataclass(frozen=True, slots=True)
class _Alarm:
    """An alarm: raised by the masked runs (`mask`) since `start`; sign 1 slower, -1 faster."""

    statistic: float
    index: int
    start: int
    sign: float
    mask: NDArray[np.bool_]


def chart(scores: DriftScores, thresholds: Thresholds, *, slower_only: bool = False) -> DriftChart:
    """Return the cumulative sums of scores up to the alarm, or to the end without one.

    An alarm that later runs do not confirm is dropped, and the sums restart after it.

    Parameters
    ----------
    scores
        As `score_runs` returns them.
    thresholds
        As `thresholds_for` returns them.
    slower_only
        Whether faster runs raise no alarm.

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
        outcome = _next_alarm(scores, thresholds, first, slower_only=slower_only)
        if isinstance(outcome, DriftChart):
            return outcome
        change = _change(scores, outcome.start, outcome.mask)
        change_at_alarm = _change(scores, outcome.start, outcome.mask, outcome.index + 1)
        if outcome.sign * change > max(_STANDING_SHARE * outcome.sign * change_at_alarm, 0.0):
            statistic, threshold = outcome.statistic, thresholds.sums
            return DriftChart(statistic, threshold, outcome.index, outcome.start, exp(change))
        first = outcome.index + 1


def _next_alarm(
    scores: DriftScores, thresholds: Thresholds, first: int, *, slower_only: bool
) -> _Alarm | DriftChart:
    """Return the next alarm from the run `first` on, or the sums at the end."""
    sums, starts = [0.0, 0.0], [first, first]
    signs = (1.0,) if slower_only else (1.0, -1.0)
    all_runs = np.full(len(scores.groups), True)  # noqa: FBT003 - numpy's way
    pairs = zip(scores.innovations[first:].tolist(), scores.levels[first:].tolist(), strict=True)
    for index, (innovation, level) in enumerate(pairs, first):
        for side, sign in enumerate(signs):
            sums[side] = max(sums[side] + sign * innovation - SLACK, 0.0)
            if sums[side] == 0.0:
                starts[side] = index + 1
            if sums[side] > thresholds.sums:
                start = _change_point(sign * scores.innovations, starts[side], index)
                return _Alarm(sums[side], index, start, sign, all_runs)
            if sign * level > thresholds.level:
                statistic = max(sums[side], thresholds.sums)
                mask = scores.groups == scores.groups[index]
                return _Alarm(statistic, index, int(np.argmax(mask)), sign, mask)
    side = int(sums[1] > sums[0])
    change = _change(scores, starts[side], all_runs)
    return DriftChart(sums[side], thresholds.sums, None, starts[side], exp(change))


def _change_point(scores: FloatArray, first: int, last: int) -> int:
    """Return the most likely first run, between two runs, of a shift of any size."""
    tail_sums = np.cumsum(scores[first : last + 1][::-1])[::-1]
    standardized = tail_sums / np.sqrt(np.arange(len(tail_sums), 0, -1))
    return first + int(np.argmax(standardized))


def _change(
    scores: DriftScores, start: int, mask: NDArray[np.bool_], end: int | None = None
) -> float:
    """Return the median change of the runs in [start, end) relative to the earlier ones."""
    ratios, groups = scores.log_ratios[mask], scores.groups[mask]
    rows = np.flatnonzero(mask)
    before = rows < start
    since = ~before if end is None else ~before & (rows < end)
    if not since.any():
        return 0.0
    overall = float(np.median(ratios[before])) if before.any() else 0.0
    known, baselines = _medians(ratios[before], groups[before])
    places = np.searchsorted(known, groups[since])
    is_known = np.append(known, -1)[places] == groups[since]
    expected = np.where(is_known, np.append(baselines, overall)[places], overall)
    return float(np.median(ratios[since] - expected))


def _medians(values: FloatArray, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the groups in rising order and the median of each.

    Examples
    --------
    >>> groups, medians = _medians(np.array([5.0, 1.0, 3.0, 2.0]), np.array([7, 4, 7, 4]))
    >>> groups.tolist(), medians.tolist()
    ([4, 7], [1.5, 4.0])
    """
    order = np.lexsort((values, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    counts = np.diff(np.append(starts, len(order)))
    lower, upper = (values[order[starts + (counts - 1 + odd) // 2]] for odd in (0, 1))
    return groups[order[starts]], (lower + upper) / 2.0
