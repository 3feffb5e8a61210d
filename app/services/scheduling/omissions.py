"""What the options of elastic jobs must meet, and why jobs and GPU types get nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate

import numpy as np

from app.decisions.durations import FloatArray
from app.domain.allocations import (
    AllocationRequest,
    ElasticJob,
    Omission,
    OmittedJob,
    OmittedType,
    Placed,
)
from app.pricing.gpus import gpu_key
from app.services.scheduling.beliefs import Beliefs
from app.services.scheduling.options import Forecasts, Option, worker_counts
from models import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Requirement:
    """Which options meet it, shape (n_options,), and what is said where none does."""

    omission: Omission
    is_met: BoolArray


def requirements_of(
    request: AllocationRequest, forecasts: Forecasts, values: FloatArray
) -> list[Requirement]:
    """Return what the options must meet; `values` are the goal's, NaN without a price.

    The first that none of a job's options meets beside those before it tells why the job gets
    nothing.
    """
    return [
        Requirement(Omission.BEYOND_RANGE, forecasts.within_range),
        Requirement(Omission.OUT_OF_MEMORY, forecasts.fits >= request.confidence),
        Requirement(Omission.DEADLINE, forecasts.on_time >= request.confidence),
        Requirement(Omission.PRICE_UNKNOWN, ~np.isnan(values)),
    ]


def all_met(requirements: Sequence[Requirement]) -> BoolArray:
    """Return which options meet all of at least one requirement."""
    return reduce(np.logical_and, (requirement.is_met for requirement in requirements))


def omitted_jobs(
    request: AllocationRequest,
    options: Sequence[Option],
    beliefs: Beliefs,
    forecasts: Forecasts,
    requirements: Sequence[Requirement],
) -> list[OmittedJob]:
    """Return the jobs that have no option at all, and why."""
    jobs = forecasts.of("job")
    rows = _rows_by(jobs)
    allowed = set(jobs[all_met(requirements)].tolist())
    with_options = {option.job for option in options}
    refusals = {options[row].job: error for row, error in sorted(beliefs.problems.items())}
    omitted = []
    for index in sorted(set(range(len(request.jobs))) - allowed):
        job, problem = request.jobs[index], None
        if index not in with_options:
            reason = _without_options(request, job)
        elif index not in rows:
            reason, problem = Omission.NO_FORECAST, refusals[index]
        else:
            reason = _first_unmet(requirements, rows[index])
        omitted.append(OmittedJob(job, reason, problem, _kept_by(request, job)))
    return omitted


def omitted_types(
    request: AllocationRequest,
    options: Sequence[Option],
    beliefs: Beliefs,
    forecasts: Forecasts,
    requirements: Sequence[Requirement],
) -> tuple[OmittedType, ...]:
    """Return the GPU types that no job can get, of jobs that can get another type, and why.

    Deadlines do not count: a type that is too slow for a job lacks nothing.
    """
    jobs, kinds = forecasts.of("job"), forecasts.of("kind")
    on_types = [each for each in requirements if each.omission is not Omission.DEADLINE]
    is_usable = all_met(on_types)
    placeable = set(jobs[is_usable].tolist())
    rows = _rows_by(kinds, np.isin(jobs, list(placeable)))
    refused = [(options[row], error) for row, error in beliefs.problems.items()]
    problems = {option.kind: error for option, error in refused if option.job in placeable}
    wanted = {option.kind for option in options if option.job in placeable}
    names = list(request.capacity)
    return tuple(
        OmittedType(names[kind], _first_unmet(on_types, rows[kind]))
        if kind in rows
        else OmittedType(names[kind], Omission.NO_FORECAST, problems[kind])
        for kind in sorted(wanted - set(kinds[is_usable].tolist()))
    )


def kept_gpus(request: AllocationRequest, omitted: Sequence[OmittedJob]) -> dict[str, int]:
    """Return how many GPUs of each type of the capacity are kept by jobs without an option."""
    kept = dict.fromkeys(request.capacity, 0)
    for job in omitted:
        if job.keeps is not None and job.keeps.gpu_type in kept:
            kept[job.keeps.gpu_type] += job.keeps.workers
    return {name: min(gpus, request.capacity[name]) for name, gpus in kept.items()}


def _rows_by(groups: IntArray, is_counted: BoolArray | None = None) -> dict[int, IntArray]:
    """Return the rows of each group, of those that count."""
    rows = np.arange(groups.size) if is_counted is None else np.flatnonzero(is_counted)
    ordered = rows[np.argsort(groups[rows], kind="stable")]
    names, starts = np.unique(groups[ordered], return_index=True)
    return dict(zip(names.tolist(), np.split(ordered, starts[1:]), strict=False))


def _first_unmet(requirements: Sequence[Requirement], rows: IntArray) -> Omission:
    """Return the first requirement that none of the rows meets beside those before it."""
    is_met = accumulate((each.is_met[rows] for each in requirements), np.logical_and)
    pairs = zip(requirements, is_met, strict=True)
    return next(requirement.omission for requirement, met in pairs if not met.any())


def _without_options(request: AllocationRequest, job: ElasticJob) -> Omission:
    """Return why a job has no option, whatever its forecasts say."""
    wanted = set(map(gpu_key, job.gpu_types))
    if wanted and wanted.isdisjoint(map(gpu_key, request.capacity)):
        return Omission.NO_SUCH_GPU
    # With as many GPUs as it could take, only the numbers of workers decide.
    enough = max(job.worker_counts, default=job.min_workers)
    return Omission.TOO_LARGE if worker_counts(job, enough) else Omission.NO_WORKER_COUNT


def _kept_by(request: AllocationRequest, job: ElasticJob) -> Placed | None:
    """Return what a running job holds, its GPU type as the capacity names it, if it does."""
    if job.current is None:
        return None
    names = {gpu_key(name): name for name in request.capacity}
    held_type = job.current.gpu_type
    return replace(job.current, gpu_type=names.get(gpu_key(held_type), held_type))
