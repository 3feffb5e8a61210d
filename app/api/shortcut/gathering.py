"""Gathers questions that arrive within one turn of the event loop into one evaluation.

An evaluation costs a hundred numpy calls however few its rows are: sixteen questions together
take little more than three times as long as one.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from app.api.encoded.cache import EncodedAnswer, EncodedAnswers, with_identifier
from app.api.encoded.forecasts import question_of, record_answer
from app.api.metrics.counters import Count
from app.api.shortcut.joint_answers import JointAnswer, answer_together
from app.domain import deadlines
from app.domain.deadlines import Deadline
from app.domain.identifiers import ProjectId
from app.services.wiring import Services

_logger = logging.getLogger(__name__)
MIN_GATHERED: Final = 3
"""Fewer questions to one regressor are faster one by one."""

MAX_GATHERED: Final = 64
"""Questions answered in one turn of the loop at most; the others wait for the next."""


class Question(Protocol):
    """A question that waits for an answer, or for the notice that it must be answered alone.

    `document` is the parsed JSON of `body`.
    """

    project_id: ProjectId
    body: bytes
    document: Any

    @property
    def is_wanted(self) -> bool:
        """Whether an answer would still be sent."""
        ...

    def settle(self, answer: bytes | None) -> None:
        """Take the answer, None if it must be answered alone; called once, as the last call."""
        ...


@dataclass(slots=True, eq=False)
class _Awaited:
    """A question whose request awaits the answer."""

    project_id: ProjectId
    body: bytes
    document: Any
    deadline: Deadline | None
    answer: "asyncio.Future[bytes | None]"

    @property
    def is_wanted(self) -> bool:
        """Whether the caller is still connected and the deadline has not passed."""
        if self.answer.done():
            return False
        return self.deadline is None or not self.deadline.has_ended

    def settle(self, answer: bytes | None) -> None:
        """Give the request its answer."""
        if not self.answer.done():
            self.answer.set_result(answer)


@dataclass(slots=True)
class _Gathering:
    """The questions that wait for the next turn of one event loop."""

    loop: asyncio.AbstractEventLoop
    waiting: list[Question] = field(default_factory=list)
    n_seen: int = 1

    def grows(self) -> bool:
        """Whether more questions than at the last call, or than one, wait and there is room."""
        n_seen, self.n_seen = self.n_seen, len(self.waiting)
        return n_seen < self.n_seen < MAX_GATHERED


_Group = tuple[ProjectId, str, str | int | None]


class Gatherer:
    """Answers simultaneous questions together where that is faster.

    Parameters
    ----------
    services
        Provide the forecasts.
    answers
        The cache of answers.
    """

    def __init__(self, services: Services, answers: EncodedAnswers) -> None:
        self._services = services
        self._answers = answers
        self._open: _Gathering | None = None
        self.forecasts = Count(
            "trainfare_gathered_forecasts",
            "Forecasts that were answered together with others that were asked at the same time.",
        )
        self.evaluations = Count(
            "trainfare_gathered_evaluations", "Evaluations that answered them."
        )

    def ask(
        self, project_id: ProjectId, body: bytes, document: Any
    ) -> "asyncio.Future[bytes | None]":
        """Return a future answer, None if the question must be answered alone.

        It is settled once everything that has arrived is read, without waiting for a fixed time.
        """
        answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        deadline = deadlines.current.get()
        self.gather(_Awaited(project_id, body, document, deadline, answer))
        return answer

    def gather(self, question: Question) -> None:
        """Settle a question once everything that has arrived is read."""
        loop = asyncio.get_running_loop()
        gathering = self._open
        if gathering is None or gathering.loop is not loop:
            gathering = self._open = _Gathering(loop)
            # A fresh context, as deadline, trace and log fields belong to the first question alone.
            loop.call_soon(self._answer, gathering, context=Context())
        gathering.waiting.append(question)

    def _answer(self, gathering: _Gathering) -> None:
        """Answer the gathered questions, at most `MAX_GATHERED` in a turn.

        If the last turn added questions, wait one more turn: reading further requests takes less
        time than a separate evaluation for them.
        """
        if gathering.grows():
            gathering.loop.call_soon(self._answer, gathering)
            return
        batch, later = gathering.waiting[:MAX_GATHERED], gathering.waiting[MAX_GATHERED:]
        if later:
            gathering.waiting = later
            gathering.loop.call_soon(self._answer, gathering)
        elif self._open is gathering:
            self._open = None
        answers: dict[int, bytes] = {}
        try:
            if len(batch) >= MIN_GATHERED:
                self._answer_groups([question for question in batch if question.is_wanted], answers)
        finally:
            for question in batch:
                _settle(question, answers.get(id(question)))

    def _answer_groups(self, waiting: Sequence[Question], answers: dict[int, bytes]) -> None:
        groups: defaultdict[_Group, list[Question]] = defaultdict(list)
        for question in waiting:
            regressor = _regressor_of(question.document)
            if regressor is not None:
                groups[question.project_id, *regressor].append(question)
        for (project_id, *_), members in groups.items():
            if len(members) >= MIN_GATHERED:
                self._answer_group(project_id, members, answers)

    def _answer_group(
        self, project_id: ProjectId, members: Sequence[Question], answers: dict[int, bytes]
    ) -> None:
        try:
            joint_answers = answer_together(
                self._services.forecasts, project_id, [question.document for question in members]
            )
        except Exception:
            # It is unknown whose question failed, and it must not affect the others.
            _logger.exception("questions that were gathered are answered one by one")
            return
        # A refusal may be due to another question of the group: asked alone, each gets its own.
        answered = [
            (question, answer)
            for question, answer in zip(members, joint_answers, strict=True)
            if isinstance(answer, JointAnswer)
        ]
        self.evaluations.value += bool(answered)
        self.forecasts.value += len(answered)
        now = self._services.forecasts.now()
        for question, answer in answered:
            answers[id(question)] = self._record_and_keep(question, answer, now)

    def _record_and_keep(self, pending: Question, joint: JointAnswer, now: datetime) -> bytes:
        rest, question = joint.rest, None
        if joint.is_recorded:
            question = question_of(joint.answered, pending.document)
            answer = record_answer(self._services.forecasts, question, rest, now)
        else:
            answer = with_identifier(None, rest)
        kept = EncodedAnswer(joint.grounds, joint.until, rest, question)
        self._answers.keep(pending.project_id, pending.body, kept)
        return answer


def _regressor_of(document: Any) -> tuple[str, str | int | None] | None:
    """Return the workload and version that a document asks for, None if no question has such."""
    if not isinstance(document, dict):
        return None
    workload, version = document.get("workload"), document.get("regressor_version")
    if isinstance(workload, str) and isinstance(version, str | int | None):
        return workload, version
    return None


def _settle(question: Question, answer: bytes | None) -> None:
    """Settle a question; that it cannot be answered is no fault of those that come after it."""
    try:
        question.settle(answer)
    except Exception:
        _logger.exception("an answer could not be given")
