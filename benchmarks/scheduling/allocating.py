"""The time of allocating many GPUs, of one and of three types, to many jobs."""

import time

import numpy as np

from app.decisions.allocation import NOTHING, Options
from app.decisions.allocation_program import allocate
from app.decisions.makespan import allocate_makespan

_COUNTS = 64
_MOST_GPUS = 512


def time_allocations(jobs: int, gpus: int, time_limit_s: float) -> list[tuple[str, ...]]:
    """Return a row for each solver: kinds, objective, seconds, jobs left out, method, exact, gap.

    Jobs are left out where they do not all fit: as few as possible, then the objective counts.
    """
    rows: list[tuple[str, ...]] = []
    for kinds in (1, 3):
        options = _options(jobs, kinds, min(gpus // kinds, _MOST_GPUS))
        capacity = np.full(kinds, gpus // kinds)
        for name, solver in (("sum", allocate), ("largest", allocate_makespan)):
            started = time.perf_counter()
            allocation = solver(options, jobs, capacity, time_limit_s=time_limit_s)
            if allocation is None:
                equal = np.ones(jobs)
                allocation = solver(options, jobs, capacity, equal, time_limit_s=time_limit_s)
            seconds = time.perf_counter() - started
            assert allocation is not None
            rows.append(
                (
                    str(kinds),
                    name,
                    f"{seconds:.2f}",
                    str(int((allocation.choice == NOTHING).sum())),
                    allocation.method,
                    str(allocation.is_exact),
                    "unknown" if allocation.gap is None else f"{allocation.gap:.2g}",
                )
            )
    return rows


def _options(jobs: int, kinds: int, most: int) -> Options:
    rng = np.random.default_rng(7)
    counts = np.unique(np.geomspace(1, most, _COUNTS).round().astype(np.int64))
    job, kind, gpus = (
        axis.ravel() for axis in np.meshgrid(np.arange(jobs), np.arange(kinds), counts)
    )
    work, exponent = rng.lognormal(8.0, 1.5, jobs), rng.uniform(0.5, 0.95, jobs)
    speed = rng.uniform(0.5, 2.0, (jobs, kinds))
    return Options(job, kind, gpus, work[job] / speed[job, kind] / gpus ** exponent[job])
