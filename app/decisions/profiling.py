"""How long to go on measuring: a design's steps are taken until a stop rule holds."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from app.decisions.pareto import FloatArray
from app.domain.profiling import StopReason, StopRule

BoolArray = npt.NDArray[np.bool_]
_LARGEST = 30.0
"""Cap of log half widths; beyond a factor of e^30 they are all the same."""
_ROUNDING = 1e-12
"""Relative rounding error allowed in sums of prices: three of 0.10 are within 0.30."""


class Step(Protocol):
    """A chosen candidate and the targets' half widths (log) expected after it."""

    @property
    def candidate(self) -> int:
        """Return its position among the candidates."""

    @property
    def half_widths(self) -> FloatArray:
        """Return the expected half widths, shape (n_targets,)."""


class Design(Protocol):
    """Chooses candidates one by one, by falling gain per cost."""

    def half_widths(self) -> FloatArray:
        """Return the half width of each target's log duration, shape (n_targets,)."""

    def gains(self) -> FloatArray:
        """Return the expected decrease of the mean half width by a run of each candidate."""

    def step(self, affordable: BoolArray) -> Step | None:
        """Take the best of the affordable candidates."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a plan: the number of runs, and their total cost (None: no limit)."""

    runs: int
    budget: float | None
    stop: StopRule


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the targets' intervals reach, which may be more upwards than downwards.

    Parameters
    ----------
    below, above
        Factors on the design's half width of each target on that side of the median, shape
        (n_targets,).

    Examples
    --------
    >>> reach = Reach(np.array([1.0]), np.array([2.0]))
    >>> lower, upper = reach.bounds(np.array([0.1]))
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.905], [1.221])
    >>> reach.widths(np.array([0.1])).round(3).tolist()
    [0.317]
    """

    below: FloatArray
    above: FloatArray

    def bounds(self, half_widths: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds over the median, each of shape (n_targets,)."""
        below = np.minimum(self.below * half_widths, _LARGEST)
        above = np.minimum(self.above * half_widths, _LARGEST)
        return np.exp(-below), np.exp(above)

    def widths(self, half_widths: FloatArray) -> FloatArray:
        """Return (upper - lower) / median, shape (n_targets,)."""
        lower, upper = self.bounds(half_widths)
        return np.asarray(upper - lower, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """A chosen candidate, the targets' half widths after it, and how much narrower they became."""

    candidate: int
    half_widths: FloatArray
    narrowing: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """The runs to make, in order, the targets' half widths before them, and why they end."""

    runs: tuple[ChosenRun, ...]
    half_widths: FloatArray
    stop: StopReason

    @property
    def expected(self) -> FloatArray:
        """Return the targets' half widths after all runs, shape (n_targets,)."""
        return self.runs[-1].half_widths if self.runs else self.half_widths


def plan_runs(
    design: Design, prices: FloatArray, limits: Limits, reach: Reach, allowed: BoolArray
) -> Schedule:
    """Return the runs to make until a stop rule holds or no candidate is left or affordable.

    Parameters
    ----------
    design
        Chooses the candidates.
    prices
        Expected price of a run of each candidate, shape (n_candidates,), at least 0.
    limits
        Number of runs, budget and stop rule.
    reach
        How far the targets' intervals reach.
    allowed
        Which candidates may be taken at all, shape (n_candidates,).
    """
    initial = design.half_widths()
    widths = reach.widths(initial)
    remaining, spent, runs = allowed.copy(), 0.0, list[ChosenRun]()
    max_cost = np.inf if limits.budget is None else limits.budget * (1.0 + _ROUNDING)
    while True:
        stop = _stop_reason(widths, len(runs), remaining, limits)
        if stop is not None:
            break
        affordable = remaining & (spent + prices <= max_cost)
        if not affordable.any():
            stop = StopReason.BUDGET_SPENT
            break
        min_gain = limits.stop.min_narrowing * float(design.half_widths().mean())
        step = design.step(affordable & (design.gains() >= min_gain))
        if step is None:
            stop = StopReason.GAIN_TOO_SMALL
            break
        new_widths = reach.widths(step.half_widths)
        narrowing, price = float((widths - new_widths).mean()), float(prices[step.candidate])
        if narrowing < (limits.stop.min_narrowing_per_cost or 0.0) * price:
            stop = StopReason.GAIN_TOO_SMALL
            break
        runs.append(ChosenRun(step.candidate, step.half_widths, narrowing))
        remaining[step.candidate], spent, widths = False, spent + price, new_widths
    return Schedule(tuple(runs), initial, stop)


def _stop_reason(
    widths: FloatArray, n_runs: int, remaining: BoolArray, limits: Limits
) -> StopReason | None:
    """Return why no further run is sought, None if one is."""
    if limits.stop.width is not None and widths.mean() <= limits.stop.width:
        return StopReason.GOAL_REACHED
    if n_runs >= limits.runs:
        return StopReason.RUNS_PLANNED
    return None if remaining.any() else StopReason.CANDIDATES_EXHAUSTED
