"""Tells forecasts as bytes: identified, recorded and remembered where that is asked for."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from app.api.encoded_answers import EncodedAnswer, EncodedAnswers, holds_until, named, rest_of
from app.api.forecast_documents import Document, forecast_document
from app.api.forecast_requests import read_forecast
from app.domain.forecasts import Forecast, ForecastRequest, LedgerRecord
from app.domain.identifiers import ProjectId

if TYPE_CHECKING:
    from app.services.answered import Answered
    from app.services.forecasts import ForecastService
    from app.services.memo import Grounds


class Told(NamedTuple):
    """A forecast as its document, as what follows the identifier, as the answer, as its record."""

    document: Document
    rest: bytes
    answer: bytes
    record: LedgerRecord | None
    told_at: datetime

    def encoded(self, forecast: Forecast, grounds: "Grounds") -> EncodedAnswer:
        """Return what is remembered of it."""
        until = holds_until(forecast, self.told_at)
        return EncodedAnswer(grounds, until, self.rest, self.record)


def tell(
    forecasts: "ForecastService", forecast: Forecast, asked: ForecastRequest, question: Any
) -> Told:
    """Return a forecast as it is told; identified and kept where that is asked for."""
    now = forecasts.now()
    document = forecast_document(forecast, now)
    rest = rest_of(document)
    if not asked.record:
        return Told(document, rest, named(None, rest), None, now)
    answer, record = recorded(forecasts, forecast, question, rest, now)
    return Told(document, rest, answer, record, now)


def recorded(
    forecasts: "ForecastService",
    forecast: "Forecast | Answered",
    question: Any,
    rest: bytes,
    now: datetime,
) -> tuple[bytes, LedgerRecord]:
    """Return an answer with its identifier, and its record, which is kept.

    Parameters
    ----------
    forecasts
        Keeps the record.
    forecast, question
        What is told, and the document that asked it.
    rest
        The forecast as JSON behind its identifier.
    now
        When it is told.
    """
    forecast_id = forecasts.new_id(now)
    answer = named(forecast_id, rest)
    request = orjson.dumps(question)
    return answer, forecasts.record(forecast, forecast_id, now, request=request, answer=answer)


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
    if known.record is None:
        return named(None, known.rest)
    forecast_id = forecasts.new_id(now)
    answer = named(forecast_id, known.rest)
    forecasts.record_again(known.record, forecast_id, now, answer)
    return answer


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
    answers.keep(project_id, body, told.encoded(forecast, grounds))
    return told.answer
