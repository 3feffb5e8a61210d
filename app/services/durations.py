"""The durations of questions: what the regressor sees, at what it is bought, interruptions."""

from collections import defaultdict
from collections.abc import Sequence

from app.domain.configurations import Purchase, Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.domain.prices import PriceQuery
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.frames import scenario_features
from app.services.questions import to_features
from app.services.serving import ServedRegressor
from app.services.spot_terms import InterruptedForecast, with_interruptions
from models import FeatureTable, FloatArray, ForecastDistribution

_Groups = defaultdict[PriceQuery, list[int]]


def features_of(scenarios: Sequence[Scenario], served: ServedRegressor) -> FeatureTable:
    """Return what the regressor sees of questions."""
    report = served.portfolio.report
    return scenario_features([to_features(scenario, report) for scenario in scenarios])


def predict(scenarios: Sequence[Scenario], served: ServedRegressor) -> ForecastDistribution:
    """Return the distributions of the durations without interruptions."""
    return served.predict(features_of(scenarios, served))


def offers_for(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    book: PriceBook,
    seconds: FloatArray,
    currency: str | None = None,
) -> list[Offer | None]:
    """Return the offers of durations without interruptions, in the currency that is wanted.

    Of several, the one counts whose bill is smallest.
    """
    groups = _Groups(list)
    for row, request in enumerate(requests):
        groups[request.pricing].append(row)
    durations = seconds.tolist()
    offers: list[Offer | None] = [None] * len(requests)
    for query, rows in groups.items():
        configurations = [scenarios[row].configuration for row in rows]
        found = book.resolve_all(
            configurations, query, currency=currency, seconds=[durations[row] for row in rows]
        )
        for row, offer in zip(rows, found, strict=True):
            offers[row] = offer
    return offers


def interrupted(
    forecast: ForecastDistribution,
    requests: Sequence[ForecastRequest],
    offers: Sequence[Offer | None],
) -> tuple[InterruptedForecast, dict[int, DomainError]]:
    """Return the distributions of the durations, spot interruptions included, and refusals."""
    spot = {
        row: (request.spot, 1 if offer is None else offer.total_instances)
        for row, (request, offer) in enumerate(zip(requests, offers, strict=True))
        if is_spot(request, offer)
    }
    later, refusals = with_interruptions(forecast, spot)
    return later, dict(refusals)


def is_spot(request: ForecastRequest, offer: Offer | None) -> bool:
    """Whether a request is for capacity that may be taken away."""
    if offer is not None:
        return offer.price.purchase is Purchase.SPOT
    return Purchase.SPOT in {request.pricing.purchase, request.scenario.configuration.purchase}


def may_be_spot(request: ForecastRequest, scenario: Scenario) -> bool:
    """Whether an offer for a request may be of spot capacity: none is unless it is asked for."""
    if scenario is not request.scenario and scenario.configuration.purchase is Purchase.SPOT:
        return True
    asked = request.scenario.configuration.purchase
    return asked is Purchase.SPOT or request.pricing.purchase is Purchase.SPOT
