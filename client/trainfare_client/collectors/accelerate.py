"""An Accelerate tracker that records the time from `init_trackers` to `end_training`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from accelerate.tracking import GeneralTracker

from trainfare_client.collectors.guarding import Guard
from trainfare_client.collectors.outcomes import CANCELLED, SUCCEEDED, EndWatch, RankNotes
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place, read_place
from trainfare_client.settings import LOCAL_URL, read_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainfare_client.collectors.recording import RunOptions

_SIZE_FIELDS: Final = ("dataset_size", "batch_size", "epochs")


class TrainfareTracker(GeneralTracker):
    """Records a run: `Accelerator(log_with=TrainfareTracker("cnn"))`.

    Each step of the optimizer counts as a step (with several optimizers, those of the first);
    without one, each `accelerator.log` does. `dataset_size`, `batch_size` (global) and `epochs` are
    taken from the configuration passed to `init_trackers`, if they are there.
    """

    name = "trainfare"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, workload: str, **options: Unpack[RunOptions]) -> None:
        super().__init__()
        self._workload = workload
        self._options = options
        self._recorder: Recorder | None = None
        self._optimizer: Any = None
        self._hook: Any = None
        with Guard():
            if read_place().rank != 0:
                _report_failures(workload, options)

    @property
    def tracker(self) -> Recorder | None:
        """The measurement under way."""
        return self._recorder

    def start(self) -> None:
        """Begin a run, once: Accelerate starts a tracker again for each of its earlier runs."""
        from accelerate import PartialState

        if self._recorder is not None:
            if not self._recorder.timing.computing.count:
                return
            self._end(CANCELLED)
        state = PartialState()
        place = Place(state.process_index, state.num_processes, read_place().nodes)
        self._recorder = Recorder(self._workload, self._options, place=place)
        with self._recorder.guard:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            self._hook = register_optimizer_step_post_hook(self._on_optimizer_step)

    def _on_optimizer_step(self, optimizer: Any, *call: Any) -> None:
        if self._recorder is not None:
            with self._recorder.guard:
                self._optimizer = self._optimizer or optimizer
                if optimizer is self._optimizer:
                    self._recorder.step_ended()

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Take the sizes named in the configuration; the set-up is over."""
        self.start()  # Accelerate before 1.8 starts no tracker
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.add_facts(**{name: values.get(name) for name in _SIZE_FIELDS})
                self._recorder.setup_is_over()

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Count a step if there is no optimizer to count by."""
        if self._recorder is not None and self._optimizer is None:
            with self._recorder.guard:
                self._recorder.step_ended()

    def finish(self) -> None:
        """Deliver the run."""
        self._end(SUCCEEDED)

    def _end(self, status: str) -> None:
        recorder, self._recorder, self._optimizer = self._recorder, None, None
        if recorder is not None:
            with recorder.guard:
                self._hook.remove()
            recorder.finish(status)


def _report_failures(workload: str, options: RunOptions) -> None:
    """Let rank 0 know why this rank fails: Accelerate starts its trackers on rank 0 alone."""
    # Writing a note needs no address, and a wrong one is reported on rank 0 already.
    settings = options.get("settings") or read_settings(url=LOCAL_URL, api_key="none")
    notes = RankNotes(settings.spool.parent, workload, os.environ)

    def leave_note(status: str) -> None:
        # A process that exits by itself was not cancelled: this rank never hears of a normal end.
        if status != CANCELLED:
            notes.leave(status)

    EndWatch(leave_note).start()
