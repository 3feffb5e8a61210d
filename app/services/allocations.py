"""The use cases of distributing GPUs over elastic jobs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.decisions.allocation import NOTHING, IntArray, Options, Solution
from app.decisions.allocation_program import allocate
from app.decisions.durations import FloatArray
from app.decisions.makespan import allocate_makespan
from app.domain.allocations import (
    AllocatedJob,
    Allocation,
    AllocationRequest,
    ElasticJob,
    Goal,
    Move,
    Omission,
    OmittedJob,
    OmittedType,
    Placed,
    Shortage,
)
from app.domain.errors import Fault, InsufficientCapacityError, InvalidRequestError
from app.domain.identifiers import ProjectId
from app.domain.schedules import Band
from app.pricing.billing import exact_cost, shown
from app.pricing.gpus import gpu_key
from app.services.context import ServiceContext
from app.services.scheduling.beliefs import BeliefReader, Beliefs
from app.services.scheduling.grounds import warnings_of
from app.services.scheduling.omissions import (
    all_met,
    kept_gpus,
    omitted_jobs,
    omitted_types,
    requirements_of,
)
from app.services.scheduling.options import (
    Forecasts,
    forecasts_of,
    goal_values,
    is_kept,
    options_of,
    questions_of,
)
from models import BoolArray

_MIN_LIMIT_S = 0.1


@dataclass(frozen=True, slots=True)
class _Problem:
    """The jobs that can be placed, renumbered, with their options.

    `rows` are the options' indices in the forecasts, `jobs` those of the jobs in the request;
    `capacity` is what remains beside the GPUs `kept` by running jobs without an option.
    """

    options: Options
    rows: IntArray
    jobs: IntArray
    capacity: IntArray
    kept: Mapping[str, int]
    weights: FloatArray


class AllocationService:
    """Use cases of distributing GPUs over elastic jobs."""

    def __init__(self, context: ServiceContext, beliefs: BeliefReader) -> None:
        self._context = context
        self._beliefs = beliefs

    def allocate(self, project_id: ProjectId, request: AllocationRequest) -> Allocation:
        """Return how many GPUs of which type each job gets.

        A running job without an option keeps the GPUs that it holds.

        Raises
        ------
        InsufficientCapacityError
            If the jobs' minimums do not fit and no job may be left out.
        InvalidRequestError
            If there are too many options, or their prices are in several currencies.
        StorageUnavailableError
            If the database does not answer and something is not in memory.
        """
        options = options_of(request)
        is_priced = request.goal is Goal.COST
        beliefs = self._beliefs.read(project_id, questions_of(request, options), priced=is_priced)
        if is_priced:
            _require_one_currency(beliefs)
        forecasts = forecasts_of(request, options, beliefs, self._context.now())
        values = goal_values(request, forecasts)
        requirements = requirements_of(request, forecasts, values)
        allowed = all_met(requirements)
        omitted = omitted_jobs(request, options, beliefs, forecasts, requirements)
        problem = _problem(request, forecasts, values, allowed, kept_gpus(request, omitted))
        solution = _solve(request, problem)
        types = omitted_types(request, options, beliefs, forecasts, requirements)
        return _to_allocation(request, forecasts, beliefs, problem, solution, omitted, types)


def _require_one_currency(beliefs: Beliefs) -> None:
    currencies = {offer.price.currency for offer in beliefs.offers if offer is not None}
    if len(currencies) > 1:
        names = ", ".join(sorted(currencies))
        fault = Fault(
            "Costs cannot be compared.",
            "Ask with one pricing.currency; store missing rates with POST /v1/exchange-rates.",
            field="pricing",
        )
        raise InvalidRequestError(f"The prices are in several currencies: {names}.", [fault])


def _problem(
    request: AllocationRequest,
    forecasts: Forecasts,
    values: FloatArray,
    allowed: BoolArray,
    kept: Mapping[str, int],
) -> _Problem:
    rows = np.flatnonzero(allowed)
    jobs, renumbered = np.unique(forecasts.of("job")[rows], return_inverse=True)
    weights = np.array([request.jobs[job].weight for job in jobs.tolist()], dtype=np.float64)
    options = Options(
        renumbered, forecasts.of("kind")[rows], forecasts.workers()[rows], values[rows]
    )
    remaining = [gpus - kept[name] for name, gpus in request.capacity.items()]
    capacity = np.array(remaining, dtype=np.int64)
    return _Problem(options, rows, jobs, capacity, kept, weights)


def _solve(request: AllocationRequest, problem: _Problem) -> Solution:
    solver = allocate_makespan if request.goal is Goal.MAKESPAN else allocate
    ends_at = time.monotonic() + request.time_limit_s
    arguments = (problem.options, problem.jobs.size, problem.capacity)
    complete = solver(*arguments, time_limit_s=request.time_limit_s)
    if complete is not None:
        return complete
    remaining_s = max(ends_at - time.monotonic(), _MIN_LIMIT_S)
    partial = solver(*arguments, problem.weights, time_limit_s=remaining_s)
    assert partial is not None
    # That the jobs do not all fit is not proven where the time was short.
    if request.on_shortage is Shortage.REFUSE and (partial.choice == NOTHING).any():
        raise _shortage(request, problem, partial)
    return partial


def _shortage(
    request: AllocationRequest, problem: _Problem, partial: Solution
) -> InsufficientCapacityError:
    min_gpus = np.full(problem.jobs.size, np.iinfo(np.int64).max)
    np.minimum.at(min_gpus, problem.options.job, problem.options.gpus)
    refs = [request.jobs[job].ref for job in problem.jobs.tolist()]
    is_placed = (partial.choice != NOTHING).tolist()
    return InsufficientCapacityError(
        needed=int(min_gpus.sum()),
        offered=int(problem.capacity.sum()),
        kept=sum(problem.kept.values()),
        fitting=[ref for ref, placed in zip(refs, is_placed, strict=True) if placed],
        left_out=[
            (ref, int(gpus))
            for ref, placed, gpus in zip(refs, is_placed, min_gpus, strict=True)
            if not placed
        ],
    )


def _to_allocation(
    request: AllocationRequest,
    forecasts: Forecasts,
    beliefs: Beliefs,
    problem: _Problem,
    solution: Solution,
    omitted: list[OmittedJob],
    types: tuple[OmittedType, ...],
) -> Allocation:
    is_placed = solution.choice != NOTHING
    chosen = solution.choice[is_placed]
    rows = problem.rows[chosen]
    left_out = [
        OmittedJob(request.jobs[job], Omission.CAPACITY)
        for job in problem.jobs[~is_placed].tolist()
    ]
    used = dict(problem.kept)
    for row in rows.tolist():
        placed = forecasts.options[row].placed
        used[placed.gpu_type] += placed.workers
    return Allocation(
        request=request,
        allocated=_allocated(request, forecasts, beliefs, rows),
        omitted=(*omitted, *left_out),
        omitted_types=types,
        used=used,
        objective=_objective(request.goal, problem, solution),
        method=solution.method,
        is_exact=solution.is_exact,
        gap=solution.gap,
    )


def _objective(goal: Goal, problem: _Problem, solution: Solution) -> float | None:
    is_placed = solution.choice != NOTHING
    values = problem.options.value[solution.choice[is_placed]]
    if not values.size:
        return None
    match goal:
        case Goal.THROUGHPUT:
            return float(-values.sum())
        case Goal.MEAN_COMPLETION:
            return float(values.sum() / problem.weights[is_placed].sum())
        case Goal.MAKESPAN:
            return float(values.max())
        case Goal.COST:
            return float(values.sum())


def _allocated(
    request: AllocationRequest, forecasts: Forecasts, beliefs: Beliefs, rows: IntArray
) -> tuple[AllocatedJob, ...]:
    remaining, restart = forecasts.left.take(rows), forecasts.restart_s[rows]
    lower, upper = remaining.interval(request.confidence)
    bands = zip(
        (remaining.mean() + restart).tolist(),
        (remaining.median() + restart).tolist(),
        (lower + restart).tolist(),
        (upper + restart).tolist(),
        strict=True,
    )
    warnings = warnings_of(beliefs, rows, forecasts.is_running[rows], request.confidence)
    allocated = []
    for row, band, on_grounds in zip(rows.tolist(), bands, warnings, strict=True):
        option, offer = forecasts.options[row], beliefs.offers[row]
        job = request.jobs[option.job]
        cost = None if offer is None else exact_cost(offer, band[0])
        allocated.append(
            AllocatedJob(
                job=job,
                placed=option.placed,
                move=_move(job, option.placed),
                completion_seconds=Band(*band),
                deadline_probability=None
                if job.deadline is None
                else float(forecasts.on_time[row]),
                cost=None if cost is None else shown(cost),
                currency=None if offer is None else offer.price.currency,
                warnings=on_grounds,
            )
        )
    return tuple(allocated)


def _move(job: ElasticJob, placed: Placed) -> Move:
    current = job.current
    if current is None:
        return Move.START
    if is_kept(current, placed):
        return Move.KEEP
    if gpu_key(current.gpu_type) != gpu_key(placed.gpu_type):
        return Move.CHANGE
    if current.workers == placed.workers:
        return Move.CHANGE
    return Move.GROW if placed.workers > current.workers else Move.SHRINK
