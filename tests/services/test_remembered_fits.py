"""The tests' cache of fits gives what the fit of the very task would give."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.domain.fits import FitRequest
from app.domain.identifiers import new_identifiers
from app.services.computing.task import FitOutcome, FitTask, OnProgress, compute_fit
from models import Evidence, UnfinishedRuns
from tests.support import remembering
from tests.support.fit_tasks import make_task
from tests.support.remembering import CachingComputer

_REQUEST = FitRequest(regressors=("log_linear",))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[FitTask]:
    """The tasks that are computed and not remembered."""
    tasks: list[FitTask] = []

    def compute(task: FitTask, on_progress: OnProgress) -> FitOutcome:
        tasks.append(task)
        return compute_fit(task, on_progress)

    monkeypatch.setattr(remembering, "compute_fit", compute)
    monkeypatch.setattr(remembering, "_outcomes", {})
    return tasks


def _task(names: Sequence[str]) -> FitTask:
    """Return a task with an outlier and a run that was stopped, both of which reports name."""
    task = make_task(_REQUEST, n_runs=len(names) - 1)
    durations = task.runs.duration_seconds.copy()
    durations[-1] *= 20
    runs = replace(task.runs, duration_seconds=durations, run_ids=names[:-1])
    last = runs.features.take(np.array([runs.n_runs - 1]))
    stopped = UnfinishedRuns(last, durations[-1:] / 30, np.array([0.5]), names[-1:])
    return replace(task, runs=runs, evidence=Evidence(unfinished=stopped))


def test_equal_runs_under_other_names_are_fitted_once(computed: list[FitTask]) -> None:
    tasks = [_task(new_identifiers("run", 25)) for _ in range(2)]
    progress: list[tuple[float, str]] = []

    first = CachingComputer().compute(tasks[0], lambda *report: progress.append(report))
    computed_progress = progress.copy()
    progress.clear()
    second = CachingComputer().compute(tasks[1], lambda *report: progress.append(report))

    assert computed == tasks[:1]
    assert first.report.evidence.outliers
    assert first.artifact != second.artifact
    assert [first, second] == [compute_fit(task, lambda *_: None) for task in tasks]
    assert progress == computed_progress != []


def test_runs_whose_names_have_another_order_are_another_task(computed: list[FitTask]) -> None:
    names = new_identifiers("run", 25)

    for order in (names, names[::-1]):
        CachingComputer().compute(_task(order), lambda *_: None)

    assert len(computed) == 2
