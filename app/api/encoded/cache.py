"""Caches forecasts as encoded bytes by request body: schedulers repeat identical requests.

An answer depends on the regressor, the price book and the day, from which ages are computed; if
any of these has changed, the question is answered again.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from app.api.documents.forecasts import Document
from app.domain.forecasts import LedgerQuestion
from app.domain.identifiers import ForecastId, ProjectId
from app.services.recently_used import CacheFigures, RecentlyUsed

if TYPE_CHECKING:
    from app.services.answering.memo import WeakGrounds

MAX_BODY_BYTES: Final = 4096
"""Longer bodies are not cached."""

NAMELESS: Final = b'{"forecast_id":null'
"""The beginning of a forecast's JSON before it is given an identifier."""


class EncodedAnswer(NamedTuple):
    """An answer without its identifier, and what it depends on.

    `question` is what all its records share, None if it is not recorded.
    """

    grounds: "WeakGrounds"
    until: datetime
    rest: bytes
    question: LedgerQuestion | None


def with_identifier(forecast_id: ForecastId | None, rest: bytes) -> bytes:
    """Return a forecast's JSON with its identifier."""
    if forecast_id is None:
        return NAMELESS + rest
    return b'{"forecast_id":"%b"%b' % (forecast_id.encode(), rest)


def without_identifier(document: Document) -> bytes:
    """Return a forecast's JSON after its identifier, which is its first member.

    The document must not have an identifier yet.
    """
    return orjson.dumps(document)[len(NAMELESS) :]


class EncodedAnswers:
    """The most recent answers; the least recently used are evicted first.

    Keyed by project and body: projects never share answers.

    Parameters
    ----------
    size
        The maximum number of answers.
    """

    def __init__(self, size: int) -> None:
        self._answers = RecentlyUsed[tuple[ProjectId, bytes], EncodedAnswer](size)
        self.figures = CacheFigures()

    def find(self, project_id: ProjectId, body: bytes) -> EncodedAnswer | None:
        """Return the answer to a body; the caller must check whether it is still valid."""
        return self._answers.get((project_id, body))

    def keep(self, project_id: ProjectId, body: bytes, answer: EncodedAnswer) -> None:
        """Remember the answer to a body."""
        if len(body) <= MAX_BODY_BYTES:
            self._answers.put((project_id, body), answer)

    def __len__(self) -> int:
        return len(self._answers)
