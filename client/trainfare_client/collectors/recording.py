"""Measures one training and makes a run of it: the part shared by all collectors."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, TypedDict

from trainfare_client.collectors import finite
from trainfare_client.collectors.delivering import (
    DEADLINE_S,
    Delivery,
    delivery_settings,
    write_sentence,
)
from trainfare_client.collectors.guarding import Guard
from trainfare_client.collectors.hardware import gpu_name
from trainfare_client.collectors.notebooks import CellWatch
from trainfare_client.collectors.outcomes import (
    FAILED,
    FAILURES,
    PREEMPTED,
    SUCCEEDED,
    EndWatch,
    RankNotes,
)
from trainfare_client.collectors.parameters import RunParameters
from trainfare_client.collectors.passes import Passes
from trainfare_client.collectors.surroundings import Place, is_profiled, read_labels, read_place
from trainfare_client.collectors.timing import Timing
from trainfare_client.collectors.usage import Usage
from trainfare_client.collectors.witness import Witness
from trainfare_client.errors import LostRunError, SpoolError
from trainfare_client.requests import encoded, without_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trainfare_client.documents import MeasuredRun
    from trainfare_client.settings import ClientSettings

_PREEMPTION_S: Final = 5.0
"""Whoever preempts the machine allows little time."""
_TRAINED_SHARE: Final = 0.1
"""A batch held for this fraction of a usual step was trained on: merely leaving is faster."""


class RunOptions(TypedDict, total=False):
    """What can be stated about a run; what is left out is measured or looked up if possible.

    `batch_size` is global, `dataset_size` in the workload's unit, `workers` the processes that
    train together. The first `warmup_steps` (3) may include compilation; `settings` replaces the
    environment's; `quiet` suppresses the sentence about the run's arrival.
    """

    dataset_size: float
    batch_size: float
    epochs: float
    workers: int
    nodes: int
    gpu_type: str
    instance_type: str
    provider: str
    region: str
    purchase: str
    parameters: Mapping[str, float | str]
    labels: Mapping[str, str]
    forecast_id: str
    external_id: str
    warmup_steps: int
    settings: ClientSettings
    quiet: bool


_WARMUP_STEPS: Final = 3
_CONFIGURATION: Final = ("gpu_type", "instance_type", "provider", "region", "purchase")
_WORK: Final = ("dataset_size", "batch_size", "epochs")


class Recorder:
    """The measurement of one run, from its construction to `finish`.

    No method raises an exception of its own; the first internal one is logged.
    """

    def __init__(
        self,
        workload: str,
        options: RunOptions,
        *,
        place: Place | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.guard = Guard()
        self._clock = clock
        self.workload = workload
        self.facts = finite.kept(options, self.guard)
        self.passes = Passes()
        self._pending_samples: float | None = None
        self._held_s: float | None = None
        self._largest_batch = 0.0
        self._is_finished = False
        self._end: tuple[str, float] | None = None
        self._delivery: Delivery | None = None
        self.timing = Timing(self._clock(), self._warmup_steps())
        self._started_at = datetime.now(timezone.utc)
        self._mark = self.timing.started
        self._labels: dict[str, str] = {}
        self.place = place or Place()
        self._watch = EndWatch(self.finish, self.finish_as_of_last_step)
        self._cells = CellWatch(lambda: self._mark, self.finish_as_of_last_step, clock)
        self._witness: Witness | None = None
        self._usage = Usage(self.guard)
        with self.guard:
            self._begin(place)
        # Look-ups so far, such as git on a slow disk, are not part of the training.
        self.timing.started = self._mark = self._clock()
        self._started_at = datetime.now(timezone.utc)

    def _begin(self, place: Place | None) -> None:
        self._check_names()
        self.place = place or read_place()
        self._settings = self.facts.get("settings") or delivery_settings(self.guard)
        self._notes = RankNotes(self._settings.spool.parent, self.workload, os.environ)
        if self.place.rank == 0:
            self._notes.clear()
            self._labels = read_labels()
        self._watch.start()
        self._cells.start()
        if self.place.job is not None and not is_profiled(self.workload):
            run = self.to_run(FAILED, self._clock())
            self._witness = Witness(run, self._settings, quiet=bool(self.facts.get("quiet")))
        self._usage.begin()

    def _warmup_steps(self) -> int:
        with self.guard:
            return int(self.facts.get("warmup_steps", _WARMUP_STEPS))
        return _WARMUP_STEPS

    def _check_names(self) -> None:
        unknown = self.facts.keys() - RunOptions.__annotations__.keys()
        if unknown:
            self.guard.complain(f"a run has no {', '.join(sorted(unknown))}")

    def add_facts(self, **facts: Any) -> None:
        """Add facts found by the collector, unless the user stated them."""
        for name, value in finite.kept(without_none(**facts), self.guard).items():
            self.facts.setdefault(name, value)

    def setup_is_over(self) -> None:
        """Start counting the run now; what came before is set-up. Only the first call counts."""
        if self.timing.steps_from is None:
            self._usage.setup_is_over()
            self.timing.steps_from = self._mark = self._clock()

    def mark(self) -> None:
        """Exclude the time since the last step from the next one: it was something else."""
        self._mark = self._clock()

    def data_arrived(self, samples: float | None = None) -> None:
        """Count the time since the last step as waiting for data, for a batch of `samples`."""
        self.setup_is_over()
        now = self._clock()
        self.timing.waiting.add(now - self._mark)
        self._mark = now
        samples = finite.kept({"samples": samples}, self.guard).get("samples")
        self._pending_samples = samples
        if samples:
            self._largest_batch = max(self._largest_batch, samples)

    def step_ended(self, samples: float | None = None) -> None:
        """Count the time since the last mark as one step over `samples` samples of all workers."""
        now = self._clock()
        self.timing.computing.add(now - self._mark)
        self._mark = now
        samples = finite.kept({"samples": samples}, self.guard).get("samples")
        counted = samples if samples is not None else self._pending_samples
        self.passes.samples += counted if counted is not None else self.facts.get("batch_size", 0)
        self._pending_samples = None

    def add_phase(self, name: str, seconds: float) -> None:
        """Add seconds to a phase."""
        for value in finite.kept({name: seconds}, self.guard).values():
            self.timing.add_phase(name, float(value))

    def leave_batch(self) -> None:
        """Note that the loop was left while it held a batch."""
        if self._pending_samples is not None:
            self._held_s = self._clock() - self._mark

    def settle_batch(self) -> None:
        """Count the batch that the loop held when it was left, if it was trained on before.

        A loop that ends after a number of steps may leave before or after the last batch's step;
        how long it held the batch decides. Only for loops that continued or succeeded: a batch
        ended by an exception does not count.
        """
        samples, held_s = self._pending_samples, self._held_s
        self._pending_samples = self._held_s = None
        usual_s = self.timing.computing.usual_s()
        if samples is None or usual_s is None:
            return
        if held_s is None:
            # When the loop was left is unknown; what came after it is not part of the step.
            held_s = min(self._clock() - self._mark, usual_s)
        if held_s >= usual_s * _TRAINED_SHARE:
            self.timing.computing.add(held_s)
            self.passes.samples += samples

    def finish(self, status: str = SUCCEEDED) -> None:
        """End the measurement and deliver the run, once; done by rank 0, or the rank that fails."""
        if self._is_finished and self._end is not None and self._mark > self._end[1]:
            self.guard.complain("steps after its run had ended. Make a collector for each training")
        self._settle_last_batch(status)
        self._finish_at(status, self._cells.ended_at() if self.timing.has_begun() else None)

    async def finish_awaited(self, status: str) -> None:
        """End as `finish` does; lets other asyncio tasks continue while the run is sent."""
        self._settle_last_batch(status)
        if self._must_end(status):
            with self.guard, self._delivering(status, None) as delivery:
                if delivery is not None:
                    await delivery.upload_async()
            self._close()

    def _settle_last_batch(self, status: str) -> None:
        if status == SUCCEEDED:
            with self.guard:
                self.settle_batch()

    def finish_as_of_last_step(self, status: str) -> None:
        """End a measurement that nobody ended when its loop did.

        The process may have done other things for hours since; the last step, or the beginning of
        the first, is the last known moment of the training. In a notebook, one that has no step is
        dropped: its cell may be corrected and executed again.
        """
        has_begun = self.timing.has_begun()
        if has_begun or self._cells.ended_at() is None:
            self._finish_at(status, self._mark if has_begun else None)
        else:
            self.discard()

    def discard(self) -> None:
        """End a measurement without any training; one that has ended stays as it is."""
        if not self._is_finished and not self._watch.is_in_a_child():
            self._close()

    def _close(self) -> None:
        self._is_finished = True
        with self.guard:
            self._watch.stop()
            self._cells.stop()
        self._dismiss_witness()

    def _finish_at(self, status: str, ended_at: float | None) -> None:
        if self._must_end(status):
            with self.guard, self._delivering(status, ended_at) as delivery:
                if delivery is not None:
                    delivery.upload()
            self._close()

    def _must_end(self, status: str) -> bool:
        if self._is_finished or self._watch.is_in_a_child():
            return False
        if self._delivery is not None:
            # A signal came during delivery, or Ctrl-C interrupted it.
            self._hurry(_PREEMPTION_S if status == PREEMPTED else 0.0)
            return False
        if status == SUCCEEDED:
            self._dismiss_witness()
        return True

    def _dismiss_witness(self) -> None:
        witness, self._witness = self._witness, None
        with self.guard:
            if witness is not None:
                witness.dismiss()

    def _begin_delivery(self, status: str, ended_at: float | None) -> Delivery | None:
        """Return the delivery of the run, None if this process is not the one to report it."""
        if status == SUCCEEDED:
            status = self._usage.status_of_steps()
        is_now, ended_at = ended_at is None, self._clock() if ended_at is None else ended_at
        self._usage.end(is_now=is_now)
        if self.place.rank == 0:
            status = self._notes.cause(status)
        else:
            self._notes.leave(status)
        # A signal in here ends the run from within; the first status stands.
        status, ended_at = self._end = self._end or (status, ended_at)
        is_shared = self.place.job is not None and status in FAILURES
        # A scheduler that notices a failure may end rank 0 before it can report.
        if self.place.rank != 0 and not is_shared:
            return None
        if is_profiled(self.workload):
            self._print("Trainfare: the session of `trainfare profile` reports this run.")
            return None
        run = self._run_to_deliver(status, ended_at)
        if self._delivery is not None:
            return None
        deadline_s = _PREEMPTION_S if status == PREEMPTED else DEADLINE_S
        self._delivery = Delivery(run, self._settings, deadline_s=deadline_s, is_shared=is_shared)
        return self._delivery

    @contextlib.contextmanager
    def _delivering(self, status: str, ended_at: float | None) -> Iterator[Delivery | None]:
        """Run the block, which waits for the service, then report what became of the run."""
        delivery = self._begin_delivery(status, ended_at)
        if delivery is None:
            yield None
            return
        if self._watch.is_leaving:
            # A scheduler that ended the process by a signal does not wait for long. A spool error
            # that matters is reported below.
            with contextlib.suppress(SpoolError):
                delivery.keep()
        try:
            yield delivery
            with self._watch.deferring_signals():
                self._print(delivery.settle())
        except Exception:
            raise
        except BaseException:
            # Ctrl-C, a cancelled task, or the user's signal handler raised: no time is left.
            self._hurry(0.0)
            raise

    def _hurry(self, patience_s: float) -> None:
        with self.guard:
            if self._delivery is not None:
                self._print(self._delivery.hurry(patience_s))

    def _print(self, text: str | None) -> None:
        if text is not None and not self.facts.get("quiet"):
            write_sentence(text)

    def _run_to_deliver(self, status: str, ended_at: float) -> MeasuredRun:
        try:
            run = self.to_run(status, ended_at)
            encoded(run)
        except Exception as error:
            raise LostRunError(self.workload, error) from error
        return run

    def to_run(self, status: str, ended_at: float) -> MeasuredRun:
        """Return the run as it is uploaded."""
        planned_epochs = self.facts.get("epochs")
        self._add_found_facts()
        parameters = RunParameters.read(self.facts.get("parameters") or {}, self.guard)
        configuration = {name: self.facts.get(name) for name in (*_CONFIGURATION, "nodes")}
        work = without_none(**{name: self.facts.get(name) for name in _WORK})
        duration_s = max(self.timing.duration_s(ended_at), 1e-6)
        run: dict[str, Any] = {
            "workload": self.workload,
            "external_id": self.facts.get("external_id") or self._external_id(status),
            "status": status,
            "duration_seconds": duration_s,
            "started_at": self._started_at.isoformat(),
            "configuration": {
                **without_none(**configuration),
                "workers": self.facts.get("workers") or self.place.workers or 1,
            },
            "work": {**parameters.work, **work},
            "parameters": parameters.own,
            "phases": self.timing.phase_seconds(),
            "resources": self._usage.resources(duration_s, self.place.workers or 1),
            "labels": {**self._labels, **(self.facts.get("labels") or {})},
            **without_none(forecast_id=self.facts.get("forecast_id")),
            **without_none(
                progress=None if status == SUCCEEDED else self._progress(planned_epochs)
            ),
        }
        return run  # type: ignore[return-value] # built field by field

    def _external_id(self, status: str) -> str:
        """Return an id of the run; all ranks of a failing job derive the same one."""
        if self.place.job is not None and status in FAILURES:
            return f"failed-{self.workload}-{self.place.job}"
        return f"run-{uuid.uuid4()}"

    def _add_found_facts(self) -> None:
        self.add_facts(nodes=self.place.nodes, gpu_type=gpu_name())
        self.add_facts(batch_size=self._largest_batch or None)
        if "epochs" not in self.facts:
            self.add_facts(dataset_size=self.passes.dataset_size())
            self.add_facts(epochs=self.passes.epochs(self.facts.get("dataset_size")))

    def _progress(self, planned_epochs: float | None) -> float | None:
        """Return the fraction done of the stated work; 1 without a plan, None if unknown."""
        epochs_done = self.passes.epochs(self.facts.get("dataset_size"))
        if epochs_done is None:
            return None
        return float(min(epochs_done / planned_epochs, 1.0)) if planned_epochs else 1.0
