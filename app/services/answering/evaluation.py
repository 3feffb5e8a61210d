"""The figures of thousands of candidate configurations, computed together."""

from array import array
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from app.decisions.recommendation import Candidates
from app.domain.alike import AlikeScenarios
from app.domain.columns import Repeated
from app.domain.configurations import Configuration, Scenario
from app.domain.forecasts import SpotTerms
from app.domain.recommendations import ANYWHERE, Objective, RecommendationRequest
from app.pricing.billing import costs_of
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.answering.durations import features_of, is_spot, is_spot_asked, machines_of
from app.services.answering.energy import energy_rate, place_of
from app.services.answering.interruptions import with_interruptions
from app.services.answering.questions import ScenarioResolver
from app.services.served_regressors import ServedRegressor
from models import FeatureTable, FloatArray, MemoryLaw

if TYPE_CHECKING:
    from app.services.tables.implied_gpus import Hardware

_Place = tuple[str | None, str | None]
_NOWHERE: Final = (None, None)


@dataclass(frozen=True, slots=True)
class Infeasible:
    """A candidate that would be interrupted so often that it never ends.

    `checkpoint_interval_s` would let it end, None where no interval would.
    """

    configuration: Configuration
    checkpoint_interval_s: float | None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The candidates that can end, with their figures, and those that cannot.

    `foreign_currencies` holds the currency of a price that is not the requested one and that no
    known exchange rate converts, None elsewhere.
    """

    configurations: list[Configuration]
    candidates: Candidates
    infeasible: list[Infeasible]
    foreign_currencies: list[str | None]

    @property
    def is_empty(self) -> bool:
        """Whether there was no candidate at all."""
        return not (self.configurations or self.infeasible)


def _empty() -> Evaluated:
    empty = np.empty(0)
    candidates = Candidates(empty, empty, empty, empty, empty, empty, empty.astype(np.bool_), empty)
    return Evaluated([], candidates, [], [])


def evaluate(
    request: RecommendationRequest,
    configurations: Sequence[Configuration],
    served: ServedRegressor,
    book: PriceBook,
    now: datetime,
) -> Evaluated:
    """Return candidates' durations, costs, energy, emissions and memory fit, by one forecast."""
    if not configurations:
        return _empty()
    scenarios = _scenarios(request, configurations, ScenarioResolver(served, book))
    inquiry, work = served.ask(features_of(scenarios, served))
    offer_column = book.resolve_all(
        scenarios.configurations,
        request.pricing,
        currency=served.currency,
        seconds=work.median().tolist(),
        nodes_assumed=not request.search.nodes,
    )
    resolved, offered = list(scenarios.configurations), list(offer_column)
    forecast, refusals = with_interruptions(work, _on_spot(request, resolved, offered))
    feasible, offers, kept = resolved, offered, np.arange(len(resolved))
    repeated = _repeated(request, resolved, offered)
    if refusals or repeated:
        left_out = repeated | refusals.keys()
        kept = np.array([row for row in kept.tolist() if row not in left_out], dtype=np.intp)
        feasible, offers = [resolved[row] for row in kept], [offered[row] for row in kept]
    duration, bound = forecast.median()[kept], forecast.quantile(request.confidence)[kept]
    foreign, billable = _foreign_currencies(offers)
    cost, cost_bound = costs_of(billable, np.stack([duration, bound]))
    energy, carbon = _energy(request, feasible, offers, served, book, now)
    return Evaluated(
        configurations=feasible,
        candidates=Candidates(
            duration_s=duration,
            duration_bound_s=bound,
            cost=cost,
            cost_bound=cost_bound,
            energy_kwh=duration * energy,
            kg_co2e=duration * carbon,
            within_range=inquiry.standing.within_range[kept]
            if request.require_within_range
            else np.ones(kept.size, dtype=np.bool_),
            fits_probability=fits_probability(inquiry.features, served.portfolio.memory_law)[kept],
        ),
        infeasible=[
            Infeasible(resolved[row], refusal.checkpoint_interval_s)
            for row, refusal in refusals.items()
            if row not in repeated
        ],
        foreign_currencies=foreign,
    )


