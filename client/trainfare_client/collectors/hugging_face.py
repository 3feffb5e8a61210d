"""A callback of the Hugging Face Trainer that records `Trainer.train`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from transformers import Trainer, TrainerCallback

from trainfare_client.collectors.guarding import Guard
from trainfare_client.collectors.outcomes import FAILED, OUT_OF_MEMORY, status_of
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place, read_place
from trainfare_client.collectors.torch import communication_s

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainfare_client.collectors.recording import RunOptions


class TrainfareCallback(TrainerCallback):
    """Records each `Trainer.train` as a run: `Trainer(callbacks=[TrainfareCallback("bert")])`.

    The Trainer does not notify callbacks of exceptions, so `Trainer.train` is wrapped. A `train`
    that replaces it is recorded as failed when the next training begins or the interpreter ends,
    as of its last step. With `auto_find_batch_size` the Trainer restarts with smaller batches after
    running out of memory: each attempt is a run.
    """

    def __init__(self, workload: str, **options: Unpack[RunOptions]) -> None:
        self._workload = workload
        self._options = options
        self._recorder: Recorder | None = None
        self._steps_before = 0
        self._batch_size = 0
        with Guard():
            _report_exceptions()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a run with what the trainer knows. One that is still open has failed."""
        previous_batch_size, self._batch_size = self._batch_size, _batch_size(args, state)
        if self._recorder is not None:
            is_search = getattr(args, "auto_find_batch_size", False)
            ran_out_of_memory = is_search and self._batch_size < previous_batch_size
            self._recorder.finish_as_of_last_step(OUT_OF_MEMORY if ran_out_of_memory else FAILED)
        self._steps_before = state.global_step
        place = Place(args.process_index, args.world_size, read_place().nodes)
        self._recorder = Recorder(self._workload, self._options, place=place)
        with self._recorder.guard:
            per_step = self._batch_size * args.gradient_accumulation_steps * args.world_size
            self._recorder.add_facts(
                dataset_size=_dataset_size(kwargs.get("train_dataloader")), batch_size=per_step
            )
            self._recorder.passes.begin()
            self._recorder.setup_is_over()
            self._recorder.mark()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count the time until here as waiting for data."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.data_arrived()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Count a step."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.step_ended()

    def _exclude_pause(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Exclude logging, saving and evaluation from waiting for data."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.mark()

    on_log = on_save = on_evaluate = _exclude_pause

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Deliver the run."""
        if self._recorder is None:
            return
        with self._recorder.guard:
            if "dataset_size" in self._recorder.facts:
                # A resumed training covered only the rest.
                share = 1 - self._steps_before / max(state.global_step, 1)
                self._recorder.add_facts(epochs=float(state.epoch) * share or None)
            steps = self._recorder.timing.computing.count
            seconds = communication_s(kwargs.get("model"), steps)
            if seconds is not None:
                self._recorder.add_phase("communication", seconds)
        self._recorder.finish()

    def on_exception(self, exception: BaseException) -> None:
        """Deliver a run that did not succeed."""
        if self._recorder is not None:
            self._recorder.finish(status_of(exception))


@functools.cache
def _report_exceptions() -> None:
    """Let callbacks hear of the exceptions that end `Trainer.train`, even if a script catches them.

    The class is changed, not the trainers: these stay picklable, and callbacks do not know them.
    """
    train = Trainer.train

    @functools.wraps(train)
    def reporting(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return train(trainer, *args, **kwargs)
        except BaseException as error:
            for callback in trainer.callback_handler.callbacks:
                if isinstance(callback, TrainfareCallback):
                    callback.on_exception(error)
            raise

    Trainer.train = reporting


def _batch_size(args: Any, state: Any) -> int:
    """Return the batch size of one process: as requested, or as found to fit into memory."""
    return int(getattr(state, "train_batch_size", None) or args.train_batch_size)


def _dataset_size(loader: Any) -> int | None:
    dataset: Any = getattr(loader, "dataset", None)
    return len(dataset) if hasattr(dataset, "__len__") else None
