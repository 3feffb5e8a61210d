"""Remembers forecasts as the bytes that answered a body: schedulers ask the same in the same words.

An answer rests on one regressor, one price book and the day, by which it tells ages; where one of
these is another, the question is answered anew.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from app.api.forecast_documents import Document
from app.domain.forecasts import LedgerQuestion
from app.domain.identifiers import ForecastId, ProjectId
from app.services.recently_used import CacheFigures, RecentlyUsed

if TYPE_CHECKING:
    from app.services.answering.memo import WeakGrounds

MAX_BODY_BYTES: Final = 4096
"""Longer bodies are not remembered."""

NAMELESS: Final = b'{"forecast_id":null'
"""How a forecast's document begins as JSON, before it has an identifier."""


class EncodedAnswer(NamedTuple):
    """An answer without its identifier, and what it rests on.

    `question` is what its records share, None where it is not recorded.
    """

    grounds: "WeakGrounds"
    until: datetime
    rest: bytes
    question: LedgerQuestion | None


def named(forecast_id: ForecastId | None, rest: bytes) -> bytes:
    """Return a forecast's document as JSON with its identifier."""
    if forecast_id is None:
        return NAMELESS + rest
    return b'{"forecast_id":"%b"%b' % (forecast_id.encode(), rest)


def rest_of(document: Document) -> bytes:
    """Return a forecast's document as JSON from behind its identifier, its first member.

    The document has no identifier yet.
    """
    return orjson.dumps(document)[len(NAMELESS) :]


class EncodedAnswers:
    """The answers given last, the least used leave first.

    The key is the project and the body: what one project was answered is no other's.

    Parameters
    ----------
    size
        The most answers kept.
    """

    def __init__(self, size: int) -> None:
        self._answers = RecentlyUsed[tuple[ProjectId, bytes], EncodedAnswer](size)
        self.figures = CacheFigures()

    def find(self, project_id: ProjectId, body: bytes) -> EncodedAnswer | None:
        """Return what a body was answered; whether it still holds is for the caller to see."""
        return self._answers.get((project_id, body))

    def keep(self, project_id: ProjectId, body: bytes, answer: EncodedAnswer) -> None:
        """Remember what a body was answered."""
        if len(body) <= MAX_BODY_BYTES:
            self._answers.put((project_id, body), answer)

    def __len__(self) -> int:
        return len(self._answers)
