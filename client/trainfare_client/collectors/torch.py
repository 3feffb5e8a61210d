"""Records a PyTorch loop: wrap its data loader and call `finish` at the end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from trainfare_client.collectors.outcomes import SUCCEEDED, status_of
from trainfare_client.collectors.ray_jobs import ray_job
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place, read_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from trainfare_client.collectors.recording import RunOptions


class TorchCollector:
    """Measures a training loop from its construction to `finish`, the same on every rank.

    Parameters
    ----------
    workload
        The workload's id.
    model
        The model; one with `DistributedDataParallel` reports its communication.
    options
        What can be stated about the run; dataset size, batch size, epochs, workers, nodes and GPU
        are found if they are left out.

    Examples
    --------
    ::

        collector = TorchCollector("resnet50", model=model)
        loader = collector.watch(loader)
        ...  # the loop as it was
        collector.finish()
    """

    def __init__(self, workload: str, *, model: Any = None, **options: Unpack[RunOptions]) -> None:
        self._model = model
        self._recorder = Recorder(workload, options, place=_distributed_place())

    def watch(self, loader: Any) -> Any:
        """Return a loader that yields the same batches and is measured."""
        with self._recorder.guard:
            self._recorder.add_facts(**_facts_of(loader, self._workers()))
        return WatchedLoader(loader, self._recorder, self._workers())

    def finish(self, status: str = SUCCEEDED) -> None:
        """End the measurement and deliver the run."""
        with self._recorder.guard:
            self._add_communication()
        self._recorder.finish(status)

    def _workers(self) -> int:
        return self._recorder.place.workers or 1

    def _add_communication(self) -> None:
        seconds = communication_s(self._model, self._recorder.timing.computing.count)
        if seconds is not None:
            self._recorder.add_phase("communication", seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish(status_of(error))


class WatchedLoader:
    """A data loader that is measured; all else is the original loader's."""

    def __init__(self, loader: Any, recorder: Recorder, workers: int) -> None:
        self._loader = loader
        self._recorder = recorder
        self._workers = workers

    def __iter__(self) -> Iterator[Any]:
        recorder = self._recorder
        with recorder.guard:
            recorder.settle_batch()
            recorder.setup_is_over()
            recorder.passes.begin()
            recorder.mark()
        for batch in self._loader:
            with recorder.guard:
                recorder.data_arrived(samples_in(batch) * self._workers)
            try:
                yield batch
            except GeneratorExit:
                with recorder.guard:
                    recorder.leave_batch()
                raise
            with recorder.guard:
                recorder.step_ended()
        with recorder.guard:
            recorder.passes.end()

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        # A copy is asked for protocols before it has a loader.
        if name == "_loader" or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self._loader, name)


def samples_in(batch: Any) -> int:
    """Return how many samples a batch holds: the length of its first tensor.

    Examples
    --------
    >>> samples_in({"labels": [1, 2, 3]})
    3
    """
    if hasattr(batch, "shape"):
        return int(batch.shape[0]) if len(batch.shape) else 1
    values = list(batch.values()) if hasattr(batch, "values") else batch
    if isinstance(values, (list, tuple)) and values:
        is_nested = hasattr(values[0], "shape") or isinstance(values[0], (dict, list, tuple))
        return samples_in(values[0]) if is_nested else len(values)
    return 0


def communication_s(model: Any, steps: int) -> float | None:
    """Return the seconds in which backward passes waited for gradients of other ranks.

    `DistributedDataParallel` times some of its steps; their mean communication beyond what
    overlapped with computing is taken for all steps. None if the model reports nothing.
    """
    logging_data = getattr(model, "_get_ddp_logging_data", None)
    if logging_data is None:
        return None
    data = logging_data()
    nanoseconds = data.get("avg_backward_comm_time")
    if not nanoseconds:
        return None
    overlap = data.get("avg_backward_compute_comm_overlap_time") or 0
    return float(max(nanoseconds - overlap, 0) * steps / 1e9)


def _facts_of(loader: Any, workers: int) -> dict[str, Any]:
    size = getattr(loader, "batch_size", None)
    dataset: Any = getattr(loader, "dataset", None)
    return {
        "dataset_size": len(dataset) if hasattr(dataset, "__len__") else None,
        "batch_size": None if size is None else size * workers,
    }


def _distributed_place() -> Place | None:
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank, workers = distributed.get_rank(), distributed.get_world_size()
    return Place(rank, workers, read_place().nodes, ray_job())
