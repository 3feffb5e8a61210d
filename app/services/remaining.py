"""The use cases of forecasting how much longer a job under way takes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from app.decisions.durations import DurationBeliefs, FloatArray
from app.decisions.progress import RemainingBeliefs, Stretch, remaining_after
from app.domain.configurations import Scenario, configuration_fact
from app.domain.errors import Fault, InvalidRequestError
from app.domain.forecasts import ForecastRequest, ForecastWarning, Interval
from app.domain.identifiers import ProjectId
from app.domain.instants import later
from app.domain.remaining import Remaining, RemainingRequest, Segment
from app.services.answering.durations import features_of
from app.services.answering.questions import ScenarioResolver
from app.services.context import ServiceContext
from app.services.prices import PriceService
from app.services.scheduling.beliefs import BeliefReader
from app.services.scheduling.grounds import warnings_of
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from models import joint_forecast


@dataclass(frozen=True, slots=True)
class _Current:
    """The current segment, on the present configuration."""

    progress: float | None
    elapsed_s: float | None


class RemainingService:
    """Use cases of forecasting how much longer a job under way takes."""

    def __init__(
        self,
        context: ServiceContext,
        regressors: RegressorCache,
        prices: PriceService,
        beliefs: BeliefReader,
    ) -> None:
        self._context = context
        self._regressors = regressors
        self._prices = prices
        self._beliefs = beliefs

    def remaining(self, project_id: ProjectId, request: RemainingRequest) -> Remaining:
        """Return how much longer a job takes, given what was observed of it.

        Raises
        ------
        UnknownWorkloadError, NoRegressorError, RegressorUnavailableError
            If nothing can forecast.
        InvalidRequestError
            If the segments have more progress or time than the job as a whole.
        DomainError
            If the question cannot be answered.
        """
        request = _with_totals(request)
        served = self._regressors.get(project_id, request.workload, request.regressor_version)
        # Of the same version, whichever is published meanwhile.
        beliefs = self._beliefs.read(project_id, [_question(request, served.version)])
        if beliefs.problems:
            raise beliefs.problems[0]
        prior = beliefs.durations
        resolver = ScenarioResolver(served, self._prices.book(project_id))
        others = _other_segments(request, resolver)
        current = _current(request, others)
        stretch = _stretch(request, others, served, resolver)
        left, weight = remaining_after(
            prior, stretch, current.progress, current.elapsed_s, request.rate_variation
        )
        # The job runs, and so has shown that it fits into memory.
        is_running = np.ones(1, dtype=np.bool_)
        (warnings,) = warnings_of(beliefs, np.arange(1), is_running, request.confidence)
        now = self._context.now()
        return _to_remaining(request, served, prior, left, weight, warnings, now)


def _question(request: RemainingRequest, version: int) -> ForecastRequest:
    return ForecastRequest(
        request.workload,
        request.scenario,
        pricing=request.pricing,
        spot=request.spot,
        regressor_version=version,
        record=False,
    )


def _other_segments(request: RemainingRequest, resolver: ScenarioResolver) -> list[Segment]:
    """Return the segments on other configurations; those on the present one belong to it.

    Configurations are compared in the regressor's terms, with open nodes filled in; where capacity
    is bought and how it is paid for does not make a configuration another one.
    """
    if request.progress is None:
        return list(request.segments)
    present = configuration_fact(resolver.resolve_configuration(request.scenario.configuration))
    return [
        segment
        for segment in request.segments
        if configuration_fact(resolver.resolve_configuration(segment.configuration)) != present
    ]


def _with_totals(request: RemainingRequest) -> RemainingRequest:
    """Return the request, with the segments' total progress and time where it states neither."""
    _check(request)
    if not request.segments or not (request.progress is None and request.elapsed_s is None):
        return request
    return replace(
        request,
        progress=sum(segment.progress for segment in request.segments),
        elapsed_s=sum(segment.elapsed_s for segment in request.segments),
    )


def _current(request: RemainingRequest, others: Sequence[Segment]) -> _Current:
    """Return what remains for the present configuration after subtracting other segments."""
    progress, elapsed = request.progress, request.elapsed_s
    if progress is not None:
        progress = max(progress - sum(segment.progress for segment in others), 0.0)
    if elapsed is not None:
        elapsed = max(elapsed - sum(segment.elapsed_s for segment in others), 0.0)
    return _Current(progress, elapsed)


