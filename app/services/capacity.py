"""The use cases of forecasting how many GPUs jobs will need, hour by hour."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from app.decisions.capacity import (
    Demand,
    IntArray,
    demand,
    draw_durations,
    draws_for,
    simulate_queue,
)
from app.decisions.durations import FloatArray
from app.domain.allocations import ANY_TYPE, Placed
from app.domain.capacity import (
    CapacityRequest,
    CapacityView,
    DemandedJob,
    HourOfDemand,
    JobWarning,
    OmittedFromDemand,
    TypeDemand,
)
from app.domain.configurations import Scenario
from app.domain.forecasts import ForecastWarning
from app.domain.identifiers import ProjectId
from app.domain.instants import later
from app.domain.schedules import QueuedJob
from app.pricing.gpus import gpu_key
from app.services.context import ServiceContext
from app.services.schedules import question_of, remaining_of
from app.services.scheduling.beliefs import BeliefReader, Beliefs
from app.services.scheduling.grounds import warnings_of
from app.services.scheduling.options import is_kept


class CapacityService:
    """Use cases of forecasting how many GPUs jobs will need, hour by hour."""

    def __init__(self, context: ServiceContext, beliefs: BeliefReader) -> None:
        self._context = context
        self._beliefs = beliefs

    def view(self, project_id: ProjectId, request: CapacityRequest) -> CapacityView:
        """Return the demand for GPUs of running and queued jobs.

        Running jobs hold their GPUs, even if these are more than the capacity; queued ones start in
        order as soon as enough are free (at once on a type whose capacity is not given). Jobs that
        cannot be forecast are listed; queued ones are not counted, running ones hold their GPUs
        throughout. A job that is moved or resized holds its new GPUs while it restarts.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer and something is not in memory.
        """
        jobs = [*request.running, *request.queued]
        beliefs = self._beliefs.read(project_id, [question_of(job) for job in jobs])
        gpu_types = [
            _gpu_type(jobs[row], scenario)
            for row, scenario in zip(beliefs.known, beliefs.scenarios, strict=True)
        ]
        warnings = _warnings(request, jobs, gpu_types, beliefs)
        restarts = np.zeros(len(gpu_types))
        for column, row in enumerate(beliefs.known):
            if _is_moved(jobs[row], gpu_types[column]):
                restarts[column] = jobs[row].restart_s
                # The elapsed time belongs to another place.
                jobs[row] = replace(jobs[row], elapsed_s=None)
        draws = draws_for(len(jobs), max(request.capacity.values(), default=1))
        left = remaining_of(jobs, beliefs)
        durations = draw_durations(left, *_shared(beliefs), request.seed, draws)
        durations += restarts
        endless = [row for row in beliefs.problems if row < len(request.running)]
        rows = [*beliefs.known, *endless]
        gpu_types += [jobs[row].scenario.configuration.gpu_type or ANY_TYPE for row in endless]
        warnings += [()] * len(endless)
        durations = np.pad(durations, ((0, 0), (0, len(endless))), constant_values=np.inf)
        groups = _by_type(request, gpu_types)
        omitted = [
            OmittedFromDemand(jobs[row], "no_forecast", problem)
            for row, problem in sorted(beliefs.problems.items())
        ]
        now = self._context.now()
        demands = []
        for name, members_of in groups.items():
            in_order = sorted(members_of, key=rows.__getitem__)
            n_running = sum(rows[column] < len(request.running) for column in in_order)
            capacity = request.capacity.get(name)
            queued, too_large = _fitting(in_order[n_running:], rows, jobs, capacity)
            omitted += [OmittedFromDemand(jobs[row], "too_large") for row in too_large]
            columns = in_order[:n_running] + queued
            members = [jobs[rows[column]] for column in columns]
            notes = [warnings[column] for column in columns]
            demands.append(
                _demand(request, name, members, n_running, durations[:, columns], notes, now)
            )
        return CapacityView(request, tuple(demands), tuple(omitted))


def _shared(beliefs: Beliefs) -> tuple[IntArray, FloatArray]:
    """Return which regressor answered each known job, and the share of a run's noise in it."""
    sources = np.zeros(len(beliefs.known), dtype=np.int64)
    noise_shares = np.ones(len(beliefs.known))
    for source, answered in enumerate(beliefs.answers):
        sources[answered.places] = source
        noise_shares[answered.places] = answered.noise_shares
    return sources, noise_shares


