"""The figures of many forecasts at once: bounds, time limits, chances of deadline and budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.domain.forecasts import ForecastRequest, Interval
from app.pricing.billing import affordable_seconds
from app.pricing.offers import Offer
from app.services.spot_terms import InterruptedForecast
from models import FloatArray


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of many forecasts, each of shape (n,); NaN where nothing was asked."""

    median: list[float]
    lower: list[float]
    upper: list[float]
    time_limit: list[float]
    deadline: list[float]
    budget: list[float]

    def durations(self, requests: Sequence[ForecastRequest]) -> list[Interval]:
        """Return the durations with their bounds."""
        levels = [request.confidence for request in requests]
        return list(map(Interval, self.median, self.lower, self.upper, levels))


def figures_of(
    requests: Sequence[ForecastRequest],
    forecast: InterruptedForecast,
    offers: Sequence[Offer | None],
) -> Figures:
    """Return bounds, time limits and probabilities of all requests."""
    n = len(requests)
    lower, upper, limit = np.empty(n), np.empty(n), np.empty(n)
    for confidence, rows in _groups([request.confidence for request in requests]):
        bounds = forecast.interval(confidence)
        lower[rows], upper[rows] = bounds[0][rows], bounds[1][rows]
    for quantile, rows in _groups([request.time_limit_quantile for request in requests]):
        limit[rows] = forecast.quantile(quantile)[rows]
    return Figures(
        median=_shown(forecast.median()),
        lower=_shown(lower),
        upper=_shown(upper),
        time_limit=[math.ceil(seconds) for seconds in limit.tolist()],
        deadline=_chances(forecast, [request.deadline_s for request in requests]),
        budget=_chances(
            forecast, [_affordable(*pair) for pair in zip(requests, offers, strict=True)]
        ),
    )


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
