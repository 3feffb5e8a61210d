"""The use cases of forecasting a configuration's duration and cost."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from app.domain.alike import rows_by_regressor
from app.domain.errors import DomainError, NotFoundError
from app.domain.forecasts import Forecast, ForecastRequest, LedgerEntry, LedgerRecord
from app.domain.identifiers import (
    ForecastId,
    ProjectId,
    Slug,
    is_identifier,
    new_identifier,
)
from app.pricing.gpus import may_be_same_gpu
from app.pricing.resolution import PriceBook
from app.services.answering.answers import Answer, LazyAnswer, answer_all, ask_all, whole
from app.services.answering.memo import AnswerMemo, Grounds, WeakGrounds
from app.services.context import ServiceContext
from app.services.ledger import LedgerWriter, Unwritten
from app.services.prices import PriceService
from app.services.served_regressors import ServedRegressor
from app.services.serving import PreparedRegressors, RegressorCache

_MOST_AT_ONCE: Final = 64
"""Of so many regressors at most, the answers are in memory at once."""
_LOOKS_AFTER_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses after looks for a forecast that another process may be writing; it takes about .2 s."""


class AnsweredPart(NamedTuple):
    """Answers to some of many requests, and the places of these."""

    rows: Sequence[int]
    answers: Sequence[LazyAnswer]


