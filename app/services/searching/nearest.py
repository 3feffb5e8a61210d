"""The candidate that comes nearest when none qualifies, and the changes that it would need."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final

import numpy as np

from app.decisions.recommendation import Choice, Constraints, choose, misfits
from app.domain.configurations import Configuration, Purchase, Scenario
from app.domain.forecasts import LEAST_PROBABILITY
from app.domain.recommendations import NeededChange, Objective, RecommendationRequest
from app.pricing.billing import exact_cost
from app.pricing.resolution import PriceBook
from app.services.answering.durations import features_of
from app.services.answering.evaluation import Evaluated, evaluate
from app.services.answering.interruptions import interruptions_of
from app.services.answering.questions import ScenarioResolver
from app.services.searching.room import Misplaced
from app.services.served_regressors import ServedRegressor

_SIZES: Final = 64
_SIX_DIGITS_DOWN: Final = Context(prec=6, rounding=ROUND_FLOOR)


@dataclass(frozen=True, slots=True)
class Nearest:
    """A candidate with the changes that would make it qualify.

    `request` is the original one with the changes that the candidate's forecast needs: a batch that
    fits, a checkpoint interval that lets the work end, the currency of its price.
    """

    request: RecommendationRequest
    configuration: Configuration
    changes: tuple[NeededChange, ...]


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A request with the means to answer it."""

    request: RecommendationRequest
    served: ServedRegressor
    book: PriceBook
    now: datetime

    def evaluate(self, configuration: Configuration) -> Evaluated:
        """Return the figures of one configuration."""
        return evaluate(self.request, [configuration], self.served, self.book, self.now)


def constraints_of(request: RecommendationRequest) -> Constraints:
    """Return the constraints that a request states."""
    return Constraints(
        deadline_s=request.deadline_s,
        budget=None if request.budget is None else float(request.budget),
        require_within_range=request.require_within_range,
        confidence=request.confidence,
    )


def nearest_of(evaluator: Evaluator, evaluated: Evaluated, choice: Choice) -> Nearest | None:
    """Return the nearest candidate, None where one qualifies or there is none.

    Work that does not fit into memory is tried again with the largest batch that does; work that
    cannot end on spot capacity, with a checkpoint interval that suffices or else on demand; a cost
    that no rate converts, in the currency of its price. The constraints that are then still missed
    are reported one by one.
    """
    if choice.ranked.size or evaluated.is_empty:
        return None
    changes: list[NeededChange] = []
    if choice.nearest is not None:
        configuration = evaluated.configurations[choice.nearest]
    else:
        closest = max(
            evaluated.infeasible, key=lambda candidate: candidate.checkpoint_interval_s or 0.0
        )
        configuration = closest.configuration
    evaluator = _with_batch(evaluator, configuration, changes)
    figures = evaluator.evaluate(configuration)
    if figures.infeasible:
        interval_s = figures.infeasible[0].checkpoint_interval_s
        evaluator, configuration = _with_completion(evaluator, configuration, interval_s, changes)
        figures = evaluator.evaluate(configuration)
    currency = figures.foreign_currencies[0] if evaluator.request.needs_cost else None
    if currency is not None:
        evaluator = _in_currency(evaluator, currency, changes)
        figures = evaluator.evaluate(configuration)
    changes += _missed(evaluator, figures, currency)
    return Nearest(evaluator.request, configuration, tuple(changes))


def nearest_on_other_nodes(
    evaluator: Evaluator, refused: Iterable[tuple[Configuration, Misplaced]]
) -> Nearest | None:
    """Return the nearest of the candidates that do not fit their nodes, on nodes that suffice."""
    request = evaluator.request
    configurations = list(
        dict.fromkeys(
            replace(configuration, nodes=misfit.nodes) for configuration, misfit in refused
        )
    )
    evaluated = evaluate(request, configurations, evaluator.served, evaluator.book, evaluator.now)
    choice = choose(evaluated.candidates, request.objective, constraints_of(request))
    if choice.ranked.size:
        best = evaluated.configurations[int(choice.ranked[0])]
        nearest: Nearest | None = Nearest(request, best, ())
    else:
        nearest = nearest_of(evaluator, evaluated, choice)
    if nearest is None or nearest.configuration.nodes is None:
        return nearest
    nodes = nearest.configuration.nodes
    searched = min(request.search.nodes, key=lambda count: abs(count - nodes))
    change = NeededChange("search.nodes", searched, nodes)
    return replace(nearest, changes=(change, *nearest.changes))


def _with_batch(
    evaluator: Evaluator, configuration: Configuration, changes: list[NeededChange]
) -> Evaluator:
    """Return the request with the largest batch that fits, unchanged if its own does or none."""
    request = evaluator.request
    size = request.work.batch_size
    if size is None:
        return evaluator
    per_worker = np.unique(
        np.geomspace(1.0, max(size / configuration.workers, 1.0), _SIZES).astype(int)
    )
    sizes = [*(float(count * configuration.workers) for count in per_worker.tolist()), size]
    works = [replace(request.work, batch_size=value) for value in sizes]
    resolver = ScenarioResolver(evaluator.served, evaluator.book)
    scenarios = [
        resolver.resolve(Scenario(configuration, work, request.parameters)) for work in works
    ]
    features = features_of(scenarios, evaluator.served)
    probabilities = evaluator.served.portfolio.feasibility(features).probability
    fitting = np.flatnonzero(probabilities >= request.confidence)
    # Without evidence on memory, no probability is known, and nothing is known to be too large.
    if not fitting.size or not probabilities[-1] < request.confidence:
        return evaluator
    work = works[int(fitting[-1])]
    changes.append(NeededChange("work.batch_size", size, work.batch_size))
    return replace(evaluator, request=replace(request, work=work))


