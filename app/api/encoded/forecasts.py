"""Encodes forecasts as bytes: identified, recorded and cached where requested."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from app.api.documents.forecasts import Document, forecast_document
from app.api.encoded.cache import (
    EncodedAnswer,
    EncodedAnswers,
    with_identifier,
    without_identifier,
)
from app.api.requests.forecasts import read_forecast
from app.domain.ages import day_after
from app.domain.forecasts import Forecast, ForecastRequest, LedgerQuestion, LedgerRecord
from app.domain.identifiers import ProjectId

if TYPE_CHECKING:
    from app.services.answering.memo import Grounds
    from app.services.answering.rows import Answered
    from app.services.forecasts import ForecastService


class EncodedForecast(NamedTuple):
    """A forecast as a document, as JSON after the identifier, and as the complete answer.

    `question` is what all its records share, None if it is not recorded.
    """

    document: Document
    rest: bytes
    answer: bytes
    question: LedgerQuestion | None
    encoded_at: datetime

    def encoded(self, grounds: "Grounds") -> EncodedAnswer:
        """Return the answer to cache; it is valid until the end of the day because of its ages."""
        return EncodedAnswer(grounds.weakly(), day_after(self.encoded_at), self.rest, self.question)


def encode_forecast(
    forecasts: "ForecastService", forecast: Forecast, request: ForecastRequest, document: Any
) -> EncodedForecast:
    """Encode a forecast; identify and record it if requested.

    Parameters
    ----------
    forecasts
        Keeps the record.
    forecast
        The forecast to encode.
    request, document
        The request, and the document that it was read from.
    """
    now = forecasts.now()
    forecast_json = forecast_document(forecast, now)
    rest = without_identifier(forecast_json)
    if not request.record:
        return EncodedForecast(forecast_json, rest, with_identifier(None, rest), None, now)
    question = question_of(forecast, document)
    return EncodedForecast(
        forecast_json, rest, record_answer(forecasts, question, rest, now), question, now
    )


def question_of(forecast: "Forecast | Answered", document: Any) -> LedgerQuestion:
    """Return what all records of the same question share."""
    return LedgerQuestion(
        forecast.workload_id,
        forecast.regressor_version,
        orjson.dumps(document),
        forecast.scenario_sha256,
    )


def record_answer(
    forecasts: "ForecastService", question: LedgerQuestion, rest: bytes, now: datetime
) -> bytes:
    """Return an answer with a new identifier, and record it.

    Parameters
    ----------
    forecasts
        Keeps the record.
    question
        The question.
    rest
        The forecast's JSON after its identifier.
    now
        The time of the answer.
    """
    forecast_id = forecasts.new_id(now)
    answer = with_identifier(forecast_id, rest)
    forecasts.record(LedgerRecord(question, forecast_id, now, answer))
    return answer


def cached_answer(
    forecasts: "ForecastService", answers: EncodedAnswers, project_id: ProjectId, body: bytes
) -> bytes | None:
    """Return the cached answer to a body, None if there is none or it is no longer valid.

    It gets a new identifier and record if the first answer was recorded.
    """
    cached = answers.find(project_id, body)
    if cached is None:
        return None
    now = forecasts.now()
    if now >= cached.until or not forecasts.holds(cached.grounds, project_id, now):
        return None
    answers.figures.hits += 1
    if cached.question is None:
        return with_identifier(None, cached.rest)
    return record_answer(forecasts, cached.question, cached.rest, now)


def answer_from_memory(
    forecasts: "ForecastService",
    answers: EncodedAnswers,
    project_id: ProjectId,
    body: bytes,
    document: Any,
) -> bytes | None:
    """Return the JSON answer of `make_forecast`, None if something needed is not in memory.

    Raises
    ------
    DomainError
        If the document is not a valid request, or it cannot be answered.
    """
    request = read_forecast(document)
    grounds = forecasts.grounds(project_id, request.workload, request.regressor_version)
    if grounds is None:
        return None
    forecast = forecasts.forecast_on(grounds, request)
    encoded_forecast = encode_forecast(forecasts, forecast, request, document)
    answers.keep(project_id, body, encoded_forecast.encoded(grounds))
    return encoded_forecast.answer
