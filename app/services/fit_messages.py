"""What the process that computes a fit tells the fitter."""

from dataclasses import dataclass

from app.domain.fits import FitProblem
from app.services.computing import FitOutcome


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the computation is."""

    share: float
    step: str


@dataclass(frozen=True, slots=True)
class Done:
    """The computation ended well."""

    outcome: FitOutcome


@dataclass(frozen=True, slots=True)
class Refused:
    """The task cannot be computed; `trace` is there when nobody expected it."""

    problem: FitProblem
    trace: str | None = None


Message = Progress | Done | Refused
