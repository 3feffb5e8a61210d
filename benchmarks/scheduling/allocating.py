"""The time of allocating many GPUs, of one and of three types, to many jobs."""

import time

import numpy as np

from app.decisions.allocation import Options
from app.decisions.allocation_program import allocate, allocate_makespan

_COUNTS = 64


def time_allocations(jobs: int, gpus: int, time_limit_s: float) -> list[tuple[str, ...]]:
    """Return a row for each solver: kinds, objective, seconds, method, exact, gap."""
    rows: list[tuple[str, ...]] = []
    for kinds in (1, 3):
        options = _options(jobs, kinds, gpus // kinds)
        capacity = np.full(kinds, gpus // kinds)
        for name, solver in (("sum", allocate), ("largest", allocate_makespan)):
            started = time.perf_counter()
            allocation = solver(options, jobs, capacity, time_limit_s=time_limit_s)
            seconds = time.perf_counter() - started
            assert allocation is not None
            gap = "unknown" if allocation.gap is None else f"{allocation.gap:.2g}"
            rows.append(
                (
                    str(kinds),
                    name,
                    f"{seconds:.2f}",
                    allocation.method,
                    str(allocation.is_exact),
                    gap,
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
