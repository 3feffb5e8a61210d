"""Records Ray Train jobs: exactly, on their workers, or from the polling controller."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ray.train.v2._internal.execution.callback import (
    ControllerCallback,
    ReportCallback,
    WorkerGroupCallback,
)

from trainfare_client.collectors.outcomes import OUT_OF_MEMORY, status_of
from trainfare_client.collectors.ray_jobs import ray_job, with_driver_facts
from trainfare_client.collectors.recording import Recorder
from trainfare_client.collectors.surroundings import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from trainfare_client.collectors.recording import RunOptions


def recorded(
    train_loop: Callable[..., Any], workload: str, **options: Unpack[RunOptions]
) -> Callable[..., Any]:
    """Return a training loop that is recorded: `TorchTrainer(recorded(loop, "cnn"), ...)`.

    Rank 0 uploads; if another rank fails, that one does, before Ray ends all of them. The time is
    that of the loop itself on its worker, without starting the workers. `ray.train.report` is left
    to the loop: to record steps and data loading, use a `TorchCollector` inside the loop instead.
    """
    driver_options = with_driver_facts(options)

    @functools.wraps(train_loop)
    def loop(*arguments: Any) -> Any:
        recorder = Recorder(workload, driver_options, place=_place_or_none())
        try:
            result = train_loop(*arguments)
        except BaseException as error:
            recorder.finish(status_of(error))
            raise
        recorder.finish()
        return result

    return loop


class TrainfareCallback(ControllerCallback, WorkerGroupCallback, ReportCallback):
    """Records a job from its controller: `RunConfig(callbacks=[TrainfareCallback("cnn")])`.

    The controller learns of the end when it polls its workers, some seconds late; `recorded` is
    exact. Starting the workers is set-up. Each report of the workers counts as a step. The hooks
    are internal to Ray and their arguments change: what is not used may be anything.
    """

    def __init__(self, workload: str, **options: Unpack[RunOptions]) -> None:
        self._workload = workload
        self._options = with_driver_facts(options)
        self._recorder: Recorder | None = None

    def after_controller_start(self, *arguments: Any, **options: Any) -> None:
        """Begin a run."""
        self._recorder = Recorder(self._workload, self._options, place=Place())

    def after_worker_group_training_start(self, worker_group: Any) -> None:
        """Start counting; read the number of workers and of their nodes."""
        if self._recorder is not None:
            with self._recorder.guard:
                workers = worker_group.get_workers()
                nodes = {worker.metadata.node_id for worker in workers}
                self._recorder.add_facts(workers=len(workers), nodes=len(nodes))
                self._recorder.setup_is_over()

    def after_report(self, *arguments: Any, **options: Any) -> None:
        """Count a step."""
        if self._recorder is not None:
            with self._recorder.guard:
                # Loops may report once an epoch or once a batch, so the samples are unknown.
                self._recorder.step_ended(samples=0)

    def after_controller_finish(self, result: Any) -> None:
        """Deliver the run."""
        if self._recorder is not None:
            self._recorder.finish(_status_of_job(result.error))


def _status_of_job(error: Any) -> str:
    """Return the status of a job by the error with which Ray ended it, or its workers' errors."""
    failures = (getattr(error, "worker_failures", None) or {}).values()
    statuses = {status_of(getattr(failure, "_base_exc", failure)) for failure in failures}
    return OUT_OF_MEMORY if OUT_OF_MEMORY in statuses else status_of(error)


def _place_or_none() -> Place | None:
    try:
        return _worker_place()
    except Exception:  # noqa: BLE001 - must not break the training
        return None


def _worker_place() -> Place:
    from ray.train import get_context

    context = get_context()
    nodes = _placed_nodes() or -(-context.get_world_size() // context.get_local_world_size())
    rank, workers = int(context.get_world_rank()), int(context.get_world_size())
    return Place(rank, workers, int(nodes), ray_job())


def _placed_nodes() -> int:
    """Return the number of nodes in the job's placement group, 0 if it has none.

    Several nodes of a cluster may share an address, so ranks within a node do not suffice.
    """
    from ray.util import get_current_placement_group, placement_group_table

    group = get_current_placement_group()
    if group is None:
        return 0
    return len(set(placement_group_table(group)["bundles_to_node_id"].values()))
