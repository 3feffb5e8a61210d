"""What a profiling plan is based on: a fitted regressor, or the priors alone."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import exp
from statistics import NormalDist
from typing import Final

import numpy as np

from app.domain.configurations import Configuration, Scenario, Work, leaves_nodes_open
from app.domain.forecasts import ForecastRequest, Interval
from app.domain.profiling import ProfilingRequest
from app.domain.runs import RunColumns
from app.pricing.gpus import canonical_gpu_name
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.answering.durations import features_of, interrupted, offers_for, predict
from app.services.answering.evaluation import fits_probability
from app.services.answering.interruptions import InterruptedForecast
from app.services.answering.questions import as_number
from app.services.profiling_plans.candidates import Identity, identity_of
from app.services.served_regressors import ServedRegressor
from app.services.tables.frames import hardware_descriptions, scenario_features
from models import (
    Design,
    FloatArray,
    ForecastDistribution,
    RunTable,
    joint_forecast,
    prior_forecast,
)

_QUANTILES: Final = 20
_EVEN: Final = 0.5


@dataclass(frozen=True, slots=True)
class Outlook:
    """Durations of candidates and targets, as far as known, and the offers that they are bought at.

    `mean_s` holds the expected seconds of each candidate, shape (n_candidates,), up to an unknown
    factor where `is_scaled` is False; there the intervals are None. Of several `offers` for a
    candidate, the one with the smallest bill is taken or, where durations are not scaled, with the
    lowest price per hour. `impossible` holds the candidates that cannot end.
    """

    offers: Sequence[Offer | None]
    mean_s: FloatArray
    is_scaled: bool
    durations: Sequence[Interval | None]
    targets: Sequence[Interval | None]
    impossible: frozenset[int]


def mean_seconds(forecast: ForecastDistribution) -> FloatArray:
    """Return expected durations, shape (n,): means of 20 quantiles, which tame heavy tails."""
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return np.asarray(np.mean([forecast.quantile(p) for p in shares], axis=0), dtype=np.float64)


class FittedGround:
    """The basis of a plan on a published regressor."""

    def __init__(
        self,
        request: ProfilingRequest,
        candidates: Sequence[Scenario],
        served: ServedRegressor,
        measured_since: AbstractSet[Identity],
        too_large_since: Sequence[bool],
        nodes_open: Sequence[bool],
    ) -> None:
        self._request, self._served, self._nodes_open = request, served, nodes_open
        self._measured_since, self._too_large_since = measured_since, too_large_since
        self._candidates, self._targets = list(candidates), list(request.targets)
        self._n = len(candidates)
        self._features = features_of([*self._candidates, *self._targets], served)
        split = np.arange(self._n), np.arange(self._n, self._features.n_rows)
        self._of_candidates, self._of_targets = (self._features.take(rows) for rows in split)

    def outlook(self, book: PriceBook) -> Outlook:
        """Return the forecasts of candidates and targets, including spot interruptions."""
        questions = [
            _question(self._request, candidate, is_open=is_open)
            for candidate, is_open in zip(self._candidates, self._nodes_open, strict=True)
        ]
        work = predict(self._candidates, self._served)
        offers = offers_for(questions, self._candidates, book, mean_seconds(work))
        forecast, refusals = interrupted(work, questions, self._candidates, offers)
        target = self._served.predict(self._of_targets)
        confidence = self._request.confidence
        return Outlook(
            offers=offers,
            mean_s=mean_seconds(forecast.moments),
            is_scaled=True,
            durations=_intervals(forecast, confidence),
            targets=_intervals(target, confidence),
            impossible=frozenset(refusals),
        )

    @property
    def version(self) -> int:
        """The version of the regressor."""
        return self._served.version

    def never_varied(self) -> Iterator[tuple[str, float, float]]:
        """Yield columns with one value in all runs and candidates, but another one in a target.

        Each comes as its name, that value, and the first other value that is asked for.
        """
        for name, (low, high) in self._served.portfolio.report.numeric_ranges.items():
            column = self._features.numeric.get(name)
            if column is None or low != high:
                continue
            is_other = np.logical_and(~np.isnan(column), ~np.isclose(column, low, rtol=1e-9))
            target_values = column[self._n :][is_other[self._n :]]
            if len(target_values) and not is_other[: self._n].any():
                yield name, low, float(target_values[0])

    def never_measured(self) -> list[tuple[str, str]]:
        """Return the (column, level) pairs of targets that neither a run nor a candidate has."""
        candidates = self._of_candidates.categorical
        return list(
            dict.fromkeys(
                (name, level)
                for support in self._served.portfolio.support(self._of_targets)
                for name, level in support.unseen_levels
                if level not in candidates.get(name, ())
            )
        )

    def is_measured(self) -> list[bool]:
        """Return for each candidate whether the regressor was fitted on it, or a run came since."""
        supports = self._served.portfolio.support(self._of_candidates)
        return [
            support.basis == "measured" or identity_of(candidate) in self._measured_since
            for support, candidate in zip(supports, self._candidates, strict=True)
        ]

    def is_too_large(self) -> list[bool]:
        """Return for each candidate whether a run would sooner run out of memory than succeed."""
        law = self._served.portfolio.memory_law
        probabilities = fits_probability(self._of_candidates, law)
        return [
            bool(fits < _EVEN) or is_too_large
            for fits, is_too_large in zip(probabilities, self._too_large_since, strict=True)
        ]

    def design(self, costs: FloatArray) -> Design:
        """Return the design over the candidates."""
        joints = joint_forecast(self._served.portfolio, self._of_candidates, self._of_targets)
        return Design(joints, costs)


class ColdGround:
    """The basis of a plan on the laws' priors and on runs that no regressor was fitted on."""

    def __init__(
        self,
        request: ProfilingRequest,
        candidates: Sequence[Scenario],
        runs: RunColumns,
        too_large: Sequence[bool],
    ) -> None:
        self._request, self._runs = request, scenarios_of(runs)
        self._too_large = too_large
        self._candidates = list(candidates)
        self._n, n_questions = len(candidates), len(candidates) + len(request.targets)
        features = scenario_features([*candidates, *request.targets, *self._runs])
        parts = [range(self._n), range(self._n, n_questions), range(n_questions, features.n_rows)]
        candidate_features, target_features, run_features = (
            features.take(np.array(rows, dtype=np.int64)) for rows in parts
        )
        seconds = np.array(runs.duration_seconds, dtype=np.float64)
        self._has_runs = len(runs) > 0
        run_table = RunTable(run_features, seconds, list(runs.run_ids)) if self._has_runs else None
        self._never_measured = [
            (name, level)
            for name, levels in target_features.categorical.items()
            for level in dict.fromkeys(levels)
            if level is not None
            and level not in candidate_features.categorical.get(name, ())
            and level not in run_features.categorical.get(name, ())
        ]
        hardware = hardware_descriptions(features.categorical.get("gpu_type", ()))
        self._prior = prior_forecast(candidate_features, target_features, hardware, run_table)

    def outlook(self, book: PriceBook) -> Outlook:
        """Return what the laws' priors and the runs say; without a run there is no scale."""
        joint, logs = self._prior.joint, self._prior.log_duration
        deviations = np.sqrt(np.maximum(np.diag(joint.covariance), 0.0) + joint.noise)
        half_widths = NormalDist().inv_cdf((1 + self._request.confidence) / 2) * deviations
        intervals: list[Interval | None] = [
            Interval(
                exp(log), exp(log - half_width), exp(log + half_width), self._request.confidence
            )
            for log, half_width in zip(logs.tolist(), half_widths.tolist(), strict=True)
        ]
        if not self._has_runs:
            intervals = [None] * len(intervals)
        mean_s = np.exp(logs[: self._n])
        return Outlook(
            offers=book.resolve_all(
                [candidate.configuration for candidate in self._candidates],
                self._request.pricing,
                seconds=mean_s.tolist() if self._has_runs else None,
                nodes_assumed=are_nodes_open(self._request),
            ),
            mean_s=mean_s,
            is_scaled=self._has_runs,
            durations=intervals[: self._n],
            targets=intervals[self._n :],
            impossible=frozenset(),
        )

    @property
    def version(self) -> None:
        """None: there is no regressor."""

    def never_varied(self) -> Iterator[tuple[str, float, float]]:
        """Yield nothing: the priors cover all columns."""
        return iter(())

    def never_measured(self) -> list[tuple[str, str]]:
        """Return the (column, level) pairs of targets that neither a run nor a candidate has."""
        return self._never_measured

    def is_measured(self) -> list[bool]:
        """Return for each candidate whether a run has the same features."""
        measured = {identity_of(run) for run in self._runs}
        return [identity_of(candidate) in measured for candidate in self._candidates]

    def is_too_large(self) -> list[bool]:
        """Return for each candidate whether it needs what a run out of memory needed, or more."""
        return list(self._too_large)

    def design(self, costs: FloatArray) -> Design:
        """Return the design over the candidates."""
        return Design([self._prior.joint], costs)


