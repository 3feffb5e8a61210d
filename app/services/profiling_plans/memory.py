"""Which configurations need at least as much GPU memory as a run that ran out of it."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from app.domain.configurations import Scenario
from app.services.profiling_plans.candidates import identity_of

_Bounds = defaultdict[Hashable, dict[int, float]]
"""Local batches by kind of need and number of workers."""


class _Need(NamedTuple):
    """What decides the memory of one GPU; needs of one kind can be compared."""

    kind: Hashable
    workers: int
    local_batch: float


def lacks_memory(
    candidates: Sequence[Scenario],
    out_of_memory: Sequence[Scenario],
    succeeded: Iterable[Scenario],
) -> list[bool]:
    """Return whether each candidate needs at least what a run that ran out of memory needed.

    That holds for the same GPU type and parameters, at most as many workers and at least the local
    batch, and without a GPU for the same configuration. Larger parameters do not count: more steps
    of gradient accumulation, for example, need less. If a run that needs as much succeeded,
    something else used the memory, and the run that ran out of it says nothing.
    """
    if not out_of_memory:
        return [False] * len(candidates)
    enough = _bounds(map(_need_of, succeeded), max)
    needs = [
        need
        for need in map(_need_of, out_of_memory)
        if not any(
            workers <= need.workers and local_batch >= need.local_batch
            for workers, local_batch in enough[need.kind].items()
        )
    ]
    lacking = _bounds(needs, min)
    return [
        any(
            need.workers <= workers and need.local_batch >= local_batch
            for workers, local_batch in lacking[need.kind].items()
        )
        for need in map(_need_of, candidates)
    ]


def _bounds(needs: Iterable[_Need], choose: Callable[[float, float], float]) -> _Bounds:
    bounds: _Bounds = defaultdict(dict)
    for kind, workers, local_batch in needs:
        of_kind = bounds[kind]
        of_kind[workers] = choose(of_kind.get(workers, local_batch), local_batch)
    return bounds


def _need_of(scenario: Scenario) -> _Need:
    configuration, batch_size = scenario.configuration, scenario.work.batch_size
    kind: Hashable = identity_of(scenario)
    if configuration.gpu_type is not None:
        parameters = tuple(sorted(scenario.parameters.items()))
        kind = configuration.gpu_type, batch_size is None, parameters
    workers = configuration.workers
    return _Need(kind, workers, 0.0 if batch_size is None else batch_size / workers)
