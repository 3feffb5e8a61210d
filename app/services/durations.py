"""The durations of questions: what the regressor sees, at what it is bought, interruptions."""

from collections import defaultdict
from collections.abc import Sequence

from app.domain.alike import AlikeScenarios, column_of, configurations_of
from app.domain.columns import Repeated
from app.domain.configurations import Purchase, Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.domain.prices import PriceQuery
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.frames import alike_features, scenario_features
from app.services.questions import to_cluster, to_features
from app.services.serving import ServedRegressor
from app.services.spot_terms import InterruptedForecast, with_interruptions
from models import FeatureTable, FloatArray, ForecastDistribution

_Groups = defaultdict[PriceQuery, list[int]]


def features_of(scenarios: Sequence[Scenario], served: ServedRegressor) -> FeatureTable:
    """Return what the regressor sees of questions."""
    report = served.portfolio.report
    if isinstance(scenarios, AlikeScenarios) and len(scenarios) > 1:
        clusters = scenarios.configurations.made(lambda each: to_cluster(each, report))
        return alike_features(scenarios.bought_as(clusters))
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
) -> Repeated[Offer | None]:
    """Return the offers of durations without interruptions, in the currency that is wanted.

    Of several, the one counts whose bill is smallest.
    """
    durations, known = seconds.tolist(), configurations_of(scenarios)
    asked = Repeated.of(column_of(requests, "pricing"))
    if len(asked.distinct) == 1:
        return book.resolve_all(known, asked.distinct[0], currency=currency, seconds=durations)
    groups = _Groups(list)
    for row, query in enumerate(asked):
        groups[query].append(row)
    offers: list[Offer | None] = [None] * len(requests)
    for query, rows in groups.items():
        configurations = [known[row] for row in rows]
        found = book.resolve_all(
            configurations, query, currency=currency, seconds=[durations[row] for row in rows]
        )
        for row, offer in zip(rows, found, strict=True):
            offers[row] = offer
    return Repeated.of(offers)


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


def is_any_spot(requests: Sequence[ForecastRequest], scenarios: Sequence[Scenario]) -> bool:
    """Whether an offer for any of the requests may be of spot capacity; see `may_be_spot`."""
    if not isinstance(scenarios, AlikeScenarios):
        return any(map(may_be_spot, requests, scenarios))
    # They are bought as they are asked for: only GPUs are named in other words.
    asked = (scenarios.configurations, Repeated.of(column_of(requests, "pricing")))
    return any(each.purchase is Purchase.SPOT for column in asked for each in column.distinct)


def may_be_spot(request: ForecastRequest, scenario: Scenario) -> bool:
    """Whether an offer for a request may be of spot capacity: none is unless it is asked for."""
    if scenario is not request.scenario and scenario.configuration.purchase is Purchase.SPOT:
        return True
    asked = request.scenario.configuration.purchase
    return asked is Purchase.SPOT or request.pricing.purchase is Purchase.SPOT
