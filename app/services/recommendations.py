"""The use cases of choosing a configuration."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from app.decisions.recommendation import (
    Candidates,
    Choice,
    Constraints,
    Rejection,
    choose,
)
from app.domain.configurations import Configuration, Scenario
from app.domain.forecasts import Forecast, ForecastRequest
from app.domain.identifiers import ProjectId
from app.domain.recommendations import (
    NeededChange,
    Recommendation,
    RecommendationRequest,
    RejectedCandidate,
)
from app.pricing.billing import costs_of
from app.pricing.energy import kilowatt_hours
from app.pricing.resolution import PriceBook
from app.services.answers import answer_all, features_of, interrupted, offers_for, predict
from app.services.candidates import candidate_configurations
from app.services.context import ServiceContext
from app.services.prices import PriceService
from app.services.questions import to_question
from app.services.serving import RegressorCache, ServedRegressor
from models import BoolArray, FloatArray

MAX_NAMED_REJECTIONS: Final = 100
_EXCHANGE_RATE_UNKNOWN: Final = "exchange_rate_unknown"
_SPOT_INFEASIBLE: Final = "spot_infeasible"


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """The candidates that can end, with their figures; and those that cannot.

    `is_foreign` where the price is in another currency and no exchange rate is known.
    """

    configurations: list[Configuration]
    candidates: Candidates
    infeasible: list[Configuration]
    is_foreign: list[bool]


class RecommendationService:
    """Use cases of choosing a configuration."""

    def __init__(
        self, context: ServiceContext, regressors: RegressorCache, prices: PriceService
    ) -> None:
        self._context = context
        self._regressors = regressors
        self._prices = prices

    def recommend(self, project_id: ProjectId, request: RecommendationRequest) -> Recommendation:
        """Return the best configurations for a piece of work.

        Raises
        ------
        UnknownWorkloadError, NoRegressorError, RegressorUnavailableError
            If there is nothing that could forecast.
        AmbiguousGpuError, UnknownGpuError, UnknownFieldError, InvalidRequestError
            If the search names something that cannot be forecast.
        """
        served = self._regressors.get(project_id, request.workload, request.regressor_version)
        book = self._prices.book(project_id)
        with self._context.database.reading() as stores:
            measured = stores.forecasts.measured_hardware(served.workload_id)
        configurations = candidate_configurations(request, served, measured)
        evaluated = _evaluate(request, configurations, served, book)
        constraints = Constraints(
            deadline_s=request.deadline_s,
            budget=None if request.budget is None else float(request.budget),
            require_within_range=request.require_within_range,
        )
        choice = choose(evaluated.candidates, request.objective, constraints)
        return self._tell(request, served, book, evaluated, choice)

    def _tell(
        self,
        request: RecommendationRequest,
        served: ServedRegressor,
        book: PriceBook,
        evaluated: _Evaluated,
        choice: Choice,
    ) -> Recommendation:
        ranked, pareto = choice.ranked[: request.limit], choice.pareto[: request.limit]
        nearest = [] if choice.nearest is None else [choice.nearest]
        shown = dict.fromkeys([*ranked.tolist(), *pareto.tolist(), *nearest])
        asked = [_question(request, evaluated.configurations[index]) for index in shown]
        answers = answer_all(asked, served, book, self._context.now())
        forecasts = {
            index: answer
            for index, answer in zip(shown, answers, strict=True)
            if isinstance(answer, Forecast)
        }
        rejected = [
            *(RejectedCandidate(each, _SPOT_INFEASIBLE) for each in evaluated.infeasible),
            *(
                RejectedCandidate(
                    evaluated.configurations[index],
                    _EXCHANGE_RATE_UNKNOWN
                    if reason is Rejection.PRICE_UNKNOWN and evaluated.is_foreign[index]
                    else reason,
                )
                for index, reason in choice.rejected
            ),
        ]
        return Recommendation(
            request=request,
            regressor_version=served.version,
            considered=len(evaluated.configurations) + len(evaluated.infeasible),
            ranked=tuple(forecasts[index] for index in ranked.tolist()),
            pareto=tuple(forecasts[index] for index in pareto.tolist()),
            rejected=tuple(rejected[:MAX_NAMED_REJECTIONS]),
            rejected_count=len(rejected),
            nearest=forecasts[nearest[0]] if nearest else None,
            changes=tuple(
                NeededChange(change.constraint, change.asked, change.needed)
                for change in choice.changes
            ),
        )


def _question(request: RecommendationRequest, configuration: Configuration) -> ForecastRequest:
    return ForecastRequest(
        workload=request.workload,
        scenario=Scenario(configuration, request.work, request.parameters),
        confidence=request.confidence,
        deadline_s=request.deadline_s,
        budget=request.budget,
        pricing=request.pricing,
        spot=request.spot,
        regressor_version=request.regressor_version,
        record=False,
    )


def _scenarios(
    request: RecommendationRequest, configurations: Sequence[Configuration], served: ServedRegressor
) -> list[Scenario]:
    """Return the questions of all candidates; each name is resolved once."""
    named: dict[tuple[str | None, str | None], Scenario] = {}
    scenarios = []
    for configuration in configurations:
        key = (configuration.gpu_type, configuration.instance_type)
        if key not in named:
            first = Scenario(configuration, request.work, request.parameters)
            named[key] = to_question(first, served)
        known = named[key]
        gpu_type = known.configuration.gpu_type
        scenarios.append(replace(known, configuration=replace(configuration, gpu_type=gpu_type)))
    return scenarios


def _evaluate(
    request: RecommendationRequest,
    configurations: Sequence[Configuration],
    served: ServedRegressor,
    book: PriceBook,
) -> _Evaluated:
    scenarios = _scenarios(request, configurations, served)
    questions = [_question(request, scenario.configuration) for scenario in scenarios]
    work = predict(scenarios, served)
    offers = offers_for(questions, scenarios, book, work.median(), served.currency)
    forecast, refusals = interrupted(work, questions, offers)
    kept = [row for row in range(len(scenarios)) if row not in refusals]
    duration, bound = forecast.median()[kept], forecast.quantile(request.confidence)[kept]
    known_offers = [offers[row] for row in kept]
    paid = [offer if offer is not None and offer.is_as_asked else None for offer in known_offers]
    known = [scenarios[row] for row in kept]
    return _Evaluated(
        configurations=[scenario.configuration for scenario in known],
        candidates=Candidates(
            duration_s=duration,
            duration_bound_s=bound,
            cost=costs_of(paid, duration),
            cost_bound=costs_of(paid, bound),
            energy_kwh=duration * _power(known),
            within_range=_within_range(request, known, served),
            fits=_fits(request, known, served),
        ),
        infeasible=[scenarios[row].configuration for row in refusals],
        is_foreign=[offer is not None and not offer.is_as_asked for offer in known_offers],
    )


def _power(scenarios: Sequence[Scenario]) -> FloatArray:
    """Return the energy of one second in kWh, NaN where the GPU's power is unknown."""
    figures = [
        kilowatt_hours(scenario.configuration.gpu_type, scenario.configuration.workers, 1.0)
        for scenario in scenarios
    ]
    return np.array([np.nan if figure is None else figure for figure in figures])


def _fits(
    request: RecommendationRequest, scenarios: Sequence[Scenario], served: ServedRegressor
) -> BoolArray:
    """Return where memory is known to do, or nothing that was measured says otherwise."""
    if not scenarios:
        return np.ones(0, dtype=np.bool_)
    found = served.portfolio.feasibility(features_of(scenarios, served))
    if not found.is_tested:
        return np.ones(len(scenarios), dtype=np.bool_)
    return np.isnan(found.probability) | (found.probability >= request.confidence)


def _within_range(
    request: RecommendationRequest, scenarios: Sequence[Scenario], served: ServedRegressor
) -> BoolArray:
    if not request.require_within_range or not scenarios:
        return np.ones(len(scenarios), dtype=np.bool_)
    supports = served.portfolio.support(features_of(scenarios, served))
    return np.array([support.within_range for support in supports], dtype=np.bool_)
