"""The options of elastic jobs: the configurations they may take, and how long each lasts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np

from app.decisions.allocation import IntArray
from app.decisions.durations import DurationBeliefs, FloatArray
from app.domain.allocations import (
    ANY_TYPE,
    AllocationRequest,
    ElasticJob,
    Goal,
    Placed,
)
from app.domain.configurations import Configuration, Scenario
from app.domain.errors import Fault, InvalidRequestError
from app.domain.forecasts import ForecastRequest
from app.pricing.billing import costs_of
from app.pricing.gpus import gpu_key
from app.pricing.spot import SECONDS_PER_HOUR
from app.services.scheduling.beliefs import Beliefs
from app.services.scheduling.grounds import grounds_of
from models import BoolArray, ConvergenceLaw

MAX_COUNTS: Final = 64
"""The most numbers of workers tried for a job on one GPU type, unless it names its own.

The one on which it runs is tried besides.
"""

MAX_OPTIONS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Option:
    """A job on a configuration."""

    job: int
    kind: int
    placed: Placed


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The options that can be forecast, each array of shape (n_options,).

    `restart_s` is the time lost by changing to the option, `completion_s` the expected time to
    completion with it; `cost` is the cost of the expected completion, NaN where no price is known;
    `on_time` is the probability of keeping the deadline, 1 where there is none; `is_running` says
    on which options their jobs run; `fits` is the probability that the memory suffices, 1 for
    these; `within_range` is false only where the request requires what was measured, and the
    option was not nor does the job run on it.
    """

    options: list[Option]
    left: DurationBeliefs
    restart_s: FloatArray
    completion_s: FloatArray
    on_time: FloatArray
    is_running: BoolArray
    fits: FloatArray
    within_range: BoolArray
    cost: FloatArray

    def of(self, name: str) -> IntArray:
        """Return the jobs or kinds of the options."""
        return np.array([getattr(option, name) for option in self.options], dtype=np.int64)

    def workers(self) -> IntArray:
        """Return the numbers of GPUs of the options."""
        return np.array([option.placed.workers for option in self.options], dtype=np.int64)


def options_of(request: AllocationRequest) -> list[Option]:
    """Return every configuration that a job may take.

    Raises
    ------
    InvalidRequestError
        If there are too many.
    """
    kinds = list(request.capacity.items())
    options = []
    for index, job in enumerate(request.jobs):
        wanted = set(map(gpu_key, job.gpu_types))
        for kind, (name, gpus) in enumerate(kinds):
            if wanted and gpu_key(name) not in wanted:
                continue
            for workers in worker_counts(job, gpus):
                options += [
                    Option(index, kind, Placed(name, workers, batch))
                    for batch in job.batch_sizes or (job.work.batch_size,)
                ]
        if len(options) > MAX_OPTIONS:
            fault = Fault("The options multiply.", "Name fewer of them.", field="jobs")
            raise InvalidRequestError(f"The jobs have over {MAX_OPTIONS} options.", [fault])
    return options


def worker_counts(job: ElasticJob, gpus: int) -> list[int]:
    """Return the numbers of workers to try: all, or `MAX_COUNTS` at even ratios.

    What the job runs on is among them, so that it can go on as it is.

    Examples
    --------
    >>> from app.domain.identifiers import Slug
    >>> worker_counts(ElasticJob("a", Slug("b"), min_workers=2, max_workers=5), 4)
    [2, 3, 4]
    >>> len(worker_counts(ElasticJob("a", Slug("b")), 64))
    64
    >>> counts = worker_counts(ElasticJob("a", Slug("b"), min_workers=10), 4000)
    >>> counts[:4], counts[-2:]
    ([10, 11, 12, 13], [3637, 4000])
    """
    maximum = min(job.max_workers or gpus, gpus)
    if job.worker_counts:
        return sorted({count for count in job.worker_counts if job.min_workers <= count <= maximum})
    if maximum < job.min_workers:
        return []
    if maximum - job.min_workers < MAX_COUNTS:
        return list(range(job.min_workers, maximum + 1))
    spaced = np.geomspace(job.min_workers, maximum, MAX_COUNTS).round().astype(int)
    running = () if job.current is None else (job.current.workers,)
    kept = [count for count in running if job.min_workers <= count <= maximum]
    return sorted({job.min_workers, maximum, *spaced.tolist(), *kept})


def questions_of(request: AllocationRequest, options: Sequence[Option]) -> list[ForecastRequest]:
    """Return the questions to the regressors: each option as if the job started anew."""
    questions = []
    for option in options:
        job, placed = request.jobs[option.job], option.placed
        gpu_type = None if placed.gpu_type == ANY_TYPE else placed.gpu_type
        scenario = Scenario(
            Configuration(gpu_type=gpu_type, workers=placed.workers),
            replace(job.work, batch_size=placed.batch_size),
            job.parameters,
        )
        questions.append(
            ForecastRequest(
                job.workload, scenario, pricing=request.pricing, spot=request.spot, record=False
            )
        )
    return questions


