"""A child process computes what this process would, and its death is told."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from typing_extensions import override

from app.domain import log_fields
from app.services.computing.processes import ProcessComputer, require_lightgbm
from app.services.computing.task import (
    ComputationLostError,
    ComputerRefusedError,
    FitRefusedError,
    FitTask,
    Incumbent,
    InProcessComputer,
    compute_fit,
)
from models import FeatureTable, RunTable, WorkloadSummary
from tests.support.fit_tasks import make_task
from tests.support.regressors import QUICK

pytestmark = pytest.mark.lengthy


class StopComputingError(Exception):
    """Raised by a caller that wants no more."""


@pytest.fixture
def computer() -> Iterator[ProcessComputer]:
    computer = ProcessComputer(beat_s=0.05)
    yield computer
    computer.close()


def children() -> set[int]:
    """Return the processes that compute fits for this one."""
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found |= set(map(int, (thread / "children").read_text().split()))
    return {
        child
        for child in found
        if b"app.services.computing.child" in Path(f"/proc/{child}/cmdline").read_bytes()
    }


def ignore(_share: float, _step: str) -> None:
    pass


def test_child_computes_what_this_process_would(computer: ProcessComputer) -> None:
    task = make_task(QUICK)
    steps: list[tuple[float, str]] = []

    outcome = computer.compute(task, lambda share, step: steps.append((share, step)))

    here = InProcessComputer()
    assert outcome == here.compute(task, ignore)
    here.close()
    assert steps[0] == (0.0, "starting")
    assert steps[-1][0] == 1.0


def test_child_is_kept_for_the_next_fit_after_a_refusal(computer: ProcessComputer) -> None:
    hopeless = make_task(replace(QUICK, regressors=("boosted_trees",)))

    with pytest.raises(FitRefusedError) as refused:
        computer.compute(hopeless, ignore)
    before = children()
    computer.compute(make_task(QUICK), ignore)

    assert refused.value.problem.code == "fit_failed"
    assert children() == before
    assert len(before) == 1


def test_bug_in_the_child_is_told_and_does_not_end_it(computer: ProcessComputer) -> None:
    broken = replace(make_task(QUICK), hardware={"T4": "no data sheet"})  # type: ignore[dict-item] # a bug of ours

    with pytest.raises(FitRefusedError) as refused:
        computer.compute(broken, ignore)

    assert refused.value.problem.code == "internal"
    assert len(children()) == 1


def test_killed_child_loses_its_computation_and_the_next_fit_gets_another(
    computer: ProcessComputer,
) -> None:
    def kill(_share: float, _step: str) -> None:
        for child in children():
            os.kill(child, signal.SIGKILL)

    with pytest.raises(ComputationLostError, match="-9"):
        computer.compute(make_task(QUICK), kill)

    assert computer.compute(make_task(QUICK), ignore).artifact


def test_idle_child_that_died_is_replaced(computer: ProcessComputer) -> None:
    computer.compute(make_task(QUICK), ignore)
    [child] = children()
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    outcome = computer.compute(make_task(QUICK), ignore)

    assert outcome.artifact
    assert child not in children()


def test_caller_that_wants_no_more_ends_the_child(computer: ProcessComputer) -> None:
    def stop(_share: float, _step: str) -> None:
        raise StopComputingError

    with pytest.raises(StopComputingError):
        computer.compute(make_task(QUICK), stop)

    assert children() == set()


def test_computation_far_beyond_its_budget_is_ended() -> None:
    computer = ProcessComputer(beat_s=0.01, limit_s=lambda _budget_s: 0.02)

    with pytest.raises(FitRefusedError) as refused:
        computer.compute(make_task(QUICK), ignore)

    assert refused.value.problem.code == "fit_timed_out"
    assert children() == set()
    computer.close()


def test_incumbent_that_cannot_be_read_is_beaten() -> None:
    task = replace(make_task(QUICK), incumbent=Incumbent(3, b"no artefact"))

    contest = compute_fit(task, ignore).contest

    assert contest is not None
    assert (contest.incumbent_version, contest.is_better) == (3, True)


def test_other_workloads_learn_how_a_workload_behaves_today() -> None:
    gpus = np.resize(["T4", "V100"], 64)
    workers = np.resize([1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0], 64)
    # Before the change both ran; since then everything is four times as fast on the V100 alone.
    gpus[32:] = "V100"
    seconds = (20 + 800 / workers) * np.where(gpus == "T4", 2.5, 1.0)
    seconds *= np.repeat([4.0, 1.0], 32) * np.resize([1.0, 1.01, 0.99], 64)
    features = FeatureTable({"workers": workers}, {"gpu_type": gpus.tolist()}, 64)
    runs = RunTable(features, seconds, [f"r{n:02d}" for n in range(64)], np.arange(64.0))
    task = FitTask(replace(QUICK, regressors=("log_linear",)), runs, {})

    summary = compute_fit(task, ignore).summary

    assert summary is not None
    (found,) = WorkloadSummary.from_document(summary).levels
    effects = dict(zip(found.levels, found.effects, strict=True))
    assert np.exp(effects["T4"] - effects["V100"]) == pytest.approx(2.5, rel=0.05)


class Speaking:
    """Says something on standard error where it is read."""

    @override
    def __reduce__(self) -> Any:
        return os.write, (2, b"something odd\n")


def test_words_of_a_child_are_logged_with_the_fit_they_belong_to(
    computer: ProcessComputer, caplog: pytest.LogCaptureFixture
) -> None:
    computer.compute(make_task(QUICK), ignore)
    spoiled: Any = replace(make_task(QUICK), evidence=cast("Any", Speaking()))
    reported: list[dict[str, str]] = []

    def note(record: logging.LogRecord) -> bool:
        if record.getMessage() == "fit process: something odd":
            reported.append(dict(log_fields.current.get()))
        return True

    caplog.handler.addFilter(note)

    with (
        caplog.at_level(logging.WARNING, "app.services.computing.words"),
        log_fields.telling(fit="fit_1"),
        pytest.raises(FitRefusedError),
    ):
        computer.compute(spoiled, ignore)
    computer.close()

    assert reported == [{"fit": "fit_1"}]


class Unreadable:
    """Fails where it is read, as a task does for which the memory is too small."""

    @override
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_task_that_a_child_cannot_read_loses_its_computation_at_once(
    computer: ProcessComputer, caplog: pytest.LogCaptureFixture
) -> None:
    unreadable: Any = Unreadable()

    with pytest.raises(ComputationLostError):
        computer.compute(replace(make_task(QUICK), evidence=unreadable), ignore)

    assert "no number" in caplog.text


def test_fitter_that_cannot_start_a_process_fails_no_fit(
    computer: ProcessComputer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(ComputerRefusedError, match="No process for fits can be started") as refused:
        computer.compute(make_task(QUICK), ignore)

    assert "Restart the fitter" in refused.value.remedy


def test_fit_is_not_claimed_where_lightgbm_cannot_be_loaded(
    computer: ProcessComputer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert computer.is_ready()

    package = tmp_path / "lightgbm_without_openmp"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "lib" / "lib_lightgbm.so").write_bytes(b"no library")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ComputerRefusedError, match="LightGBM cannot be loaded") as refused:
        require_lightgbm(package.name)

    assert "libgomp1" in refused.value.remedy
