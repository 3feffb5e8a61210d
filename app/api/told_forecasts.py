"""Tells forecasts as bytes: identified, recorded and remembered where that is asked for."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from app.api.encoded_answers import EncodedAnswer, EncodedAnswers, named, rest_of
from app.api.forecast_documents import Document, forecast_document
from app.api.forecast_requests import read_forecast
from app.domain.ages import day_after
from app.domain.forecasts import Forecast, ForecastRequest, LedgerQuestion, LedgerRecord
from app.domain.identifiers import ProjectId

if TYPE_CHECKING:
    from app.services.answering.memo import Grounds
    from app.services.answering.rows import Answered
    from app.services.forecasts import ForecastService


class Told(NamedTuple):
    """A forecast as its document, as what follows the identifier, as the answer.

    `question` is what its records share, None where it is not recorded.
    """

    document: Document
    rest: bytes
    answer: bytes
    question: LedgerQuestion | None
    told_at: datetime

    def encoded(self, grounds: "Grounds") -> EncodedAnswer:
        """Return what is remembered of it: the ages that it tells are those of a day."""
        return EncodedAnswer(grounds.weakly(), day_after(self.told_at), self.rest, self.question)


def tell(
    forecasts: "ForecastService", forecast: Forecast, asked: ForecastRequest, document: Any
) -> Told:
    """Return a forecast as it is told; identified and kept where that is asked for.

    Parameters
    ----------
    forecasts
        Keeps the record.
    forecast
        What is told.
    asked, document
        The question, and the document that asked it.
    """
    now = forecasts.now()
    told = forecast_document(forecast, now)
    rest = rest_of(told)
    if not asked.record:
        return Told(told, rest, named(None, rest), None, now)
    question = question_of(forecast, document)
    return Told(told, rest, recorded(forecasts, question, rest, now), question, now)


def question_of(forecast: "Forecast | Answered", document: Any) -> LedgerQuestion:
    """Return what all records of a question share, which a document asked."""
    return LedgerQuestion(
        forecast.workload_id,
        forecast.regressor_version,
        orjson.dumps(document),
        forecast.scenario_sha256,
    )


def recorded(
    forecasts: "ForecastService", question: LedgerQuestion, rest: bytes, now: datetime
) -> bytes:
    """Return an answer with an identifier of its own; its record is kept.

    Parameters
    ----------
    forecasts
        Keeps the record.
    question
        What was asked.
    rest
        The forecast as JSON behind its identifier.
    now
        When it is told.
    """
    forecast_id = forecasts.new_id(now)
    answer = named(forecast_id, rest)
    forecasts.record(LedgerRecord(question, forecast_id, now, answer))
    return answer


def answer_again(
    forecasts: "ForecastService", answers: EncodedAnswers, project_id: ProjectId, body: bytes
) -> bytes | None:
    """Return the answer to a body that was answered before, None where it does not hold any more.

    It has an identifier and a record of its own where the first one had.
    """
    known = answers.find(project_id, body)
    if known is None:
        return None
    now = forecasts.now()
    if now >= known.until or not forecasts.holds(known.grounds, project_id, now):
        return None
    answers.figures.hits += 1
    if known.question is None:
        return named(None, known.rest)
    return recorded(forecasts, known.question, known.rest, now)


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
    answers.keep(project_id, body, told.encoded(grounds))
    return told.answer