Ground = FittedGround | ColdGround


def canonical_scenario(scenario: Scenario) -> Scenario:
    """Return a scenario with the GPU name as uploads store it.

    Raises
    ------
    InvalidRequestError
        If a number among its parameters is too large to be stored.
    """
    for parameter, value in scenario.parameters.items():
        if not isinstance(value, str):
            as_number(parameter, value)
    gpu_type = scenario.configuration.gpu_type
    if gpu_type is None:
        return scenario
    name = canonical_gpu_name(gpu_type)
    return replace(scenario, configuration=replace(scenario.configuration, gpu_type=name))


def are_nodes_open(request: ProfilingRequest) -> bool:
    """Whether a plan fills nodes in; these then exclude no machine with too little room."""
    if request.candidates:
        return all(leaves_nodes_open(candidate.configuration) for candidate in request.candidates)
    return not request.search.hardware.nodes


def _question(request: ProfilingRequest, scenario: Scenario, *, is_open: bool) -> ForecastRequest:
    if is_open:
        scenario = replace(scenario, configuration=replace(scenario.configuration, nodes=None))
    return ForecastRequest(
        workload=request.workload,
        scenario=scenario,
        confidence=request.confidence,
        pricing=request.pricing,
        spot=request.spot,
        record=False,
    )


def _intervals(
    forecast: ForecastDistribution | InterruptedForecast, confidence: float
) -> list[Interval | None]:
    lower, upper = forecast.interval(confidence)
    columns = zip(forecast.median().tolist(), lower.tolist(), upper.tolist(), strict=True)
    return [Interval(median, low, high, confidence) for median, low, high in columns]


def scenarios_of(runs: RunColumns) -> list[Scenario]:
    """Return what each of some runs measured."""
    return [
        Scenario(
            Configuration(
                gpu_type=runs.gpu_type[row],
                instance_type=runs.instance_type[row],
                nodes=runs.nodes[row],
                workers=runs.workers[row],
            ),
            Work(runs.dataset_size[row], runs.batch_size[row], runs.epochs[row]),
            runs.parameters[row],
        )
        for row in range(len(runs))
    ]
