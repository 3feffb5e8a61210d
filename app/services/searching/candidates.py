"""The configurations that a recommendation considers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final

from app.domain.configurations import Configuration
from app.domain.recommendations import Objective, RecommendationRequest
from app.pricing.resolution import PriceBook
from app.services.answering.questions import ScenarioResolver
from app.services.searching.hardware import hardware_of
from app.services.searching.terms import Buying, Terms, narrowed, refuse_beyond
from app.services.served_regressors import ServedRegressor
from app.services.tables.implied_gpus import Hardware
from models import nodes_for

MAX_CANDIDATES: Final = 10_000
_EXTRAPOLATION_FACTOR: Final = 4
"""How many times the measured number of workers a search goes to by default."""


def candidate_configurations(
    request: RecommendationRequest,
    served: ServedRegressor,
    measured: Iterable[Hardware],
    book: PriceBook,
) -> Sequence[Configuration]:
    """Return every configuration of the search, with nodes filled in as for any other question.

    Parameters
    ----------
    request
        The search; what it leaves open is taken from the measured configurations.
    served
        The regressor, for the measured numbers of workers.
    measured
        The pairs of GPU type and instance type that runs have.
    book
        Tells what is on sale where.

    Raises
    ------
    InvalidRequestError
        If the search has too many configurations, names GPUs that its instance types do not have,
        or its pricing allows none.
    """
    request = replace(request, search=narrowed(request.search, request.pricing))
    search = request.search
    pairs = list(measured)
    hardware = hardware_of(search, pairs, served, book) or [(None, None)]
    workers = search.workers or _worker_counts(served)
    nodes, buying = search.nodes or (None,), _buying(request, pairs, book)
    n_per_terms = len(nodes) * len(workers)
    refuse_beyond(MAX_CANDIDATES, len(hardware) * buying.min_terms * n_per_terms)
    placed = buying.placed(hardware)
    refuse_beyond(MAX_CANDIDATES, len(placed) * n_per_terms)
    resolver = ScenarioResolver(served, book)
    with_density = tuple((pair, terms, resolver.density(*pair)) for pair, terms in placed)
    return _product(with_density, nodes, workers)


# The same search is repeated with other objectives, deadlines or budgets.
@lru_cache(maxsize=8)
def _product(
    placed: tuple[tuple[Hardware, Terms, float | None], ...],
    node_counts: tuple[int | None, ...],
    workers: tuple[int, ...],
) -> tuple[Configuration, ...]:
    return tuple(
        Configuration(
            *pair,
            provider=provider,
            region=region,
            purchase=purchase,
            nodes=nodes or (None if density is None else nodes_for(count, density)),
            workers=count,
        )
        for (pair, ((provider, region), purchase), density), nodes in product(placed, node_counts)
        for count in workers
    )


def _buying(
    request: RecommendationRequest, measured: Sequence[Hardware], book: PriceBook
) -> Buying:
    search, pricing = request.search, request.pricing
    places = *search.providers, *search.regions, pricing.provider, pricing.region
    is_open = not any(places)
    return Buying(
        search.providers or (None,),
        search.regions or (None,),
        search.purchase or (None,),
        pricing,
        book,
        is_everywhere=is_open and request.objective is Objective.CARBON,
        measured=() if search.instance_types else measured,
        needs_price=request.needs_cost,
    )


def _worker_counts(served: ServedRegressor) -> tuple[int, ...]:
    """Return the powers of two up to four times the largest measured number of workers."""
    _low, high = served.portfolio.report.numeric_ranges.get("workers", (1.0, 1.0))
    limit = max(int(high), 1) * _EXTRAPOLATION_FACTOR
    return tuple(1 << power for power in range(limit.bit_length()))
