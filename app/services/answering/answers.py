"""Answers many questions with one regressor: durations, costs, probabilities, warnings."""

from collections.abc import Sequence
from datetime import datetime

from app.domain.alike import AlikeRequests
from app.domain.configurations import Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import Forecast, ForecastRequest
from app.pricing.resolution import PriceBook
from app.services.answering.columns import AnswerColumns
from app.services.answering.questions import ScenarioResolver
from app.services.answering.rows import AllAnswered, Answered
from app.services.served_regressors import ServedRegressor

Answer = Forecast | DomainError
LazyAnswer = Answered | DomainError
"""A forecast whose parts are computed when first needed, or a refusal."""


def answer_all(
    requests: Sequence[ForecastRequest], served: ServedRegressor, book: PriceBook, now: datetime
) -> list[Answer]:
    """Return a forecast or a refusal for each request, in order, from one evaluation."""
    return [whole(answer) for answer in ask_all(requests, served, book, now)]


def whole(answer: LazyAnswer) -> Answer:
    """Return a forecast with all its parts computed."""
    return answer.to_forecast() if isinstance(answer, Answered) else answer


def ask_all(
    requests: Sequence[ForecastRequest], served: ServedRegressor, book: PriceBook, now: datetime
) -> Sequence[LazyAnswer]:
    """Return lazy answers in order: only what is asked for is computed."""
    resolver = ScenarioResolver(served, book)
    if isinstance(requests, AlikeRequests):
        shared_form = resolver.resolve_columns(requests.scenarios)
        if shared_form is not None:
            return _answered(requests, shared_form, served, book, now)
    results = [_resolved(request, resolver) for request in requests]
    scenarios = [scenario for scenario in results if isinstance(scenario, Scenario)]
    if len(scenarios) == len(results):
        return _answered(requests, scenarios, served, book, now)
    answerable = [
        request
        for request, result in zip(requests, results, strict=True)
        if isinstance(result, Scenario)
    ]
    answers = iter(_answered(answerable, scenarios, served, book, now))
    return [next(answers) if isinstance(result, Scenario) else result for result in results]


def _answered(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    served: ServedRegressor,
    book: PriceBook,
    now: datetime,
) -> Sequence[LazyAnswer]:
    if not requests:
        return []
    columns = AnswerColumns(requests, scenarios, served, book, now)
    if not columns.refusals:
        return AllAnswered(columns)
    answers: list[LazyAnswer] = [Answered(columns, row) for row in range(len(requests))]
    for row, refusal in columns.refusals.items():
        answers[row] = refusal
    return answers


def _resolved(request: ForecastRequest, resolver: ScenarioResolver) -> Scenario | DomainError:
    try:
        return resolver.resolve(request.scenario)
    except DomainError as error:
        # A traceback would keep all frames alive, one of which holds this result.
        return error.with_traceback(None)
