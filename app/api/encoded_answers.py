"""Remembers forecasts as the bytes that answered a body: schedulers ask the same in the same words.

An answer rests on one regressor, one price book and the days that it tells as ages; where one of
these is another, the question is answered anew.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from app.api.forecast_documents import Document
from app.domain.forecasts import Forecast, LedgerQuestion
from app.domain.identifiers import ForecastId, ProjectId
from app.services.recently_used import CacheFigures, RecentlyUsed

if TYPE_CHECKING:
    from app.services.memo import WeakGrounds

MAX_BODY_BYTES: Final = 4096
"""Longer bodies are not remembered."""

NAMELESS: Final = b'{"forecast_id":null'
"""How a forecast's document begins as JSON, before it has an identifier."""

_DAY: Final = timedelta(days=1)


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


def holds_until(forecast: Forecast, now: datetime) -> datetime:
    """Return when an age in days that the document tells becomes another."""
    target = forecast.to_target
    costs = (forecast.cost, None if target is None else target.cost)
    dated = [cost.price.valid_from for cost in costs if cost is not None]
    dated += [
        cost.conversion.valid_from
        for cost in costs
        if cost is not None and cost.conversion is not None
    ]
    return ages_hold_until(dated, now)


def ages_hold_until(dated: Iterable[datetime], now: datetime) -> datetime:
    """Return when the age in days of something that is dated becomes another, or the day does."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return min(each + _DAY * (max((now - each) // _DAY, 0) + 1) for each in (midnight, *dated))


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