def _check(request: RemainingRequest) -> None:
    progress_sum = sum(segment.progress for segment in request.segments)
    elapsed_sum_s = sum(segment.elapsed_s for segment in request.segments)
    progress, elapsed_s = request.progress, request.elapsed_s
    if progress_sum >= 1.0 or (
        progress is not None and progress_sum > progress + _tolerance(progress_sum)
    ):
        raise _contradiction("progress", progress_sum, progress)
    if elapsed_s is not None and elapsed_sum_s > elapsed_s + _tolerance(elapsed_sum_s):
        raise _contradiction("elapsed_s", elapsed_sum_s, elapsed_s)


def _tolerance(amount: float) -> float:
    return 1e-9 * max(amount, 1.0)


def _contradiction(field: str, segments_sum: float, total: float | None) -> InvalidRequestError:
    stated = "less than 1" if total is None else f"{total:.6g}"
    fault = Fault(
        f"The segments have {segments_sum:.6g}, the whole job has {stated}.",
        f"Send {field} of the whole job, including that of its past segments.",
        field=field,
        value=total,
    )
    return InvalidRequestError("The segments exceed the whole job.", [fault])


def _stretch(
    request: RemainingRequest,
    segments: Sequence[Segment],
    served: ServedRegressor,
    resolver: ScenarioResolver,
) -> Stretch:
    """Return the past segments, with what their configurations say about the present one."""
    progress = np.array([segment.progress for segment in segments], dtype=np.float64)
    elapsed = np.array([segment.elapsed_s for segment in segments], dtype=np.float64)
    if not segments:
        return Stretch(progress, elapsed, np.empty(0), np.ones((1, 1)))
    work, parameters = request.scenario.work, request.scenario.parameters
    past = [
        resolver.resolve(Scenario(segment.configuration, work, parameters)) for segment in segments
    ]
    present = resolver.resolve(request.scenario)
    features = features_of(past, served), features_of([present], served)
    medians = [served.predict(table).log_median for table in features]
    joint = joint_forecast(served.portfolio, *features)[0]
    # All segments of a run share what is particular to it.
    covariance = joint.covariance + float(joint.noise[-1])
    factors = joint.calibration(np.diag(covariance))
    calibrated = covariance * np.outer(factors, factors)
    return Stretch(progress, elapsed, medians[0] - medians[1], calibrated)


def _to_remaining(
    request: RemainingRequest,
    served: ServedRegressor,
    prior: DurationBeliefs,
    beliefs: RemainingBeliefs,
    weight: float,
    warnings: tuple[ForecastWarning, ...],
    now: datetime,
) -> Remaining:
    confidence = request.confidence
    elapsed_s = request.elapsed_s or 0.0
    left_s = _interval(beliefs, confidence)
    total_s = _interval(beliefs.total, confidence)
    if request.elapsed_s is not None:
        total_s = Interval(
            elapsed_s + left_s.median,
            elapsed_s + left_s.lower,
            elapsed_s + left_s.upper,
            confidence,
        )
    forecast = _interval(prior, confidence)
    expected = float(beliefs.mean()[0])
    return Remaining(
        request=request,
        regressor_version=served.version,
        expected_s=expected,
        left_s=left_s,
        total_s=total_s,
        forecast_s=forecast,
        ratio=float(beliefs.total.median()[0]) / forecast.median,
        weight=weight,
        ends_at=later(now, left_s.median),
        latest_end=later(now, left_s.upper),
        deadline_probability=_deadline_probability(request, beliefs, now),
        warnings=warnings,
    )


def _interval(beliefs: DurationBeliefs | RemainingBeliefs, confidence: float) -> Interval:
    lower, upper = beliefs.interval(confidence)
    median: FloatArray = beliefs.quantile(0.5)
    return Interval(float(median[0]), float(lower[0]), float(upper[0]), confidence)


def _deadline_probability(
    request: RemainingRequest, left: RemainingBeliefs, now: datetime
) -> float | None:
    if request.deadline is None:
        return None
    until = np.array([(request.deadline - now).total_seconds()])
    return float(left.probability_below(until)[0]) if until[0] > 0 else 0.0
