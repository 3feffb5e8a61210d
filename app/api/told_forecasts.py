"""Tells forecasts as bytes: identified, recorded and remembered where that is asked for."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from app.api.encoded_answers import EncodedAnswer, EncodedAnswers, holds_until, named, rest_of
from app.api.forecast_documents import FORECAST_MEMBERS, Document, forecast_document
from app.api.forecast_requests import read_forecast
from app.domain.errors import DomainError
from app.domain.forecasts import Forecast, ForecastRequest, LedgerRecord
from app.domain.identifiers import ProjectId

if TYPE_CHECKING:
    from app.services.answered import Answered
    from app.services.forecasts import ForecastService
    from app.services.memo import Grounds


class Asked(NamedTuple):
    """A question: its body, the document that it is, and what it asks."""

    body: bytes
    document: Any
    request: ForecastRequest


class Told(NamedTuple):
    """A forecast as its document, as what follows the identifier, as the answer, as its record."""

    document: Document
    rest: bytes
    answer: bytes
    record: LedgerRecord | None
    told_at: datetime

    def encoded(
        self, forecast: Forecast, asked: ForecastRequest, grounds: "Grounds"
    ) -> EncodedAnswer:
        """Return what is remembered of it."""
        target = forecast.to_target
        costs = (forecast.cost, None if target is None else target.cost)
        until = holds_until(costs, self.told_at)
        return EncodedAnswer(asked, grounds, until, self.rest, self.record)


def tell(
    forecasts: "ForecastService", forecast: Forecast, asked: ForecastRequest, question: Any
) -> Told:
    """Return a forecast as it is told; identified and kept where that is asked for."""
    now = forecasts.now()
    document = forecast_document(forecast, now)
    rest = rest_of(orjson.dumps(document))
    answer, record = _named(forecasts, forecast, asked, question, rest, now)
    return Told(document, rest, answer, record, now)


def _named(
    forecasts: "ForecastService",
    forecast: "Forecast | Answered",
    asked: ForecastRequest,
    question: Any,
    rest: bytes,
    now: datetime,
) -> tuple[bytes, LedgerRecord | None]:
    if not asked.record:
        return named(None, rest), None
    forecast_id = forecasts.new_id(now)
    answer = named(forecast_id, rest)
    request = orjson.dumps(question)
    return answer, forecasts.record(forecast, forecast_id, now, request=request, answer=answer)


def answer_at_once(
    forecasts: "ForecastService",
    answers: EncodedAnswers,
    project_id: ProjectId,
    body: bytes,
    question: Any,
) -> bytes | None:
    """Return what `make_forecast` answers in JSON, None where something is not in memory.

    Raises
    ------
    DomainError
        If the document is no question, or the question cannot be answered.
    """
    asked = read_forecast(question)
    grounds = forecasts.grounds(project_id, asked.workload, asked.regressor_version)
    if grounds is None:
        return None
    forecast = forecasts.forecast_on(grounds, asked)
    told = tell(forecasts, forecast, asked, question)
    answers.keep(project_id, body, told.encoded(forecast, asked, grounds))
    return told.answer


def answer_together(
    forecasts: "ForecastService",
    answers: EncodedAnswers,
    project_id: ProjectId,
    grounds: "Grounds",
    asked: Sequence[Asked],
) -> list[bytes | None]:
    """Return what `answer_at_once` does to each of many questions, by one evaluation.

    None where a question is refused: it is asked alone to be told why.

    Raises
    ------
    RegressorUnavailableError
        If the regressor cannot answer one of them.
    """
    from app.api.forecast_columns import (  # noqa: PLC0415 - numpy and models are not for the start
        forecast_texts,
    )

    found = forecasts.answers_on(grounds, [each.request for each in asked])
    now = forecasts.now()
    answered = [each for each in found if not isinstance(each, DomainError)]
    texts = iter(forecast_texts(answered, now, FORECAST_MEMBERS))
    told: list[bytes | None] = []
    for question, each in zip(asked, found, strict=True):
        if isinstance(each, DomainError):
            told.append(None)
            continue
        rest, request = rest_of(next(texts)), question.request
        answer, record = _named(forecasts, each, request, question.document, rest, now)
        until = holds_until([each.columns.offers[each.row]], now)
        kept = EncodedAnswer(request, grounds, until, rest, record)
        answers.keep(project_id, question.body, kept)
        told.append(answer)
    return told
