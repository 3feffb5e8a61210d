"""Remembers answers: schedulers repeat the same question."""

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import date, datetime

from app.domain.forecasts import ForecastRequest
from app.pricing.resolution import PriceBook
from app.services.answering.answers import Answer
from app.services.recently_used import CacheFigures, RecentlyUsed
from app.services.served_regressors import ServedRegressor


class WeakGrounds:
    """Tells whether an answer's grounds still hold, without keeping them in memory.

    A regressor or price book that was released does not match: read again, it is another object.

    Parameters
    ----------
    served, book, version
        The grounds, as in `Grounds`.
    """

    __slots__ = ("_book", "_portfolio", "_told_as", "version", "workload")

    def __init__(self, served: ServedRegressor, book: PriceBook, version: int | None) -> None:
        self.workload, self.version = served.workload, version
        self._portfolio, self._book = weakref.ref(served.portfolio), weakref.ref(book)
        self._told_as = (served.currency, served.is_stale)

    def match(self, served: ServedRegressor, book: PriceBook) -> bool:
        """Whether an answer on these grounds would be the same."""
        return (
            self._portfolio() is served.portfolio
            and self._book() is book
            and self._told_as == (served.currency, served.is_stale)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Grounds:
    """What an answer depends on besides the question: one regressor and one price book in memory.

    `version` is the requested version, None for the published one.
    """

    served: ServedRegressor
    book: PriceBook
    version: int | None

    def weakly(self) -> WeakGrounds:
        """Return weak references by which to recognise these grounds."""
        return WeakGrounds(self.served, self.book, self.version)


@dataclass(frozen=True, slots=True)
class _Remembered:
    """An answer with its grounds."""

    answer: Answer
    grounds: WeakGrounds
    day: date


def _key(request: ForecastRequest) -> Hashable:
    scenario = request.scenario
    return (
        request.workload,
        scenario.configuration,
        scenario.work,
        tuple(scenario.parameters.items()),
        request.confidence,
        request.deadline_s,
        request.budget,
        request.pricing,
        request.spot,
        request.energy,
        request.regressor_version,
        request.time_limit_quantile,
        request.explain,
    )


class AnswerMemo:
    """The most recent answers; the least recently used are dropped first.

    An answer holds for one regressor, one price book and one day (prices are dated).

    Parameters
    ----------
    size
        The most answers kept.
    """

    def __init__(self, size: int) -> None:
        self._answers = RecentlyUsed[Hashable, _Remembered](size)
        self.figures = CacheFigures()

    def __len__(self) -> int:
        return len(self._answers)

    def answer(
        self,
        request: ForecastRequest,
        served: ServedRegressor,
        book: PriceBook,
        now: datetime,
        compute: Callable[[], Answer],
    ) -> Answer:
        """Return the remembered answer if it still holds, else the computed one."""
        key = (served.workload_id, _key(request))
        day = now.date()
        cached = self._answers.get(key)
        if cached is not None and cached.day == day and cached.grounds.match(served, book):
            self.figures.hits += 1
            return cached.answer
        self.figures.misses += 1
        answer = compute()
        grounds = WeakGrounds(served, book, request.regressor_version)
        self._answers.put(key, _Remembered(answer, grounds, day))
        return answer
