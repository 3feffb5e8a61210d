"""A callback of the Hugging Face Trainer that records `Trainer.train`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from trainfare_client.collectors.outcomes import FAILED
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place, read_place
from trainfare_client.collectors.torch import communication_s

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainfare_client.collectors.recording import RunOptions


class TrainfareCallback(TrainerCallback):
    """Records each `Trainer.train` as a run: `Trainer(callbacks=[TrainfareCallback("bert")])`.

    The Trainer tells its callbacks of no exception: a training that failed is recorded when the
    interpreter ends or the next training begins, as of its last step.
    """

    def __init__(self, workload: str, **options: Unpack[RunOptions]) -> None:
        self._workload = workload
        self._options = options
        self._recorder: Recorder | None = None
        self._steps_before = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a run; learn what the trainer knows. One that is still open failed before."""
        if self._recorder is not None:
            self._recorder.finish_as_of_last_step(FAILED)
        self._steps_before = state.global_step
        place = Place(args.process_index, args.world_size, read_place().nodes)
        self._recorder = Recorder(self._workload, self._options, place=place)
        with self._recorder.guard:
            self._recorder.know(**_facts_of(args, kwargs.get("train_dataloader")))
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

    def _leave_out(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave logging, saving and evaluation out of waiting for data."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.mark()

    on_log = on_save = on_evaluate = _leave_out

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Deliver the run."""
        if self._recorder is None:
            return
        with self._recorder.guard:
            if "dataset_size" in self._recorder.facts:
                # A training that was resumed went over the rest alone.
                share = 1 - self._steps_before / max(state.global_step, 1)
                self._recorder.know(epochs=float(state.epoch) * share or None)
            steps = self._recorder.timing.computing.count
            seconds = communication_s(kwargs.get("model"), steps)
            if seconds is not None:
                self._recorder.add_phase("communication", seconds)
        self._recorder.finish()


def _facts_of(args: Any, loader: Any) -> dict[str, Any]:
    dataset: Any = getattr(loader, "dataset", None)
    per_step = args.train_batch_size * args.gradient_accumulation_steps
    return {
        "dataset_size": len(dataset) if hasattr(dataset, "__len__") else None,
        "batch_size": per_step * args.world_size,
    }
