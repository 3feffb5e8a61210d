"""The use cases of ordering a queue of jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan

import numpy as np

from app.decisions.durations import DurationBeliefs, FloatArray
from app.decisions.progress import RemainingBeliefs, remaining
from app.decisions.queue_order import aged_service, deadline_keys, order
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest, ForecastWarning
from app.domain.identifiers import ProjectId
from app.domain.instants import later
from app.domain.schedules import (
    Band,
    Placement,
    Policy,
    QueuedJob,
    RankedJob,
    Ranking,
    RankRequest,
)
from app.services.context import ServiceContext
from app.services.scheduling.beliefs import BeliefReader, Beliefs
from app.services.scheduling.grounds import warnings_of
from models import IntArray


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures of each job, each of shape (n,); NaN where it cannot be forecast.

    `left` and `service` are bands: expected value, median, lower and upper bound.
    """

    left: list[FloatArray]
    service: list[FloatArray]
    safe_s: FloatArray
    on_time: FloatArray
    slack_s: FloatArray


class ScheduleService:
    """Use cases of ordering a queue of jobs."""

    def __init__(self, context: ServiceContext, beliefs: BeliefReader) -> None:
        self._context = context
        self._beliefs = beliefs

    def rank(self, project_id: ProjectId, request: RankRequest) -> Ranking:
        """Return a queue in the order of a policy.

        Jobs that cannot be forecast carry their problem and are placed where the request says.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer and something is not in memory.
        """
        questions = [question_of(job) for job in request.jobs]
        beliefs = self._beliefs.read(project_id, questions)
        now = self._context.now()
        figures = _figures(request, beliefs, now)
        warnings = _warnings(request, beliefs)
        waited = np.array([_waited(job, now) for job in request.jobs])
        submitted = np.array([_instant(job.submitted_at) for job in request.jobs])
        keys = _keys(request, figures, np.nan_to_num(waited), now)
        places, priority = order(keys, submitted)
        ranked = _ranked(request.jobs, figures, waited, priority, beliefs.problems, warnings, now)
        return Ranking(request, tuple(map(ranked.__getitem__, places.tolist())))


def question_of(job: QueuedJob) -> ForecastRequest:
    """Return the question to the regressor about a job."""
    return ForecastRequest(
        job.workload, job.scenario, pricing=job.pricing, spot=job.spot, record=False
    )


def remaining_of(jobs: Sequence[QueuedJob], beliefs: Beliefs) -> RemainingBeliefs:
    """Return the forecasts of the time that the known jobs still need."""
    forecast_jobs = [jobs[row] for row in beliefs.known]
    progress = np.array([job.progress for job in forecast_jobs], dtype=np.float64)
    elapsed = np.array(
        [np.nan if job.elapsed_s is None else job.elapsed_s for job in forecast_jobs]
    )
    return remaining(beliefs.durations, progress, elapsed.astype(np.float64))


def _warnings(request: RankRequest, beliefs: Beliefs) -> dict[int, tuple[ForecastWarning, ...]]:
    """Return what to know of the forecasts, by job."""
    has_begun = np.array([request.jobs[row].has_begun for row in beliefs.known], dtype=np.bool_)
    columns = np.arange(len(beliefs.known))
    found = warnings_of(beliefs, columns, has_begun, request.confidence)
    return dict(zip(beliefs.known, found, strict=True))


def _waited(job: QueuedJob, now: datetime) -> float:
    if job.submitted_at is None:
        return np.nan
    return max((now - job.submitted_at).total_seconds(), 0.0)


def _instant(instant: datetime | None) -> float:
    return np.inf if instant is None else instant.timestamp()


def _figures(request: RankRequest, beliefs: Beliefs, now: datetime) -> _Figures:
    jobs = request.jobs
    left = remaining_of(jobs, beliefs)
    is_whole = request.policy is Policy.SHORTEST_SERVICE_FIRST
    counted = beliefs.durations if is_whole else left
    workers = np.array([jobs[row].scenario.configuration.workers for row in beliefs.known])
    seconds_left = (
        np.array([_instant(jobs[row].deadline) for row in beliefs.known]) - now.timestamp()
    )
    safe = left.quantile(request.confidence)
    finite = np.where(np.isinf(seconds_left), 1.0, seconds_left)

    def scatter(values: FloatArray) -> FloatArray:
        by_job = np.full(len(jobs), np.nan)
        by_job[beliefs.known] = values
        return by_job

    return _Figures(
        left=[scatter(band) for band in _band(left, request.confidence)],
        service=[scatter(band * workers) for band in _band(counted, request.confidence)],
        safe_s=scatter(safe),
        on_time=scatter(np.where(np.isinf(seconds_left), np.nan, left.probability_below(finite))),
        slack_s=scatter(seconds_left - safe),
    )


def _band(beliefs: DurationBeliefs | RemainingBeliefs, confidence: float) -> list[FloatArray]:
    return [beliefs.mean(), beliefs.quantile(0.5), *beliefs.interval(confidence)]


def _keys(
    request: RankRequest, figures: _Figures, waited: FloatArray, now: datetime
) -> tuple[FloatArray, ...]:
    is_unknown = np.isnan(figures.service[0])
    known_service = figures.service[0][~is_unknown]
    stand_in = float(np.median(known_service)) if known_service.size else 1.0
    service = aged_service(
        np.where(is_unknown, stand_in, figures.service[0]), waited, request.ageing_s
    )
    unknown_rank = {Placement.FIRST: -1.0, Placement.MEDIAN: 0.0, Placement.LAST: 1.0}[
        request.unknown
    ]
    unknown_keys = np.where(is_unknown, unknown_rank, 0.0)
    if request.policy is not Policy.DEADLINE_RISK:
        return (unknown_keys, service)
    # A job with a deadline that cannot be forecast is assumed to be as long as the median job.
    typical = float(np.nanmedian(figures.safe_s)) if known_service.size else 0.0
    seconds_left = np.array([_instant(job.deadline) for job in request.jobs]) - now.timestamp()
    slack = np.where(is_unknown, seconds_left - typical, figures.slack_s)
    chances = np.where(is_unknown & (seconds_left <= 0), 0.0, figures.on_time)
    is_hopeless = np.nan_to_num(chances, nan=1.0) < 1.0 - request.confidence
    return (unknown_keys, *deadline_keys(slack, is_hopeless), service)


def _ranked(
    jobs: Sequence[QueuedJob],
    figures: _Figures,
    waited: FloatArray,
    priority: IntArray,
    problems: Mapping[int, DomainError],
    warnings: Mapping[int, tuple[ForecastWarning, ...]],
    now: datetime,
) -> list[RankedJob]:
    """Return the jobs with their figures, in the order of the request."""
    bands = zip(_bands(figures.service), _bands(figures.left), strict=True)
    columns = (priority, waited, figures.on_time, figures.slack_s)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    ranked = []
    for row, (job, (service, left), (rank, waited_s, on_time, slack_s)) in enumerate(
        zip(jobs, bands, numbers, strict=True)
    ):
        problem = problems.get(row)
        has_deadline = problem is None and job.deadline is not None
        ranked.append(
            RankedJob(
                job=job,
                priority=rank,
                service=None if problem else service,
                remaining_seconds=None if problem else left,
                waited_s=None if isnan(waited_s) else waited_s,
                deadline_probability=on_time if has_deadline else None,
                latest_start=later(now, slack_s) if has_deadline else None,
                problem=problem,
                warnings=warnings.get(row, ()),
            )
        )
    return ranked


def _bands(figures: Sequence[FloatArray]) -> Iterator[Band]:
    return map(Band, *(column.tolist() for column in figures))
