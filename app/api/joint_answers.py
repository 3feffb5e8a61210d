"""Answers several single questions by one evaluation: what callers ask at the same moment."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from app.api.encoded_answers import NAMELESS
from app.api.forecast_documents import FORECAST_MEMBERS
from app.api.forecast_requests import read_together
from app.domain.ages import day_after
from app.domain.alike import AlikeRequests, column_of, rows_by_regressor
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import ProjectId

if TYPE_CHECKING:
    from app.services.answering.memo import Grounds, WeakGrounds
    from app.services.answering.rows import Answered
    from app.services.forecasts import ForecastService


class JointAnswer(NamedTuple):
    """One of several answers: what it rests on, its JSON behind the identifier.

    The JSON is completed by `encoded_answers.named`; `until` is when the ages that it tells become
    others, `is_recorded` whether it is to be kept.
    """

    grounds: "WeakGrounds"
    answered: "Answered"
    rest: bytes
    until: datetime
    is_recorded: bool


Found = JointAnswer | DomainError | None
"""An answer; a refusal; None where something is not at hand."""


def answer_together(
    forecasts: "ForecastService", project_id: ProjectId, documents: Sequence[object]
) -> list[Found]:
    """Return the answer to each document, in order; what they share is worked out once.

    Nothing here asks the database: where it would have to be asked, the answer is None.

    Parameters
    ----------
    forecasts
        Whose regressors answer.
    project_id
        Who asks all of them.
    documents
        Bodies of `POST /v1/forecasts`, parsed; of any workloads. Those of one form (the same
        names in the same order) are read fastest.
    """
    read = read_together(documents)
    if isinstance(read, AlikeRequests):
        return _by_regressor(forecasts, project_id, read)
    asked = [each for each in read if not isinstance(each, DomainError)]
    answers = iter(_by_regressor(forecasts, project_id, asked))
    return [each if isinstance(each, DomainError) else next(answers) for each in read]


def _by_regressor(
    forecasts: "ForecastService", project_id: ProjectId, requests: Sequence[ForecastRequest]
) -> list[Found]:
    """Return the answer to each question, None where something is not at hand."""
    found: list[Found] = [None] * len(requests)
    groups = rows_by_regressor(requests)
    for (workload, version), rows in groups.items():
        grounds = forecasts.grounds(project_id, workload, version)
        if grounds is not None:
            members = requests if len(groups) == 1 else [requests[row] for row in rows]
            for row, answer in zip(rows, _answers(forecasts, grounds, members), strict=True):
                found[row] = answer
    return found


def _answers(
    forecasts: "ForecastService", grounds: "Grounds", requests: Sequence[ForecastRequest]
) -> Iterator[Found]:
    """Yield the answer to each question that rests on the same."""
    from app.api.forecast_columns import (  # noqa: PLC0415 - numpy and models are not for the start
        forecast_texts,
    )

    now = forecasts.now()
    answers = forecasts.ask_on(grounds, requests, now)
    texts = iter(forecast_texts(answers, now, FORECAST_MEMBERS))
    weakly, until = grounds.weakly(), day_after(now)
    for answer, is_recorded in zip(answers, column_of(requests, "record"), strict=True):
        if isinstance(answer, DomainError):
            yield answer
            continue
        rest = next(texts)[len(NAMELESS) :]
        yield JointAnswer(weakly, answer, rest, until, is_recorded)
