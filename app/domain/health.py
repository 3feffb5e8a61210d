"""What an operator asks of a running service: one check, and how it came out."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: whether it is well, what was seen, and what mends it."""

    name: str
    is_ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Fitters:
    """The fitters that live, and how many of them wait for the place where they compute."""

    alive: int
    waiting: int = 0
    waits_for: str | None = None
    """What one of those that wait says it waits for; may name hosts."""


@dataclass(frozen=True, slots=True)
class FitActivity:
    """What became of the fits of the last hour; spans are seconds."""

    by_state: Mapping[str, int]
    takeovers: int
    """Starts of these fits beyond the first of each: fitters were lost."""
    mean_duration_s: float | None
    longest_wait_s: float
    """How long the oldest of all queued fits waits."""
