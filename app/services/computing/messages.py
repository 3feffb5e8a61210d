"""The messages to the fitter from whatever computes a fit."""

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
    """How far the computation has come."""

    share: float
    step: str


@dataclass(frozen=True, slots=True)
class Done:
    """The computation succeeded."""

    outcome: FitOutcome


@dataclass(frozen=True, slots=True)
class Refused:
    """The task cannot be computed; `trace` is set if the failure was unexpected."""

    problem: FitProblem
    trace: str | None = None


Message = Progress | Done | Refused


def answer(task: FitTask, on_progress: OnProgress, fold_map: FoldMap = map) -> Done | Refused:
    """Compute a task and return the message on its outcome, even for a bug of our own."""
    try:
        return Done(compute_fit(task, on_progress, fold_map))
    except FitRefusedError as refusal:
        return Refused(refusal.problem)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - any failure is reported to the fitter
        detail = f"The computation failed unexpectedly: {type(error).__name__}: {error}"
        return Refused(FitProblem("internal", detail), traceback.format_exc())
