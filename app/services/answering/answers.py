"""Answers many questions with one regressor: durations, costs, probabilities, warnings."""

from collections.abc import Sequence
from datetime import datetime

from app.domain.alike import AlikeRequests
from app.domain.configurations import Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import Forecast, ForecastRequest
from app.pricing.resolution import PriceBook
from app.services.answering.columns import AnswerColumns
from app.services.answering.questions import Questioner
from app.services.answering.rows import AllAnswered, Answered
from app.services.serving import ServedRegressor

Answer = Forecast | DomainError
Asked = Answered | DomainError
"""A forecast whose parts are computed when first needed, or a refusal."""


def answer_all(
    requests: Sequence[ForecastRequest], served: ServedRegressor, book: PriceBook, now: datetime
) -> list[Answer]:
    """Return a forecast or a refusal for each request, in order, from one evaluation."""
    return [whole(answer) for answer in ask_all(requests, served, book, now)]


def whole(answer: Asked) -> Answer:
    """Return a forecast with all its parts computed."""
    return answer.to_forecast() if isinstance(answer, Answered) else answer


def ask_all(
    requests: Sequence[ForecastRequest], served: ServedRegressor, book: PriceBook, now: datetime
) -> Sequence[Asked]:
    """Return lazy answers in order: only what is asked for is computed."""
    questioner = Questioner(served, book)
    if isinstance(requests, AlikeRequests):
        alike = questioner.ask_alike(requests.scenarios)
        if alike is not None:
            return _answered(requests, alike, served, book, now)
    read = [_read(request, questioner) for request in requests]
    scenarios = [scenario for scenario in read if isinstance(scenario, Scenario)]
    if len(scenarios) == len(read):
        return _answered(requests, scenarios, served, book, now)
    asked = [
        request for request, each in zip(requests, read, strict=True) if isinstance(each, Scenario)
    ]
    found = iter(_answered(asked, scenarios, served, book, now))
    return [next(found) if isinstance(each, Scenario) else each for each in read]


def _answered(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    served: ServedRegressor,
    book: PriceBook,
    now: datetime,
) -> Sequence[Asked]:
    if not requests:
        return []
    columns = AnswerColumns(requests, scenarios, served, book, now)
    if not columns.refusals:
        return AllAnswered(columns)
    answers: list[Asked] = [Answered(columns, row) for row in range(len(requests))]
    for row, refusal in columns.refusals.items():
        answers[row] = refusal
    return answers


def _read(request: ForecastRequest, questioner: Questioner) -> Scenario | DomainError:
    try:
        return questioner.ask(request.scenario)
    except DomainError as error:
        # A traceback would keep all frames alive, one of which holds this result.
        return error.with_traceback(None)
