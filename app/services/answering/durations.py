"""The durations of questions: the regressor's features, the offers, spot interruptions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from app.domain.alike import AlikeRequests, AlikeScenarios, column_of, configurations_of
from app.domain.columns import Repeated, zip_columns
from app.domain.configurations import Configuration, Purchase, Scenario, leaves_nodes_open
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.domain.prices import PriceQuery
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.answering.interruptions import InterruptedForecast, with_interruptions
from app.services.answering.questions import to_cluster, to_features
from app.services.served_regressors import ServedRegressor
from app.services.tables.frames import alike_features, scenario_features
from app.services.tables.machine_sizes import INSTANCE_VCPUS, with_sizes
from models import FeatureTable, FloatArray, ForecastDistribution

_Groups = defaultdict[tuple[PriceQuery, bool], list[int]]


def features_of(scenarios: Sequence[Scenario], served: ServedRegressor) -> FeatureTable:
    """Return the features of the questions that the regressor sees."""
    report = served.portfolio.report
    if isinstance(scenarios, AlikeScenarios) and len(scenarios) > 1:
        clusters = scenarios.configurations.made(
            lambda configuration: to_cluster(configuration, report)
        )
        features = alike_features(scenarios.with_configurations(clusters))
    else:
        features = scenario_features([to_features(scenario, report) for scenario in scenarios])
    return with_sizes(features) if INSTANCE_VCPUS in report.numeric_ranges else features


def predict(scenarios: Sequence[Scenario], served: ServedRegressor) -> ForecastDistribution:
    """Return the distributions of the durations, without interruptions."""
    return served.predict(features_of(scenarios, served))


def offers_for(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    book: PriceBook,
    seconds: FloatArray,
    currency: str | None = None,
) -> Repeated[Offer | None]:
    """Return the offers for durations without interruptions, in the requested currency.

    Of several offers, the one with the smallest bill is taken. Where a request leaves its nodes
    open, the number that was filled in does not exclude machines on which the workers do not fit
    that way.
    """
    durations, configurations = seconds.tolist(), configurations_of(scenarios)
    queries = zip_columns(Repeated.of(column_of(requests, "pricing")), _open_nodes(requests))
    if len(queries.distinct) == 1:
        query, is_open = queries.distinct[0]
        return book.resolve_all(
            configurations, query, currency=currency, seconds=durations, nodes_assumed=is_open
        )
    groups = _Groups(list)
    for row, key in enumerate(queries):
        groups[key].append(row)
    offers: list[Offer | None] = [None] * len(requests)
    for (query, is_open), rows in groups.items():
        resolved = book.resolve_all(
            [configurations[row] for row in rows],
            query,
            currency=currency,
            seconds=[durations[row] for row in rows],
            nodes_assumed=is_open,
        )
        for row, offer in zip(rows, resolved, strict=True):
            offers[row] = offer
    return Repeated.of(offers)


def _open_nodes(requests: Sequence[ForecastRequest]) -> Repeated[bool]:
    """Return which requests leave their nodes open."""
    if isinstance(requests, AlikeRequests):
        is_open = requests.scenarios.configurations.made(leaves_nodes_open)
    else:
        is_open = Repeated.of(
            [leaves_nodes_open(request.scenario.configuration) for request in requests]
        )
    # Different configurations often agree on this: fewer distinct objects are compared faster.
    distinct = set(is_open.distinct)
    return (
        Repeated.alone(distinct.pop(), len(is_open))
        if len(distinct) == 1
        else Repeated.of(list(is_open))
    )


def interrupted(
    forecast: ForecastDistribution,
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    offers: Sequence[Offer | None],
) -> tuple[InterruptedForecast, dict[int, DomainError]]:
    """Return the distributions of the durations, including spot interruptions, and refusals."""
    spot = {
        row: (request.spot, machines_of(scenario.configuration, offer))
        for row, (request, scenario, offer) in enumerate(
            zip(requests, scenarios, offers, strict=True)
        )
        if is_spot(request.pricing, request.scenario.configuration, offer)
    }
    interrupted_forecast, refusals = with_interruptions(forecast, spot)
    return interrupted_forecast, dict(refusals)


def machines_of(configuration: Configuration, offer: Offer | None) -> int:
    """Return how many machines can be taken away.

    A price per worker or GPU, or no price, leaves that open: then the nodes are counted, if known.
    """
    if offer is None:
        return configuration.nodes or configuration.workers
    is_of_machines = offer.price.instance_type is not None or offer.price.serverless is not None
    nodes = None if is_of_machines else configuration.nodes
    return nodes or offer.total_instances


def is_spot(pricing: PriceQuery, configuration: Configuration, offer: Offer | None) -> bool:
    """Whether the requested or offered capacity is one that may be taken away."""
    if offer is not None:
        return offer.price.purchase is Purchase.SPOT
    return pricing.purchase_of(configuration) is Purchase.SPOT


def is_any_spot(requests: Sequence[ForecastRequest], scenarios: Sequence[Scenario]) -> bool:
    """Whether an offer for any of the requests may be of spot capacity; see `may_be_spot`."""
    if not isinstance(scenarios, AlikeScenarios):
        return any(map(may_be_spot, requests))
    # Offers follow what was asked for: the regressor's terms rename only the GPUs.
    queries = Repeated.of(column_of(requests, "pricing")).distinct
    return is_spot_asked(scenarios.configurations.distinct, *queries)


def may_be_spot(request: ForecastRequest) -> bool:
    """Whether an offer for a request may be for spot capacity; see `is_spot_asked`."""
    purchase = request.scenario.configuration.purchase
    return purchase is Purchase.SPOT or request.pricing.purchase is Purchase.SPOT


def is_spot_asked(configurations: Iterable[Configuration], *queries: PriceQuery) -> bool:
    """Whether any of these asks for spot capacity; offers are for it only where one does."""
    purchases = {configuration.purchase for configuration in configurations}
    return Purchase.SPOT in purchases.union(query.purchase for query in queries)