def _with_completion(
    evaluator: Evaluator,
    configuration: Configuration,
    interval_s: float | None,
    changes: list[NeededChange],
) -> tuple[Evaluator, Configuration]:
    """Return a request and a configuration that end: with more checkpoints or on demand."""
    request = evaluator.request
    if interval_s is not None:
        assumed = interruptions_of(request.spot, 1).checkpoint_interval_s
        previous = None if assumed is None or math.isinf(assumed) else assumed
        changes.append(NeededChange("pricing.spot.checkpoint_interval_s", previous, interval_s))
        spot = replace(request.spot, checkpoint_interval_s=interval_s)
        return replace(evaluator, request=replace(request, spot=spot)), configuration
    is_in_pricing, searched = request.pricing.purchase is not None, request.search.purchase
    is_in_search = bool(searched) and Purchase.ON_DEMAND not in searched
    places = ("pricing", is_in_pricing), ("search", is_in_search)
    changes += [
        NeededChange(f"{place}.purchase", str(Purchase.SPOT), str(Purchase.ON_DEMAND))
        for place, is_set in places
        if is_set
    ]
    pricing = replace(
        request.pricing, purchase=Purchase.ON_DEMAND if is_in_pricing else request.pricing.purchase
    )
    on_demand = replace(configuration, purchase=Purchase.ON_DEMAND)
    return replace(evaluator, request=replace(request, pricing=pricing)), on_demand


def _in_currency(evaluator: Evaluator, currency: str, changes: list[NeededChange]) -> Evaluator:
    """Return the request in the currency of a price that no rate converts to the requested one."""
    request = evaluator.request
    wanted = request.pricing.currency or evaluator.served.currency
    changes.append(NeededChange("pricing.currency", wanted, currency))
    pricing = replace(request.pricing, currency=currency)
    return replace(evaluator, request=replace(request, pricing=pricing))


def _missed(evaluator: Evaluator, figures: Evaluated, currency: str | None) -> list[NeededChange]:
    """Return what a candidate that can end still misses; amounts are in `currency` if given."""
    request, candidates = evaluator.request, figures.candidates
    constraints = constraints_of(request)
    duration, cost = float(candidates.duration_bound_s[0]), float(candidates.cost_bound[0])
    changes = []
    if misfits(candidates, constraints).any():
        probability = _rounded_down(float(candidates.fits_probability[0]))
        needed = probability if probability > LEAST_PROBABILITY else None
        changes.append(NeededChange("confidence", request.confidence, needed))
    changes += _unknown(evaluator, figures, duration)
    if request.deadline_s is not None and duration > request.deadline_s:
        changes.append(NeededChange("deadline_s", request.deadline_s, duration))
    if constraints.budget is not None and cost > constraints.budget:
        changes.append(NeededChange("budget", constraints.budget, cost, currency))
    if request.require_within_range and not candidates.within_range[0]:
        changes.append(NeededChange("require_within_range", asked=True, needed=False))
    return changes


def _unknown(evaluator: Evaluator, figures: Evaluated, duration_s: float) -> list[NeededChange]:
    """Return what would have to be known about a candidate."""
    request, candidates = evaluator.request, figures.candidates
    changes = []
    if request.needs_cost and np.isnan(candidates.cost_bound[0]):
        changes += _price(evaluator, figures, duration_s)
    is_green = request.objective in {Objective.ENERGY, Objective.CARBON}
    if is_green and np.isnan(candidates.energy_kwh[0]):
        changes.append(NeededChange("energy.watts_per_worker", None, None))
    if request.objective is Objective.CARBON and _lacks_factor(evaluator, figures):
        changes.append(NeededChange("energy.kg_co2e_per_kwh", None, None))
    return changes


def _lacks_factor(evaluator: Evaluator, figures: Evaluated) -> bool:
    """Whether a candidate's emissions stay unknown where its power is given."""
    request = evaluator.request
    with_power = replace(request, energy=replace(request.energy, watts_per_worker=1.0))
    known = replace(evaluator, request=with_power).evaluate(figures.configurations[0])
    return bool(np.isnan(known.candidates.kg_co2e[0]))


def _price(evaluator: Evaluator, figures: Evaluated, duration_s: float) -> list[NeededChange]:
    """Return the missing price: the highest that keeps the budget.

    Where other charges exceed the budget, no price does, and the budget has to cover these charges.
    """
    budget = evaluator.request.budget
    if budget is None:
        return [NeededChange("pricing.price_per_hour", None, None)]
    free, one = (_cost_at(evaluator, figures, Decimal(price), duration_s) for price in (0, 1))
    highest = max((budget - free) / (one - free), Decimal(0))
    changes = [NeededChange("pricing.price_per_hour", None, _rounded_down(float(highest)))]
    if free > budget:
        changes.append(NeededChange("budget", float(budget), float(free)))
    return changes


def _cost_at(evaluator: Evaluator, figures: Evaluated, price: Decimal, seconds: float) -> Decimal:
    """Return the cost of a duration at an inline price, in which it is linear."""
    query = replace(evaluator.request.pricing, price_per_hour=price, serverless=None)
    offer = evaluator.book.resolve(figures.configurations[0], query)
    assert offer is not None
    return exact_cost(offer, seconds)


def _rounded_down(value: float) -> float:
    """Return a value rounded down to six digits."""
    return float(_SIX_DIGITS_DOWN.create_decimal_from_float(value))
