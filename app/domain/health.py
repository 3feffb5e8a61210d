"""The health of a running service for its operator: checks and their results."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One check: whether it passed, what was found, and how to correct it."""

    name: str
    is_ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Fitters:
    """The live fitters, and how many of them wait for the place where they compute."""

    alive: int
    waiting: int = 0
    waits_for: str | None = None
    """What one of the waiting fitters waits for; may name hosts."""

    def obstacle(self) -> str | None:
        """Return what a queued fit waits for if no fitter can start it.

        Examples
        --------
        >>> Fitters(0).obstacle(), Fitters(2, waiting=1).obstacle()
        ('no fitter is running; start one with `trainfare fitter`', None)
        """
        if self.alive > self.waiting:
            return None
        if self.waiting:
            return "every fitter waits for Ray"
        return "no fitter is running; start one with `trainfare fitter`"


@dataclass(frozen=True, slots=True)
class FitActivity:
    """What became of the fits that ended in the last hour, and how many have not ended."""

    by_state: Mapping[str, int]
    takeovers: int
    """Starts of all these beyond the first of each, made because fitters were lost."""
    mean_duration_s: float | None
    """Of those that ended, with the time that lost fitters took; None without one."""
    longest_wait_s: float
    """How long the oldest queued fit has waited."""
