"""A regressor's error at each configuration and the noise of one run, learned from earlier runs.

Each run's log ratio of observed to forecast duration is ``r = b + e``: the regressor's error for
the configuration, ``b ~ N(0, model variance)``, common to all runs of the configuration, and the
noise of one run, ``e ~ N(0, noise variance)``. Both are updated run by run: b by its posterior,
the noise variance by the differences of successive runs of a configuration, which a shift affects
only once. A new run is expected at the posterior mean of b, with Student's t for the estimated
noise: narrow where a configuration was repeated, as wide as the forecast where it was not. Where
short runs are noisier than long ones (seconds of jitter), each configuration has its own multiple
of the usual noise, which the evidence of its own runs adjusts (`moderation`).

References: Gelman et al. (2013), Bayesian Data Analysis, 3rd ed., section 2.5 and 5.4; von Neumann
et al. (1941), The mean square successive difference, Annals of Mathematical Statistics 12(2).
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from app.decisions.moderation import Moderation, Squares

_NOISE_WEIGHT: Final = 6.0
"""How many repetitions the given noise counts as, against the observed noise."""

_DIFFERENCE_WEIGHT: Final = 2.0 / 3.0
"""Degrees of freedom of one successive difference (von Neumann et al. 1941)."""

_MAX_SQUARE: Final = 9.0
"""Largest squared difference that the noise learns, over the present variance."""

CHANGE_DEVIATION: Final = 0.5
"""Prior standard deviation of the log ratio of an acknowledged change."""

_MIN_NOISE_SHARE: Final = 0.3
_MAX_NOISE_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Cell:
    """All runs of one configuration, a cell in the terms of the analysis of variance.

    Parameters
    ----------
    group
        The configuration's number.
    scale
        Log deviation of the forecast for a new run, positive.
    noise_factor
        Variance of the noise of its runs over the usual one, positive.
    """

    group: int
    scale: float
    noise_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Expectation:
    """The log ratio of a new run that the earlier runs predict.

    Parameters
    ----------
    mean, deviation
        Mean and deviation of the new run's log ratio; `deviation` is positive.
    degrees
        Degrees of freedom of Student's t.
    runs
        Number of earlier runs of the configuration.
    """

    mean: float
    deviation: float
    degrees: float
    runs: int

    def probability_above(self, ratio: float) -> float:
        """Return the probability that a new run's log ratio is this large or larger.

        Examples
        --------
        >>> round(Expectation(0.0, 0.1, 30.0, 5).probability_above(0.2), 3)
        0.027
        """
        from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

        return float(special.stdtr(self.degrees, -(ratio - self.mean) / self.deviation))

    def quantile(self, probability: float) -> float:
        """Return the log ratio that a new run stays below with a probability in (0, 1)."""
        from scipy import special  # noqa: PLC0415 - heavy: not before it is needed

        units = float(special.stdtrit(self.degrees, probability))
        return self.mean + units * self.deviation


@dataclass(slots=True)
class Level:
    """The regressor's error at one configuration, as learned from its runs.

    `variance_ratio` is the posterior variance of the error over that of the usual noise, `mean` its
    posterior mean; `ratios` are the log ratios of its runs in ascending order, `previous` is the
    latest one; `squares` are those of successive differences. Where its first run was acknowledged,
    the level is the run's, not the regressor's.
    """

    model_variance: float
    noise_factor: float
    variance_ratio: float
    previous: float | None = None
    mean: float = 0.0
    ratios: list[float] = field(default_factory=list)
    squares: Squares = field(default_factory=Squares)
    is_acknowledged: bool = False

    @property
    def runs(self) -> int:
        """How many runs the level rests on."""
        return len(self.ratios)

    def median(self) -> float:
        """Return the median log ratio; there must be at least one run."""
        middle = len(self.ratios) // 2
        return (self.ratios[middle] + self.ratios[-middle - 1]) / 2.0


@dataclass(slots=True)
class Repetitions:
    """The noise of one run, and the level of each configuration.

    Parameters
    ----------
    variance
        Variance of the usual noise, as a squared log deviation, positive; first assumed.
    weight
        How many repetitions it rests on.
    """

    variance: float
    weight: float = _NOISE_WEIGHT
    levels: dict[int, Level] = field(default_factory=dict)
    moderation: Moderation = field(default_factory=Moderation)

    def level(self, cell: Cell) -> Level:
        """Return the level of a configuration, a new one if it has had no run."""
        if cell.group not in self.levels:
            variance = cell.scale * cell.scale
            model_variance = max(variance - self.variance * cell.noise_factor, 0.05 * variance)
            self.levels[cell.group] = Level(
                model_variance, cell.noise_factor, model_variance / self.variance
            )
        return self.levels[cell.group]

    def expect(self, cell: Cell) -> Expectation:
        """Return the expected log ratio of a new run of a configuration."""
        level = self.level(cell)
        variance = self.variance * level.variance_ratio + self.noise_variance(level)
        degrees = min(self.weight, self.moderation.degrees + level.squares.degrees)
        return Expectation(level.mean, float(variance**0.5), degrees, level.runs)

    def noise_variance(self, level: Level) -> float:
        """Return the variance of the noise of a configuration's runs."""
        factor = level.squares.factor(self.moderation.degrees)
        return self.variance * level.noise_factor * factor

    def learn(self, ratio: float, cell: Cell, *, is_normal: bool = True) -> None:
        """Update the level of a run's configuration and the noise with its log ratio.

        A run that is not normal does not change the level. The noise learns from every run: without
        the extreme ones it would be underestimated.
        """
        level = self.level(cell)
        if is_normal:
            noise_ratio = self.noise_variance(level) / self.variance
            gain = level.variance_ratio / (noise_ratio + level.variance_ratio)
            level.mean += gain * (ratio - level.mean)
            level.variance_ratio = gain * noise_ratio
            insort(level.ratios, ratio)
        if level.previous is not None:
            self._learn_noise(level, (ratio - level.previous) ** 2 / (2.0 * level.noise_factor))
        level.previous = ratio

    def learn_acknowledged(self, ratio: float, cell: Cell) -> None:
        """Learn from a run that was acknowledged, in which the code may have changed.

        The first one of a configuration sets its level, wherever the regressor has it.

        Examples
        --------
        >>> cell = Cell(0, 0.05)
        >>> state = repetitions([cell], 0.03)
        >>> state.learn_acknowledged(0.8, cell)
        >>> round(state.expect(cell).mean, 2)
        0.8
        """
        level = self.level(cell)
        if not level.runs:
            level.model_variance += CHANGE_DEVIATION**2
            level.variance_ratio += CHANGE_DEVIATION**2 / self.variance
            level.is_acknowledged = True
        self.learn(ratio, cell)

    def count_once(self) -> None:
        """Avoid counting runs twice after the regressor was fitted on the runs learned so far.

        Its forecast already contains their evidence. The error of a level is therefore that of the
        forecast or that of the mean of its runs, whichever is smaller, instead of both combined.
        """
        for level in self.levels.values():
            level.variance_ratio = level.model_variance / self.variance
            if level.runs:
                runs_ratio = self.noise_variance(level) / self.variance / level.runs
                level.variance_ratio = min(level.variance_ratio, runs_ratio)

    def _learn_noise(self, level: Level, square: float) -> None:
        # The effect of an accident is limited, so that it does not look like noise for ever.
        limit = _MAX_SQUARE * level.squares.factor(self.moderation.degrees)
        squares = level.squares.plus(min(square / self.variance, limit), _DIFFERENCE_WEIGHT)
        self.moderation.learn(level.squares, squares)
        level.squares = squares
        limited = min(square, _MAX_SQUARE * self.variance)
        weight = self.weight + _DIFFERENCE_WEIGHT
        self.variance = (self.weight * self.variance + _DIFFERENCE_WEIGHT * limited) / weight
        self.weight = weight


def repetitions(cells: Sequence[Cell], noise: float | None) -> Repetitions:
    """Return the state before the first run.

    Parameters
    ----------
    cells
        Cells of the runs to come, at least one.
    noise
        Usual log deviation of repetitions where it is known; half of the forecasts' median
        deviation otherwise.

    Examples
    --------
    >>> cell = Cell(0, 0.05)
    >>> state = repetitions([cell], 0.03)
    >>> before = state.expect(cell).deviation
    >>> for ratio in (0.04, 0.05, 0.045):
    ...     state.learn(ratio, cell)
    >>> after = state.expect(cell)
    >>> round(before, 3), round(after.mean, 3), after.deviation < before
    (0.05, 0.038, True)
    """
    typical = median(cell.scale / cell.noise_factor**0.5 for cell in cells)
    deviation = typical / 2.0 if noise is None else noise
    deviation = min(max(deviation, _MIN_NOISE_SHARE * typical), _MAX_NOISE_SHARE * typical)
    return Repetitions(deviation * deviation)
