"""Trainings in a notebook, whose process outlives them."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from trainfare_client import Client, ClientSettings
from trainfare_client.collectors.recording import Recorder


@dataclass
class Outcome:
    """What IPython says of a cell that it executed."""

    error_in_exec: BaseException | None = None


@dataclass
class Notebook:
    """IPython's shell, with a clock instead of a person."""

    now: float = 0.0
    callbacks: list[Callable[[Outcome], None]] = field(default_factory=list)

    @property
    def events(self) -> "Notebook":
        return self

    def register(self, event: str, callback: Callable[[Outcome], None]) -> None:
        assert event == "post_run_cell"
        self.callbacks.append(callback)

    def unregister(self, event: str, callback: Callable[[Outcome], None]) -> None:
        assert event == "post_run_cell"
        self.callbacks.remove(callback)

    def end_cell(self, error: BaseException | None = None) -> None:
        for callback in list(self.callbacks):
            callback(Outcome(error))
        self.now += 3600


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    notebook = Notebook()
    module = ModuleType("IPython")
    module.get_ipython = lambda: notebook  # type: ignore[attr-defined] # as IPython has it
    monkeypatch.setitem(sys.modules, "IPython", module)
    return notebook


@pytest.fixture
def recorder(notebook: Notebook, settings: ClientSettings, workload: str) -> Recorder:
    return Recorder(workload, {"settings": settings, "quiet": True}, clock=lambda: notebook.now)


def _step(recorder: Recorder, notebook: Notebook) -> None:
    recorder.data_arrived(2)
    notebook.now += 1.5
    recorder.step_ended()


def _only_run(client: Client, workload: str) -> dict[str, Any]:
    (run,) = client.runs.all(workload)
    return dict(run)


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), "cancelled"), (MemoryError(), "out_of_memory")],
)
def test_exception_ends_the_run_with_its_cell(
    error: BaseException,
    status: str,
    notebook: Notebook,
    recorder: Recorder,
    client: Client,
    workload: str,
) -> None:
    _step(recorder, notebook)
    notebook.now += 2
    notebook.end_cell(error)
    run = _only_run(client, workload)

    assert (run["status"], run["duration_seconds"]) == (status, 1.5)
    assert not notebook.callbacks


def test_run_that_is_finished_in_a_later_cell_ended_with_its_own(
    notebook: Notebook, recorder: Recorder, client: Client, workload: str
) -> None:
    _step(recorder, notebook)
    notebook.now += 0.25
    notebook.end_cell()
    notebook.end_cell(NameError("of another cell"))
    recorder.finish()
    run = _only_run(client, workload)

    assert (run["status"], run["duration_seconds"]) == ("succeeded", 1.75)


def test_training_over_several_cells_lasts_until_it_is_finished(
    notebook: Notebook, recorder: Recorder, client: Client, workload: str
) -> None:
    _step(recorder, notebook)
    notebook.end_cell()
    _step(recorder, notebook)
    notebook.now += 0.25
    recorder.finish()

    assert _only_run(client, workload)["duration_seconds"] == 3600 + 3.25


@pytest.mark.parametrize("error", [None, NameError("before the first step")])
def test_collector_without_a_step_makes_no_run(
    error: BaseException | None, notebook: Notebook, recorder: Recorder
) -> None:
    notebook.end_cell(error)
    recorder.finish_as_of_last_step("cancelled")

    assert not notebook.callbacks
    assert recorder._delivery is None