def samples_factor(
    job: ElasticJob, batch_size: float | None, law: ConvergenceLaw | None = None
) -> float:
    """Return the factor by which a batch size changes the number of samples that a job needs.

    ``(1 + B / N) / (1 + B0 / N)`` with the gradient noise scale N: larger batches learn less from
    each sample. B0 is the batch size of the job's work, or the smallest that it may take. The job's
    own N takes precedence over the `law` that its workload's runs showed; the factor is 1 where
    neither is known or a batch size is missing.

    References
    ----------
    McCandlish, Kaplan, Amodei et al. (2018), An empirical model of large-batch training, eq. 2.11.

    Examples
    --------
    >>> from app.domain.configurations import Work
    >>> from app.domain.identifiers import Slug
    >>> job = ElasticJob("a", Slug("b"), Work(batch_size=256), gradient_noise_scale=256)
    >>> samples_factor(job, 768)
    2.0
    >>> samples_factor(replace(job, work=Work(), batch_sizes=(768, 256)), 768)
    2.0
    """
    reference_size = job.work.batch_size or min(job.batch_sizes, default=None)
    noise = job.gradient_noise_scale
    if reference_size is None or batch_size is None:
        return 1.0
    if noise is None:
        if law is None:
            return 1.0
        return float(law.samples_factor(np.array([batch_size]), np.array([reference_size]))[0])
    return (1.0 + batch_size / noise) / (1.0 + reference_size / noise)


def restart_of(job: ElasticJob, placed: Placed) -> float:
    """Return the seconds that moving a job to other GPUs costs: 0 where it is not running yet."""
    return 0.0 if job.current is None or is_kept(job.current, placed) else job.restart_s


def is_kept(current: Placed, placed: Placed) -> bool:
    """Whether a job continues as it runs; a batch size that was not stated counts as unchanged."""
    same_batch = current.batch_size is None or current.batch_size == placed.batch_size
    same_type = gpu_key(current.gpu_type) == gpu_key(placed.gpu_type)
    return same_type and current.workers == placed.workers and same_batch


def forecasts_of(
    request: AllocationRequest, options: Sequence[Option], beliefs: Beliefs, now: datetime
) -> Forecasts:
    """Return the forecasts of the options that can be forecast."""
    forecast_options = [options[row] for row in beliefs.known]
    jobs = [request.jobs[option.job] for option in forecast_options]
    pairs = list(zip(jobs, forecast_options, strict=True))
    job_batches = {(option.job, option.placed.batch_size) for option in forecast_options}
    laws = {answered.workload: answered.convergence for answered in beliefs.answers}
    factors = {
        (index, batch): samples_factor(
            request.jobs[index], batch, laws.get(request.jobs[index].workload)
        )
        for index, batch in job_batches
    }
    factor = [
        (1.0 - job.progress) * factors[option.job, option.placed.batch_size]
        for job, option in pairs
    ]
    restart = np.array([restart_of(job, option.placed) for job, option in pairs], dtype=np.float64)
    left = beliefs.durations.times(np.array(factor, dtype=np.float64))
    seconds_left = np.array([_seconds_until(job, now) for job in jobs], dtype=np.float64)
    finite = np.where(np.isinf(seconds_left), 1.0, seconds_left)
    on_time = left.probability_below(finite - restart)
    completion_s = left.mean() + restart
    is_running = np.array(
        [_is_running(job, option.placed) for job, option in pairs], dtype=np.bool_
    )
    fits, is_within = grounds_of(beliefs, ranged=request.require_within_range)
    return Forecasts(
        options=forecast_options,
        left=left,
        restart_s=restart,
        completion_s=completion_s,
        on_time=np.where(np.isinf(seconds_left), 1.0, on_time),
        is_running=is_running,
        fits=np.where(is_running, 1.0, fits),
        within_range=is_within | is_running,
        cost=costs_of(beliefs.offers, completion_s),
    )


def _is_running(job: ElasticJob, placed: Placed) -> bool:
    """Whether a job runs on just this; of several batch sizes, one must be stated."""
    current = job.current
    if current is None or (current.batch_size is None and len(job.batch_sizes) > 1):
        return False
    return is_kept(current, placed)


def _seconds_until(job: ElasticJob, now: datetime) -> float:
    return np.inf if job.deadline is None else (job.deadline - now).total_seconds()


def goal_values(request: AllocationRequest, forecasts: Forecasts) -> FloatArray:
    """Return what the goal minimises for each option, shape (n_options,); NaN without a price."""
    weights = np.array([job.weight for job in request.jobs])[forecasts.of("job")]
    match request.goal:
        case Goal.THROUGHPUT:
            return -weights * SECONDS_PER_HOUR / np.maximum(forecasts.completion_s, 1e-9)
        case Goal.MEAN_COMPLETION:
            return weights * forecasts.completion_s
        case Goal.MAKESPAN:
            return forecasts.left.quantile(request.confidence) + forecasts.restart_s
        case Goal.COST:
            return forecasts.cost
