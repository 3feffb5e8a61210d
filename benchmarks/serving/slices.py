"""Measures a subject and a floor in turns: their ratio, and the spread of the floor itself."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a ratio: at least `bound` if more is better, at most otherwise."""

    what: str
    floor: str
    bound: float
    is_least: bool = False

    def is_met(self, value: float) -> bool:
        """Return whether a ratio keeps the bound."""
        return value >= self.bound if self.is_least else value <= self.bound

    def text(self) -> str:
        """Return the bound as a reader expects it."""
        return f"{'>=' if self.is_least else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Slices:
    """The measurements of one run's slices, in order: the subject, the floor, the floor again."""

    ours: Sequence[float]
    floor: Sequence[float]
    again: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median over the slices of the subject relative to the floor."""
        return statistics.median(_ratios(self.ours, self.floor))

    @property
    def control(self) -> float:
        """The median of the floor relative to itself: how much the machine alone varies."""
        return statistics.median(_ratios(self.again, self.floor))

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a slice."""
        ratios = _ratios(self.ours, self.floor)
        return min(ratios), max(ratios)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table: a ratio and its goal.

    `failures` counts unsuccessful answers; with a single one the goal is missed.
    """

    goal: Goal
    value: float
    control: float | None
    spread: tuple[float, float] | None
    failures: int = 0
    note: str = ""

    @classmethod
    def of(cls, goal: Goal, slices: Slices, *, failures: int = 0, note: str = "") -> "Figure":
        """Return the figure of slices."""
        return cls(goal, slices.ratio, slices.control, slices.spread, failures, note)

    @property
    def is_met(self) -> bool:
        """Whether the goal is met, and every answer was a success."""
        return self.failures == 0 and self.goal.is_met(self.value)


def _ratios(ours: Sequence[float], floor: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, floor, strict=True)]


def alternate(ours: Callable[[], float], floor: Callable[[], float], slices: int) -> Slices:
    """Measure both in turns, after one turn of each as a warm-up."""
    ours()
    floor()
    turns = [(floor(), ours(), floor()) for _ in range(slices)]
    first, subject, again = (list(column) for column in zip(*turns, strict=True))
    return Slices(subject, first, again)


def cpu_seconds(function: Callable[[], object]) -> Callable[[], float]:
    """Return a function that calls another and returns the CPU seconds it took."""

    def measured() -> float:
        started = time.process_time()
        function()
        return time.process_time() - started

    return measured