def _foreign_currencies(
    offers: Sequence[Offer | None],
) -> tuple[list[str | None], Sequence[Offer | None]]:
    """Return the currency of each offer that no rate converts, and the offers without these."""
    foreign = [
        None if offer is None or offer.is_as_asked else offer.price.currency for offer in offers
    ]
    if not any(foreign):
        return foreign, offers
    pairs = zip(offers, foreign, strict=True)
    return foreign, [None if name is not None else offer for offer, name in pairs]


def _repeated(
    request: RecommendationRequest,
    configurations: Sequence[Configuration],
    offers: Sequence[Offer | None],
) -> AbstractSet[int]:
    """Return the rows that name no place, but are bought in one that another row names.

    Such a row stands for prices of any place, which a search of every place finds too.
    """
    places = {*request.search.providers, *request.search.regions}
    if ANYWHERE not in places and request.objective is not Objective.CARBON:
        return frozenset()
    named = {
        _placed(configuration, (configuration.provider, configuration.region))
        for configuration in configurations
        if not _is_nowhere(configuration)
    }
    return {
        row
        for row, (configuration, offer) in enumerate(zip(configurations, offers, strict=True))
        if offer is not None
        and _is_nowhere(configuration)
        and _placed(configuration, offer.price.place) in named
    }


def _is_nowhere(configuration: Configuration) -> bool:
    return (configuration.provider, configuration.region) == _NOWHERE


def _placed(configuration: Configuration, place: _Place) -> Configuration:
    """Return the configuration in a place, whose names are the same in any case."""
    provider, region = ((name or "").casefold() for name in place)
    return replace(configuration, provider=provider, region=region)


def _on_spot(
    request: RecommendationRequest,
    configurations: Sequence[Configuration],
    offers: Sequence[Offer | None],
) -> dict[int, tuple[SpotTerms, int]]:
    """Return the terms and machines of the candidates on spot capacity, by row."""
    if not is_spot_asked(configurations, request.pricing):
        return {}
    return {
        row: (request.spot, machines_of(configuration, offer))
        for row, (configuration, offer) in enumerate(zip(configurations, offers, strict=True))
        if is_spot(request.pricing, configuration, offer)
    }


def _scenarios(
    request: RecommendationRequest,
    configurations: Sequence[Configuration],
    resolver: ScenarioResolver,
) -> AlikeScenarios:
    """Return the questions of all candidates with nodes filled in; each name is resolved once."""
    first = resolver.resolve(Scenario(configurations[0], request.work, request.parameters))
    resolved = list(map(resolver.resolve_configuration, configurations))
    # Candidates differ from each other.
    return AlikeScenarios.of(first, Repeated(resolved, array("q", range(len(resolved)))), {}, {})


def _energy(
    request: RecommendationRequest,
    configurations: Sequence[Configuration],
    offers: Sequence[Offer | None],
    served: ServedRegressor,
    book: PriceBook,
    now: datetime,
) -> tuple[FloatArray, FloatArray]:
    """Return kWh and kilograms of CO2e per second, shape (n,) each; NaN where unknown.

    They are looked up only where the objective needs them.
    """
    if request.objective not in {Objective.ENERGY, Objective.CARBON}:
        unknown = np.full(len(configurations), np.nan)
        return unknown, unknown
    as_of = request.pricing.as_of or now
    rates: dict[tuple[Hardware, _Place], tuple[float, float]] = {}
    figures = []
    for configuration, offer in zip(configurations, offers, strict=True):
        place = place_of(configuration, request.pricing, offer)
        key = ((configuration.gpu_type, configuration.instance_type), place)
        if key not in rates:
            one_worker = replace(configuration, workers=1)
            forecast = energy_rate(
                one_worker, request.energy, served.power, book.grid, place, as_of
            ).over(1.0)
            rates[key] = _nan_if_none(forecast.kilowatt_hours), _nan_if_none(forecast.kg_co2e)
        figures.append((*rates[key], configuration.workers))
    table = np.array(figures, dtype=np.float64).reshape(-1, 3)
    return table[:, 0] * table[:, 2], table[:, 1] * table[:, 2]


def _nan_if_none(figure: float | None) -> float:
    return np.nan if figure is None else figure


def fits_probability(features: FeatureTable, law: MemoryLaw | None) -> FloatArray:
    """Return the probability that memory suffices; 1 where nothing measured says otherwise."""
    if not features.n_rows or law is None or not law.is_tested:
        return np.ones(features.n_rows)
    feasibility = law.feasibility(features)
    return np.where(np.isnan(feasibility.probability), 1.0, feasibility.probability)