def _gpu_type(job: DemandedJob, resolved: Scenario) -> str:
    """Return the GPU that a job names, or else the one implied by its instance type."""
    return job.scenario.configuration.gpu_type or resolved.configuration.gpu_type or ANY_TYPE


def _by_type(request: CapacityRequest, gpu_types: Sequence[str]) -> dict[str, list[int]]:
    """Return the jobs' indices by GPU type, named as in the capacity where it names the type."""
    names = {gpu_key(name): name for name in request.capacity}
    columns_by_type: dict[str, list[int]] = {name: [] for name in request.capacity}
    for column, gpu_type in enumerate(gpu_types):
        name = names.setdefault(gpu_key(gpu_type), gpu_type)
        columns_by_type.setdefault(name, []).append(column)
    return columns_by_type


def _warnings(
    request: CapacityRequest,
    jobs: Sequence[DemandedJob],
    gpu_types: Sequence[str],
    beliefs: Beliefs,
) -> list[tuple[ForecastWarning, ...]]:
    """Return what to know of each forecast."""
    is_running = [
        (row < len(request.running) or jobs[row].has_begun) and not _is_moved(jobs[row], gpu_type)
        for row, gpu_type in zip(beliefs.known, gpu_types, strict=True)
    ]
    columns = np.arange(len(is_running))
    return warnings_of(beliefs, columns, np.array(is_running, np.bool_), request.confidence)


def _is_moved(job: DemandedJob, gpu_type: str) -> bool:
    """Whether a job is moved or resized; without a named GPU it may stay where it is."""
    configuration, current = job.scenario.configuration, job.current
    if current is None:
        return False
    workers, batch_size = configuration.workers, job.scenario.work.batch_size
    names = {gpu_type, configuration.gpu_type or ANY_TYPE}
    return not any(is_kept(current, Placed(name, workers, batch_size)) for name in names)


def _fitting(
    columns: Sequence[int], rows: Sequence[int], jobs: Sequence[QueuedJob], capacity: int | None
) -> tuple[list[int], list[int]]:
    """Return the columns of queued jobs that fit, and the rows of those that never do."""
    too_large = {
        column
        for column in columns
        if capacity is not None and _gpus(jobs[rows[column]]) > capacity
    }
    fitting = [column for column in columns if column not in too_large]
    return fitting, [rows[column] for column in columns if column in too_large]


def _gpus(job: QueuedJob) -> int:
    return job.scenario.configuration.workers


def _demand(
    request: CapacityRequest,
    name: str,
    jobs: Sequence[QueuedJob],
    n_running: int,
    durations: FloatArray,
    warnings: Sequence[tuple[ForecastWarning, ...]],
    now: datetime,
) -> TypeDemand:
    capacity = request.capacity.get(name)
    gpus = np.array([_gpus(job) for job in jobs], dtype=np.int64)
    starts, ends = simulate_queue(durations, gpus, n_running, capacity)
    found = demand(starts, ends, gpus, request.hours, request.confidence)
    return TypeDemand(
        gpu_type=name,
        capacity=capacity,
        hours=tuple(
            _hour(now + timedelta(hours=hour), hour, found, capacity)
            for hour in range(request.hours)
        ),
        ends_at=later(now, _last_end_s(ends, request.confidence)),
        warnings=tuple(
            JobWarning(job, warning)
            for job, own in zip(jobs, warnings, strict=True)
            for warning in own
        ),
    )


def _last_end_s(ends: FloatArray, confidence: float) -> float:
    """Return when the last job has ended with a confidence, infinite where one never does."""
    if not ends.size:
        return 0.0
    last = ends.max(axis=1)
    return float(np.quantile(last, confidence)) if np.isfinite(last).all() else np.inf


def _hour(begins_at: datetime, hour: int, found: Demand, capacity: int | None) -> HourOfDemand:
    upper = int(found.upper[hour])
    return HourOfDemand(
        begins_at=begins_at,
        expected=float(found.expected[hour]),
        lower=int(found.lower[hour]),
        upper=upper,
        may_switch_off=None if capacity is None else max(capacity - upper, 0),
    )
