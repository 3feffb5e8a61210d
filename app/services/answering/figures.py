"""The figures of many forecasts: bounds, time limits, deadline and budget probabilities."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from app.domain.alike import column_of
from app.domain.forecasts import ForecastRequest, Interval
from app.pricing.billing import affordable_seconds
from app.pricing.offers import Offer
from app.services.answering.interruptions import InterruptedForecast
from app.services.answering.rounding import significant
from models import FloatArray, once


class Figures:
    """The numbers of many forecasts, each of shape (n,) and computed when first needed.

    Parameters
    ----------
    requests
        The questions.
    forecast
        The distributions of their durations.
    """

    def __init__(self, requests: Sequence[ForecastRequest], forecast: InterruptedForecast) -> None:
        self._requests, self._forecast = requests, forecast

    @once
    def median(self) -> list[float]:
        """Median durations in seconds."""
        return _rounded(self._forecast.median())

    @once
    def levels(self) -> list[float]:
        """The requested confidences."""
        return list(column_of(self._requests, "confidence"))

    @once
    def bounds(self) -> tuple[list[float], list[float]]:
        """Lower and upper bounds of the durations in seconds."""
        bounds_s = _rounded(np.concatenate(_by_level(self.levels, self._forecast.interval)))
        return bounds_s[: len(self._requests)], bounds_s[len(self._requests) :]

    @once
    def durations(self) -> list[Interval]:
        """The durations with their bounds."""
        return list(map(Interval, self.median, *self.bounds, self.levels))

    @once
    def time_limit(self) -> list[float]:
        """The durations that the requested share of runs stays below, in whole seconds."""
        levels = column_of(self._requests, "time_limit_quantile")
        (found,) = _by_level(levels, lambda level: (self._forecast.quantile(level),))
        limits: list[float] = np.ceil(found).tolist()
        return limits

    @once
    def deadline(self) -> list[float]:
        """The probabilities of keeping the deadlines; NaN where there is none."""
        return _probabilities(self._forecast, column_of(self._requests, "deadline_s"))

    def within_budget(self, offers: Sequence[Offer | None]) -> list[float]:
        """Return the probabilities of keeping the budgets; NaN without a budget or a price."""
        pairs = zip(self._requests, offers, strict=True)
        return _probabilities(self._forecast, [_affordable(*pair) for pair in pairs])


def _by_level(
    levels: Sequence[float], figures: Callable[[float], tuple[FloatArray, ...]]
) -> tuple[FloatArray, ...]:
    """Return each row's figures at its own level; `figures` gives those of all rows at one."""
    distinct = set(levels)
    if len(distinct) == 1:
        return figures(levels[0])
    by_level = {level: figures(level) for level in distinct}
    indices = range(len(by_level[levels[0]]))
    return tuple(
        np.array([by_level[level][index][row] for row, level in enumerate(levels)])
        for index in indices
    )


def _rounded(seconds: FloatArray) -> list[float]:
    """Return seconds to seven significant digits: costs are computed from what is shown."""
    return significant(seconds, 7)


def _affordable(request: ForecastRequest, offer: Offer | None) -> float | None:
    if request.budget is None or offer is None or not offer.is_as_asked:
        return None
    seconds = affordable_seconds(offer, request.budget)
    return math.inf if seconds is None else seconds


def _probabilities(forecast: InterruptedForecast, seconds: Sequence[float | None]) -> list[float]:
    if set(seconds) == {None}:
        return [math.nan] * len(seconds)
    limits = np.array([math.nan if value is None else value for value in seconds])
    finite = np.where(np.isfinite(limits) & (limits > 0.0), limits, 1.0)
    probabilities = np.where(np.isinf(limits), 1.0, forecast.probability_below(finite))
    probabilities = np.where(limits <= 0.0, 0.0, probabilities)
    return [float(f"{value:.6g}") for value in np.where(np.isnan(limits), np.nan, probabilities)]


def none_if_nan(probability: float) -> float | None:
    """Return a probability, None where none was asked for."""
    return None if math.isnan(probability) else probability