class ForecastService:
    """Use cases of forecasting a configuration's duration and cost.

    Parameters
    ----------
    context
        The surroundings of the service.
    regressors
        The regressors in memory.
    prices
        The source of current prices.
    ledger
        Writes recorded forecasts; closed with this service.
    """

    def __init__(
        self,
        context: ServiceContext,
        regressors: RegressorCache,
        prices: PriceService,
        ledger: LedgerWriter,
    ) -> None:
        self._context = context
        self._regressors = regressors
        self._prices = prices
        self._ledger = ledger
        self.memo = AnswerMemo(context.settings.kept_questions)

    def now(self) -> datetime:
        """Return the current instant."""
        return self._context.now()

    def grounds(self, project_id: ProjectId, workload: Slug, version: int | None) -> Grounds | None:
        """Return what a forecast needs if it is in memory and fresh; never queries the database."""
        now = self._context.now()
        served = self._regressors.in_memory(project_id, workload, version, now)
        book = self._prices.book_in_memory(project_id, now)
        return None if served is None or book is None else Grounds(served, book, version)

    def holds(self, grounds: WeakGrounds, project_id: ProjectId, now: datetime) -> bool:
        """Whether an answer on these grounds would be the same now; never queries the database."""
        served = self._regressors.in_memory(project_id, grounds.workload, grounds.version, now)
        book = self._prices.book_in_memory(project_id, now)
        return served is not None and book is not None and grounds.match(served, book)

    def forecast_on(self, grounds: Grounds, request: ForecastRequest) -> Forecast:
        """Return the forecast on grounds that are in memory.

        Raises
        ------
        DomainError
            If the question cannot be answered.
        """
        return self._one(request, grounds.served, grounds.book)

    def ask_on(
        self, grounds: Grounds, requests: Sequence[ForecastRequest], now: datetime
    ) -> Sequence[LazyAnswer]:
        """Return the answers on grounds that are in memory; only what is asked for is computed."""
        try:
            return ask_all(requests, grounds.served, grounds.book, now)
        except DomainError as error:
            return [error.with_traceback(None)] * len(requests)

    def forecast(self, project_id: ProjectId, request: ForecastRequest) -> Forecast:
        """Return the forecast, loading what it needs.

        Raises
        ------
        UnknownWorkloadError, NoRegressorError, RegressorUnavailableError
            If nothing can answer.
        DomainError
            If the question cannot be answered.
        """
        served = self._regressors.get(project_id, request.workload, request.regressor_version)
        return self._one(request, served, self._prices.book(project_id))

    def forecast_many(
        self, project_id: ProjectId, requests: Sequence[ForecastRequest]
    ) -> list[Answer]:
        """Return a forecast or a refusal for each request, with one evaluation per workload.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer and something is not in memory.
        """
        answers: dict[int, Answer] = {}
        for part in self.ask_parts(project_id, requests):
            answers.update(zip(part.rows, map(whole, part.answers), strict=True))
        return [answers[row] for row in range(len(requests))]

    def ask_parts(
        self, project_id: ProjectId, requests: Sequence[ForecastRequest]
    ) -> Iterator[AnsweredPart]:
        """Yield the same as `forecast_many` in parts, which compute only what is asked for.

        Questions about one version of one workload are one part. The answers of a part keep its
        regressors in memory.
        """
        book, groups = self._prices.book(project_id), rows_by_regressor(requests)
        regressors = self._regressors.prepare(project_id, groups)
        if len(groups) == 1:
            answers = self._group(regressors, *next(iter(groups)), requests, book)
            yield AnsweredPart(range(len(requests)), answers)
            return
        remaining = iter(regressors.in_memory_first(groups))
        while part := list(islice(remaining, _MOST_AT_ONCE)):
            rows: list[int] = []
            lazy_answers: list[LazyAnswer] = []
            for key in part:
                rows += groups[key]
                group = [requests[row] for row in groups[key]]
                lazy_answers += self._group(regressors, *key, group, book)
            yield AnsweredPart(rows, lazy_answers)

    def _group(
        self,
        regressors: PreparedRegressors,
        slug: Slug,
        version: int | None,
        requests: Sequence[ForecastRequest],
        book: PriceBook,
    ) -> Sequence[LazyAnswer]:
        try:
            served = regressors.get(slug, version)
        except DomainError as error:
            return [error.with_traceback(None)] * len(requests)
        return self.ask_on(Grounds(served, book, version), requests, self._context.now())

    def _one(self, request: ForecastRequest, served: ServedRegressor, book: PriceBook) -> Forecast:
        now = self._context.now()
        answer = self.memo.answer(
            request, served, book, now, lambda: answer_all([request], served, book, now)[0]
        )
        if isinstance(answer, DomainError):
            # Raised itself, a remembered error would keep the frames that it passes alive.
            raise answer.again()
        return answer

    def new_id(self, now: datetime) -> ForecastId:
        """Return an identifier for a forecast made now."""
        return ForecastId(new_identifier("fc", now=now))

    def record(self, record: LedgerRecord) -> None:
        """Record a forecast; it is written in the background."""
        self._ledger.put(record)

    def recorded(self, project_id: ProjectId, forecast_id: str) -> LedgerEntry:
        """Return a recorded forecast with the runs that were made from it.

        Raises
        ------
        NotFoundError
            If the project has no such forecast.
        """
        self._ledger.flush()
        entry = None
        if is_identifier("fc", forecast_id):
            with self._context.database.reading() as stores:
                entry = stores.forecasts.get(project_id, ForecastId(forecast_id), may_be_same_gpu)
        if entry is None:
            raise NotFoundError("forecast", forecast_id)
        return entry

    async def until_written(self, project_id: ProjectId, forecast_id: str) -> None:
        """Wait briefly for a forecast that another process has made just now to be written.

        Neither a thread nor a connection is held between looks.
        """
        if not Unwritten(self._context.now()).may_hold(forecast_id):
            return
        for pause_s in _LOOKS_AFTER_S:
            is_written = await asyncio.to_thread(self._is_written, project_id, forecast_id)
            if is_written or self._context.stopping.is_set():
                return
            await asyncio.sleep(pause_s)

    def _is_written(self, project_id: ProjectId, forecast_id: str) -> bool:
        self._ledger.flush()
        with self._context.database.reading() as stores:
            return bool(stores.forecasts.workloads_of(project_id, [forecast_id]))

    def close(self) -> None:
        """Write the forecasts that are not yet written."""
        self._ledger.close()
