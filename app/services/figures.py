"""The figures of many forecasts at once: bounds, time limits, chances of deadline and budget."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from app.domain.forecasts import ForecastRequest, Interval
from app.pricing.billing import affordable_seconds
from app.pricing.offers import Offer
from app.services.spot_terms import InterruptedForecast
from models import FloatArray, once


class Figures:
    """The numbers of many forecasts, each of shape (n,) and made when it is first asked for.

    Parameters
    ----------
    requests
        The questions.
    forecast
        The distributions of their durations.
    offers
        Returns at what they are bought.
    """

    def __init__(
        self,
        requests: Sequence[ForecastRequest],
        forecast: InterruptedForecast,
        offers: Callable[[], Sequence[Offer | None]],
    ) -> None:
        self._requests, self._forecast, self._offers = requests, forecast, offers

    @once
    def median(self) -> list[float]:
        """Median durations in seconds."""
        return _shown(self._forecast.median())

    @once
    def durations(self) -> list[Interval]:
        """The durations with their bounds."""
        levels = [request.confidence for request in self._requests]
        groups = _groups(levels)
        if len(groups) == 1:
            lower, upper = self._forecast.interval(levels[0])
        else:
            lower, upper = np.empty(len(levels)), np.empty(len(levels))
            for confidence, rows in groups:
                bounds = self._forecast.interval(confidence)
                lower[rows], upper[rows] = bounds[0][rows], bounds[1][rows]
        return list(map(Interval, self.median, _shown(lower), _shown(upper), levels))

    @once
    def time_limit(self) -> list[float]:
        """What the asked share of runs stays below, in whole seconds."""
        limit = np.empty(len(self._requests))
        for quantile, rows in _groups([request.time_limit_quantile for request in self._requests]):
            limit[rows] = self._forecast.quantile(quantile)[rows]
        return [math.ceil(seconds) for seconds in limit.tolist()]

    @once
    def deadline(self) -> list[float]:
        """The chances to keep the deadlines; NaN where there is none."""
        return _chances(self._forecast, [request.deadline_s for request in self._requests])

    @once
    def budget(self) -> list[float]:
        """The chances to keep within the budgets; NaN where none is given or no price known."""
        if all(request.budget is None for request in self._requests):
            return [math.nan] * len(self._requests)
        pairs = zip(self._requests, self._offers(), strict=True)
        return _chances(self._forecast, [_affordable(*pair) for pair in pairs])


def _groups(values: Sequence[float]) -> list[tuple[float, slice | list[int]]]:
    distinct = set(values)
    if len(distinct) == 1:
        return [(distinct.pop(), slice(None))]
    return [
        (value, [row for row, each in enumerate(values) if each == value]) for value in distinct
    ]


def _shown(seconds: FloatArray) -> list[float]:
    """Return seconds to seven significant digits: costs are made of what is shown."""
    return [float(f"{value:.7g}") for value in seconds.tolist()]


def _affordable(request: ForecastRequest, offer: Offer | None) -> float | None:
    if request.budget is None or offer is None or not offer.is_as_asked:
        return None
    seconds = affordable_seconds(offer, request.budget)
    return math.inf if seconds is None else seconds


def _chances(forecast: InterruptedForecast, seconds: Sequence[float | None]) -> list[float]:
    if not any(value is not None for value in seconds):
        return [math.nan] * len(seconds)
    asked = np.array([math.nan if value is None else value for value in seconds])
    finite = np.where(np.isfinite(asked) & (asked > 0.0), asked, 1.0)
    chances = np.where(np.isinf(asked), 1.0, forecast.probability_below(finite))
    chances = np.where(asked <= 0.0, 0.0, chances)
    return [float(f"{value:.6g}") for value in np.where(np.isnan(asked), np.nan, chances)]


def known(probability: float) -> float | None:
    """Return a probability, None where nothing was asked."""
    return None if math.isnan(probability) else probability
