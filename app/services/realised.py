"""The use case of monitoring how recorded forecasts come true, workload by workload."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from app.domain.accuracy import LEVELS, RealisedAccuracy, RealisedForecast
from app.domain.instants import elapsed
from app.pricing.gpus import may_be_same_gpu
from app.services.context import ServiceContext

WINDOW: Final = timedelta(days=7)
"""How far back forecasts are examined."""

_FRESH_FOR: Final = timedelta(minutes=1)


class RealisedService:
    """Reports error and coverage of the workloads with the most forecasts that came true.

    The number of workloads is a setting, none by default: the metrics show their names, and each is
    a time series of its own.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._read_at: datetime | None = None
        self._cached: list[RealisedAccuracy] = []

    def accuracy(self) -> list[RealisedAccuracy]:
        """Return the figures of the last seven days, read at most once a minute.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer.
        """
        n_workloads, now = self._context.settings.metrics_workloads, self._context.now()
        if not n_workloads:
            return []
        with self._lock:
            if self._read_at is None or elapsed(self._read_at, now) > _FRESH_FOR:
                with self._context.database.reading() as stores:
                    forecasts = stores.forecasts.realised(now - WINDOW, may_be_same_gpu)
                self._cached, self._read_at = _busiest(forecasts, n_workloads), now
            return self._cached


def _busiest(forecasts: Sequence[RealisedForecast], limit: int) -> list[RealisedAccuracy]:
    groups: defaultdict[tuple[str, str], list[RealisedForecast]] = defaultdict(list)
    for forecast in forecasts:
        groups[forecast.project, forecast.workload].append(forecast)
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:limit]
    return [_accuracy(group) for _, group in largest]


def _accuracy(group: Sequence[RealisedForecast]) -> RealisedAccuracy:
    errors = [abs(forecast.median_s / forecast.observed_s - 1.0) for forecast in group]
    hits_by_level: defaultdict[float, list[bool]] = defaultdict(list)
    for forecast in group:
        # A forecast at another confidence counts for the error alone.
        if forecast.confidence in LEVELS:
            hits_by_level[forecast.confidence].append(
                forecast.lower_s <= forecast.observed_s <= forecast.upper_s
            )
    return RealisedAccuracy(
        group[0].project,
        group[0].workload,
        runs=len(group),
        mape=sum(errors) / len(errors),
        coverage={level: sum(hits) / len(hits) for level, hits in hits_by_level.items()},
        judged={level: len(hits) for level, hits in hits_by_level.items()},
    )
