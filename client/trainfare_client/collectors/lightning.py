"""A Lightning callback that records `Trainer.fit`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from trainfare_client.collectors.outcomes import status_of
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place
from trainfare_client.collectors.torch import communication_s, samples_in

# Lightning has two package names; a trainer of one accepts no callback of the other.
if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from trainfare_client.collectors.recording import RunOptions


class TrainfareCallback(Callback):
    """Records each `Trainer.fit` as a run: `Trainer(callbacks=[TrainfareCallback("cnn")])`."""

    def __init__(self, workload: str, **options: Unpack[RunOptions]) -> None:
        self._workload = workload
        self._options = options
        self._recorder: Recorder | None = None
        self._batches = 0

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin a run when a fit begins."""
        if stage == "fit":
            place = Place(trainer.global_rank, trainer.world_size, trainer.num_nodes)
            self._recorder = Recorder(self._workload, self._options, place=place)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Wait for data from now on; read what the trainer knows."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.add_facts(**_facts_of(trainer))
                self._recorder.setup_is_over()
                self._recorder.passes.begin()
                self._recorder.mark()
                self._batches = 0

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the time until here as waiting for data."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.data_arrived()
                # Batch samplers and combined loaders do not state a size.
                samples = samples_in(batch) * _batches_per_step(trainer)
                self._recorder.add_facts(batch_size=samples or None)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a step."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.step_ended(samples_in(batch) * trainer.world_size)
                self._batches += 1

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Exclude validation from waiting for data; it stays in the duration."""
        if self._recorder is not None:
            with self._recorder.guard:
                self._recorder.mark()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Count a pass over the data, if it was complete."""
        if self._recorder is not None:
            with self._recorder.guard:
                if _is_complete(trainer, self._batches):
                    self._recorder.passes.end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Deliver the run."""
        if self._recorder is not None:
            with self._recorder.guard:
                steps = self._recorder.timing.computing.count
                seconds = communication_s(trainer.model, steps)
                if seconds is not None:
                    self._recorder.add_phase("communication", seconds)
            self._recorder.finish("cancelled" if trainer.interrupted else "succeeded")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Deliver a run that did not succeed."""
        if self._recorder is not None:
            self._recorder.finish(status_of(exception))

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Drop a run that nothing has ended: a mere search for a learning rate or batch size."""
        if self._recorder is not None:
            self._recorder.discard()


def _facts_of(trainer: Any) -> dict[str, Any]:
    loader = trainer.train_dataloader
    size = getattr(loader, "batch_size", None)
    dataset: Any = getattr(loader, "dataset", None)
    return {
        "dataset_size": len(dataset) if hasattr(dataset, "__len__") else None,
        "batch_size": None if size is None else size * _batches_per_step(trainer),
    }


def _batches_per_step(trainer: Any) -> int:
    return int(trainer.world_size * trainer.accumulate_grad_batches)


def _is_complete(trainer: Any, batches: int) -> bool:
    """Return whether an epoch of so many batches covered all data: limits may end it before."""
    try:
        return bool(batches >= len(trainer.train_dataloader))
    except TypeError:
        # A stream has no length: it was read to its end unless a limit was reached.
        is_limited = trainer.limit_train_batches not in {None, 1.0}
        return not is_limited and trainer.global_step != trainer.max_steps
