"""Gathers questions that come within one turn of the loop, to be answered by one evaluation.

An evaluation costs a hundred calls of numpy, however few its rows are: sixteen questions at once
take little more than three times what one takes.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.api.encoded_answers import EncodedAnswers
from app.api.forecast_requests import read_forecasts
from app.api.told_forecasts import Asked, answer_together
from app.domain import deadlines
from app.domain.deadlines import Deadline
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import ProjectId, Slug
from app.services.wiring import Services

_logger = logging.getLogger(__name__)
FEWEST: Final = 4
"""Below this number, questions to one regressor take less time one by one."""

MOST: Final = 64
"""So many are answered in one turn of the loop; the others wait for the next."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A question that waits for an answer, or for the word that it is to be answered alone."""

    project_id: ProjectId
    body: bytes
    document: Any
    deadline: Deadline | None
    answer: "asyncio.Future[bytes | None]"

    @property
    def is_wanted(self) -> bool:
        """Whether an answer would still be sent."""
        if self.answer.done():
            return False
        return self.deadline is None or not self.deadline.has_ended


@dataclass(slots=True)
class _Gathering:
    """What waits for the next turn of one event loop."""

    loop: asyncio.AbstractEventLoop
    waiting: list[_Waiting] = field(default_factory=list)


@dataclass(slots=True)
class GatheringFigures:
    """How many forecasts were answered together with others, and by how many evaluations."""

    forecasts: int = 0
    evaluations: int = 0


_Group = tuple[ProjectId, Slug, int | None]


class Gatherer:
    """Answers what is asked at the same time together, where that takes less time.

    Parameters
    ----------
    services
        Whose forecasts answer.
    answers
        Where answers are remembered.
    """

    def __init__(self, services: Services, answers: EncodedAnswers) -> None:
        self._services = services
        self._answers = answers
        self._open: _Gathering | None = None
        self.figures = GatheringFigures()

    def ask(
        self, project_id: ProjectId, body: bytes, document: Any
    ) -> "asyncio.Future[bytes | None]":
        """Return what will be the answer, None where the question is to be answered alone.

        That is known when all has been read that has arrived: nobody waits for more to come.
        """
        loop = asyncio.get_running_loop()
        gathering = self._open
        if gathering is None or gathering.loop is not loop:
            gathering = self._open = _Gathering(loop)
            loop.call_soon(self._answer, gathering)
        answer: asyncio.Future[bytes | None] = loop.create_future()
        deadline = deadlines.current.get()
        gathering.waiting.append(_Waiting(project_id, body, document, deadline, answer))
        return answer

    def _answer(self, gathering: _Gathering) -> None:
        """Answer what has been gathered; what is too much for one turn waits for the next."""
        now, later = gathering.waiting[:MOST], gathering.waiting[MOST:]
        if later:
            gathering.waiting = later
            gathering.loop.call_soon(self._answer, gathering)
        elif self._open is gathering:
            self._open = None
        if len(now) >= FEWEST:
            # The deadline of the one that came first is not that of the others.
            with deadlines.unlimited():
                self._answer_groups([each for each in now if each.is_wanted])
        for each in now:
            if not each.answer.done():
                each.answer.set_result(None)

    def _answer_groups(self, waiting: Sequence[_Waiting]) -> None:
        groups: defaultdict[_Group, list[tuple[_Waiting, Asked]]] = defaultdict(list)
        read = read_forecasts([each.document for each in waiting])
        for each, request in zip(waiting, read, strict=True):
            if isinstance(request, ForecastRequest):
                key = (each.project_id, request.workload, request.regressor_version)
                groups[key].append((each, Asked(each.body, each.document, request)))
        for key, members in groups.items():
            if len(members) >= FEWEST:
                self._answer_group(*key, members)

    def _answer_group(
        self,
        project_id: ProjectId,
        workload: Slug,
        version: int | None,
        members: Sequence[tuple[_Waiting, Asked]],
    ) -> None:
        forecasts = self._services.forecasts
        grounds = forecasts.grounds(project_id, workload, version)
        if grounds is None:
            return
        asked = [question for _, question in members]
        try:
            answers = answer_together(forecasts, self._answers, project_id, grounds, asked)
        except DomainError:
            return  # one of them alone: each is told for itself
        except Exception:
            # Whose question it was nobody knows, and the others have nothing to do with it.
            _logger.exception("questions that were gathered are answered one by one")
            return
        self.figures.evaluations += 1
        self.figures.forecasts += len(answers) - answers.count(None)
        for (each, _), answer in zip(members, answers, strict=True):
            each.answer.set_result(answer)
