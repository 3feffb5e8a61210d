"""Splits the time of a training into set-up, steps and phases."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Final

_KEPT_STEPS: Final = 4096


@dataclass
class StepTimes:
    """Times of the steps of one kind: waiting for data, or computing.

    The first steps also compile, choose kernels and fill caches. The time that they took beyond
    the median of the later steps is warm-up; without later steps it is unknown.

    Attributes
    ----------
    warmup_steps
        How many steps may include warm-up, 0 or more.
    """

    warmup_steps: int
    total_s: float = 0.0
    count: int = 0
    _first: list[float] = field(default_factory=list)
    _later: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        """Count one step."""
        self.count += 1
        self.total_s += seconds
        if self.count <= self.warmup_steps:
            self._first.append(seconds)
        elif len(self._later) < _KEPT_STEPS:
            self._later.append(seconds)

    def usual_s(self) -> float | None:
        """Return the median of the steps after warm-up in seconds; None before the first step.

        Examples
        --------
        >>> times = StepTimes(warmup_steps=1)
        >>> times.usual_s() is None
        True
        >>> for seconds in (9.0, 1.0, 1.2, 1.1):
        ...     times.add(seconds)
        >>> times.usual_s()
        1.1
        """
        seconds = self._later or self._first
        return median(seconds) if seconds else None

    def warmup_s(self) -> float:
        """Return the seconds that the first steps took beyond a usual step, 0 or more.

        Examples
        --------
        >>> times = StepTimes(warmup_steps=2)
        >>> for seconds in (9.0, 1.5, 1.0, 1.0, 1.2):
        ...     times.add(seconds)
        >>> times.warmup_s()
        8.5
        """
        if not self._later:
            return 0.0
        usual_s = median(self._later)
        return sum(max(0.0, seconds - usual_s) for seconds in self._first)


@dataclass
class Timing:
    """The times of one run, in seconds of one clock.

    Attributes
    ----------
    started
        When the run began.
    steps_from
        When its set-up was over; None while unknown.
    """

    started: float
    warmup_steps: int
    steps_from: float | None = None
    phases: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = StepTimes(self.warmup_steps)
        self.computing = StepTimes(self.warmup_steps)

    def add_phase(self, name: str, seconds: float) -> None:
        """Add seconds to a phase."""
        self.phases[name] = self.phases.get(name, 0.0) + seconds

    def has_begun(self) -> bool:
        """Return whether the first step began."""
        return self.steps_from is not None or self.computing.count > 0

    def setup_s(self) -> float:
        """Return the seconds before the first step plus those of the warm-up."""
        before = 0.0 if self.steps_from is None else self.steps_from - self.started
        return before + self.waiting.warmup_s() + self.computing.warmup_s()

    def duration_s(self, ended_at: float) -> float:
        """Return the seconds of the training without its set-up."""
        return ended_at - self.started - self.setup_s()

    def phase_seconds(self) -> dict[str, float]:
        """Return the phases by their names in the API."""
        seconds = {
            "setup": self.setup_s(),
            "data_loading": self.waiting.total_s - self.waiting.warmup_s(),
            "compute": self.computing.total_s - self.computing.warmup_s(),
            **self.phases,
        }
        # Waiting for gradients happens within the steps; it counts as communication, not compute.
        seconds["compute"] -= min(seconds.get("communication", 0.0), seconds["compute"])
        return {
            f"{name}_seconds": round(value, 6)
            for name, value in seconds.items()
            if value > 0 or name in self.phases
        }
