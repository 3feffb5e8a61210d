"""Answers several simultaneous single questions by one evaluation."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from app.api.documents.forecasts import FORECAST_MEMBERS
from app.api.encoded.cache import NAMELESS
from app.api.requests.forecasts import read_together
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
    """One of several answers, with what it depends on and its JSON after the identifier.

    `with_identifier` (`app.api.encoded.cache`) completes the JSON; `until` is when the ages in it
    change; `is_recorded` says whether it must be recorded.
    """

    grounds: "WeakGrounds"
    answered: "Answered"
    rest: bytes
    until: datetime
    is_recorded: bool


Outcome = JointAnswer | DomainError | None
"""An answer, a refusal, or None if something needed is not in memory."""


def answer_together(
    forecasts: "ForecastService", project_id: ProjectId, documents: Sequence[object]
) -> list[Outcome]:
    """Return the answer to each document, in order; common parts are computed once.

    The database is never queried: where this would be necessary, the answer is None.

    Parameters
    ----------
    forecasts
        Provides the regressors.
    project_id
        The project of all questions.
    documents
        Parsed bodies of `POST /v1/forecasts` for any workloads. Those of the same form (the same
        names in the same order) are read fastest.
    """
    requests = read_together(documents)
    if isinstance(requests, AlikeRequests):
        return _by_regressor(forecasts, project_id, requests)
    valid = [request for request in requests if not isinstance(request, DomainError)]
    answers = iter(_by_regressor(forecasts, project_id, valid))
    return [request if isinstance(request, DomainError) else next(answers) for request in requests]


def _by_regressor(
    forecasts: "ForecastService", project_id: ProjectId, requests: Sequence[ForecastRequest]
) -> list[Outcome]:
    """Return the answer to each question, None if something needed is not in memory."""
    outcomes: list[Outcome] = [None] * len(requests)
    groups = rows_by_regressor(requests)
    for (workload, version), rows in groups.items():
        grounds = forecasts.grounds(project_id, workload, version)
        if grounds is not None:
            members = requests if len(groups) == 1 else [requests[row] for row in rows]
            for row, answer in zip(rows, _answers(forecasts, grounds, members), strict=True):
                outcomes[row] = answer
    return outcomes


def _answers(
    forecasts: "ForecastService", grounds: "Grounds", requests: Sequence[ForecastRequest]
) -> Iterator[Outcome]:
    """Yield the answers to questions with the same grounds."""
    from app.api.batches.forecasts import (  # noqa: PLC0415 - numpy and models are not for the start
        forecast_texts,
    )

    now = forecasts.now()
    answers = forecasts.ask_on(grounds, requests, now)
    texts = iter(forecast_texts(answers, now, FORECAST_MEMBERS))
    weak_grounds, until = grounds.weakly(), day_after(now)
    for answer, is_recorded in zip(answers, column_of(requests, "record"), strict=True):
        if isinstance(answer, DomainError):
            yield answer
            continue
        rest = next(texts)[len(NAMELESS) :]
        yield JointAnswer(weak_grounds, answer, rest, until, is_recorded)
