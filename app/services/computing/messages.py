"""What whoever computes a fit tells the fitter."""

import traceback
from dataclasses import dataclass

from app.domain.fits import FitProblem
from app.services.computing.task import (
    FitOutcome,
    FitRefusedError,
    FitTask,
    OnProgress,
    compute_fit,
)
from models import FoldMap


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


def answer(task: FitTask, on_progress: OnProgress, fold_map: FoldMap = map) -> Done | Refused:
    """Compute a task and return what is to be told of it, a bug of ours included."""
    try:
        return Done(compute_fit(task, on_progress, fold_map))
    except FitRefusedError as refusal:
        return Refused(refusal.problem)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever went wrong is told to the fitter
        detail = f"The computation failed unexpectedly: {type(error).__name__}: {error}"
        return Refused(FitProblem("internal", detail), traceback.format_exc())
