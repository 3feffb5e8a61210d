"""Remembers answers: schedulers ask the same question again and again."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from app.domain.forecasts import ForecastRequest
from app.pricing.resolution import PriceBook
from app.services.answers import Answer
from app.services.recently_used import CacheFigures, RecentlyUsed
from app.services.serving import ServedRegressor

MAX_ANSWERS: Final = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Grounds:
    """What answers rest on besides the question: one regressor and one price book in memory.

    `version` is the version that was asked for, None for the published one.
    """

    served: ServedRegressor
    book: PriceBook
    version: int | None


@dataclass(frozen=True, slots=True)
class _Remembered:
    """An answer with what it rests on besides the question."""

    answer: Answer
    served: ServedRegressor
    book: PriceBook
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
    """The answers given last, the least used leave first.

    An answer holds for one regressor, one price book and one day (prices age by days).
    """

    def __init__(self, size: int = MAX_ANSWERS) -> None:
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
        """Return the remembered answer where it still holds, else the computed one."""
        key = (served.workload_id, _key(request))
        day = now.date()
        known = self._answers.get(key)
        if known is not None and known.day == day:
            is_same_regressor = known.served is served or known.served == served
            if is_same_regressor and known.book is book:
                self.figures.hits += 1
                return known.answer
        self.figures.misses += 1
        answer = compute()
        self._answers.put(key, _Remembered(answer, served, book, day))
        return answer
