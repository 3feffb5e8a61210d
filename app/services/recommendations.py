"""The use cases of choosing a configuration."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from app.decisions.pareto import thin_front
from app.decisions.recommendation import Choice, Rejection, choose
from app.domain.configurations import Configuration, Scenario
from app.domain.forecasts import Forecast, ForecastRequest
from app.domain.identifiers import ProjectId
from app.domain.recommendations import (
    NextWorker,
    Recommendation,
    RecommendationRequest,
    RejectedCandidate,
)
from app.services.answering.answers import Answer, answer_all
from app.services.answering.costs import extra_cost
from app.services.answering.evaluation import Evaluated, evaluate
from app.services.context import ServiceContext
from app.services.prices import PriceService
from app.services.searching.candidates import candidate_configurations
from app.services.searching.nearest import (
    Evaluator,
    constraints_of,
    nearest_of,
    nearest_on_other_nodes,
)
from app.services.searching.room import Misplaced, misplaced
from app.services.serving import RegressorCache
from app.services.tables.implied_gpus import with_implied_pairs

_EXCHANGE_RATE_UNKNOWN: Final = "exchange_rate_unknown"
_SPOT_INFEASIBLE: Final = "spot_infeasible"


class RecommendationService:
    """Use cases of choosing a configuration."""

    def __init__(
        self, context: ServiceContext, regressors: RegressorCache, prices: PriceService
    ) -> None:
        self._context = context
        self._regressors = regressors
        self._prices = prices

    def recommend(self, project_id: ProjectId, request: RecommendationRequest) -> Recommendation:
        """Return the best configurations for the given work.

        Raises
        ------
        UnknownWorkloadError, NoRegressorError, RegressorUnavailableError
            If nothing can forecast.
        AmbiguousGpuError, UnknownGpuError, UnknownFieldError, InvalidRequestError
            If the search names something that cannot be forecast.
        """
        served = self._regressors.get(project_id, request.workload, request.regressor_version)
        book = self._prices.book(project_id)
        with self._context.database.reading() as stores:
            measured_pairs = stores.runs.measured_hardware(served.workload_id)
        measured = with_implied_pairs(measured_pairs, served.gpu_types, book)
        searched = candidate_configurations(request, served, measured, book)
        misfits = misplaced(searched, measured, book) if request.search.nodes else {}
        refused = [(searched[row], reason) for row, reason in misfits.items()]
        if misfits:
            searched = [
                configuration for row, configuration in enumerate(searched) if row not in misfits
            ]
        now = self._context.now()
        evaluated = evaluate(request, searched, served, book, now)
        choice = choose(evaluated.candidates, request.objective, constraints_of(request))
        return _to_recommendation(Evaluator(request, served, book, now), evaluated, choice, refused)


def _to_recommendation(
    evaluator: Evaluator,
    evaluated: Evaluated,
    choice: Choice,
    refused: Sequence[tuple[Configuration, Misplaced]],
) -> Recommendation:
    request, served = evaluator.request, evaluator.served
    ranked = choice.ranked[: request.limit]
    pareto = thin_front(choice.pareto, request.limit, *ranked[:1].tolist())
    shown = dict.fromkeys([*ranked.tolist(), *pareto.tolist()])
    best = [evaluated.configurations[index] for index in shown]
    beyond = [_with_one_more(best[0])] if best else []
    nearest = nearest_of(evaluator, evaluated, choice)
    if refused and evaluated.is_empty:
        nearest = nearest_on_other_nodes(evaluator, refused)
    questions = [_question(request, configuration) for configuration in (*best, *beyond)]
    if nearest is not None:
        questions.append(_question(nearest.request, nearest.configuration))
    answers = answer_all(questions, served, evaluator.book, evaluator.now)
    shown_answers = zip(shown, answers[: len(best)], strict=True)
    forecasts = {
        index: _placed(answer) for index, answer in shown_answers if isinstance(answer, Forecast)
    }
    misfits = [RejectedCandidate(configuration, misfit.reason) for configuration, misfit in refused]
    rejected = [*misfits, *_rejected(evaluated, choice)]
    return Recommendation(
        request=request,
        regressor_version=served.version,
        considered=len(refused) + len(evaluated.configurations) + len(evaluated.infeasible),
        ranked=tuple(forecasts[index] for index in ranked.tolist()),
        pareto=tuple(forecasts[index] for index in pareto.tolist()),
        rejected=tuple(rejected[: request.rejected_limit]),
        rejected_count=len(rejected),
        rejected_by_reason=Counter(str(candidate.reason) for candidate in rejected),
        next_worker=_gain(answers[0], answers[-1]) if beyond else None,
        nearest=None if nearest is None else _forecast_or_none(answers[-1]),
        changes=() if nearest is None else nearest.changes,
    )


def _forecast_or_none(answer: Answer) -> Forecast | None:
    return _placed(answer) if isinstance(answer, Forecast) else None


def _question(request: RecommendationRequest, configuration: Configuration) -> ForecastRequest:
    if not request.search.nodes:
        # They were filled in, and are filled in again.
        configuration = replace(configuration, nodes=None)
    return ForecastRequest(
        workload=request.workload,
        scenario=Scenario(configuration, request.work, request.parameters),
        confidence=request.confidence,
        deadline_s=request.deadline_s,
        budget=request.budget,
        pricing=request.pricing,
        spot=request.spot,
        energy=request.energy,
        regressor_version=request.regressor_version,
        record=False,
    )


def _with_one_more(configuration: Configuration) -> Configuration:
    """Return the configuration with one more worker, with as many workers per node."""
    workers, nodes = configuration.workers, configuration.nodes
    more = None if nodes is None else -(-(workers + 1) * nodes // workers)
    return replace(configuration, workers=workers + 1, nodes=more)


def _gain(best: Answer, beyond: Answer) -> NextWorker | None:
    """Return what one more worker brings, None where it cannot be forecast."""
    if not (isinstance(best, Forecast) and isinstance(beyond, Forecast)):
        return None
    seconds_saved = best.duration_seconds.median - beyond.duration_seconds.median
    extra, currency, per_money = extra_cost(best.cost, beyond.cost), None, None
    if extra is not None and best.cost is not None:
        currency = best.cost.currency
        per_money = float(f"{seconds_saved / float(extra):.6g}") if extra > Decimal(0) else None
    workers = beyond.scenario.configuration.workers
    return NextWorker(workers, float(f"{seconds_saved:.7g}"), extra, currency, per_money)


def _placed(forecast: Forecast) -> Forecast:
    """Return the forecast with the place of its price, where the search left it open."""
    configuration = forecast.scenario.configuration
    if forecast.cost is None or None not in {configuration.provider, configuration.region}:
        return forecast
    price = forecast.cost.price
    placed = replace(
        configuration,
        provider=configuration.provider or price.provider,
        region=configuration.region or price.region,
    )
    return replace(forecast, scenario=replace(forecast.scenario, configuration=placed))


def _rejected(evaluated: Evaluated, choice: Choice) -> Sequence[RejectedCandidate]:
    """Return all candidates that do not qualify, each with its reason."""
    cannot_end = [
        RejectedCandidate(candidate.configuration, _SPOT_INFEASIBLE)
        for candidate in evaluated.infeasible
    ]
    others = [
        RejectedCandidate(evaluated.configurations[index], _reason(evaluated, index, reason))
        for index, reason in choice.rejected
    ]
    return [*cannot_end, *others]


def _reason(evaluated: Evaluated, index: int, reason: Rejection) -> str:
    is_foreign = evaluated.foreign_currencies[index] is not None
    is_about_price = reason is Rejection.PRICE_UNKNOWN
    return _EXCHANGE_RATE_UNKNOWN if is_foreign and is_about_price else reason
