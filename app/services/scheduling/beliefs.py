"""What published regressors forecast for many jobs, with one evaluation per workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from app.decisions.durations import DurationBeliefs
from app.domain.alike import rows_by_regressor
from app.domain.configurations import Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import ProjectId, Slug
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.answering.durations import features_of, interrupted, is_spot, offers_for
from app.services.answering.questions import ScenarioResolver, may_need_prices
from app.services.prices import PriceService
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from models import NORMAL_KNOTS, ConvergenceLaw, FloatArray, IntArray, MemoryLaw, Standing


class Answered(NamedTuple):
    """What remains of a regressor that answered: small, since thousands may have.

    Parameters
    ----------
    workload
        Whose regressor it is.
    places
        The places in `known` of what it answered.
    standing
        Where these leave what was measured.
    noise_shares
        The share of the noise of a run in the variance of each.
    category_levels, memory_law, convergence
        Those of its portfolio.
    """

    workload: Slug
    places: IntArray
    standing: Standing
    noise_shares: FloatArray
    category_levels: Mapping[str, tuple[str, ...]]
    memory_law: MemoryLaw | None
    convergence: ConvergenceLaw | None


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The distributions of the requests that can be forecast, and why the others cannot.

    Parameters
    ----------
    durations
        One row for each of `known`, in that order.
    known
        Positions in the requests, ascending.
    scenarios
        The questions of `known` in the terms of their regressors.
    offers
        The offers they would be bought at; None where none was asked for, or no price is known.
    problems
        The refusals of the others, by position.
    answers
        What each regressor answered, where it answered anything.
    """

    durations: DurationBeliefs
    known: list[int]
    scenarios: list[Scenario]
    offers: list[Offer | None]
    problems: dict[int, DomainError]
    answers: Sequence[Answered] = ()


@dataclass(slots=True)
class _WorkloadForecasts:
    """Rows of the forecasts of one workload; the arrays are the arguments of `from_widths`.

    The places of `answered` are those among `rows`.
    """

    answered: Answered
    rows: list[int]
    scenarios: list[Scenario]
    offers: list[Offer | None]
    arrays: tuple[FloatArray, FloatArray, FloatArray]


class BeliefReader:
    """Queries the published regressors; reports separately what cannot be forecast."""

    def __init__(self, regressors: RegressorCache, prices: PriceService) -> None:
        self._regressors = regressors
        self._prices = prices

    def read(
        self, project_id: ProjectId, requests: Sequence[ForecastRequest], *, priced: bool = False
    ) -> Beliefs:
        """Return the forecast durations of many requests.

        Parameters
        ----------
        project_id
            Whose workloads they are.
        requests
            The questions, of any workloads.
        priced
            Whether the offers are wanted.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer and something is not in memory.
        """
        needs_book = priced or any(map(_needs_prices, requests))
        book = self._prices.book(project_id) if needs_book else None
        problems: dict[int, DomainError] = {}
        groups = rows_by_regressor(requests)
        regressors = self._regressors.prepare(project_id, groups)
        gathered = []
        for key in regressors.in_memory_first(groups):
            rows = groups[key]
            try:
                served = regressors.get(*key)
                gathered.append(
                    _forecast_workload(rows, requests, served, book, problems, priced=priced)
                )
            except DomainError as error:
                problems.update(dict.fromkeys(rows, error.with_traceback(None)))
        return _merge(gathered, problems)


def _needs_prices(request: ForecastRequest) -> bool:
    return _is_on_spot(request) or may_need_prices(request.scenario.configuration)


def _is_on_spot(request: ForecastRequest) -> bool:
    return is_spot(request.pricing, request.scenario.configuration, None)


def _forecast_workload(
    rows: Sequence[int],
    requests: Sequence[ForecastRequest],
    served: ServedRegressor,
    book: PriceBook | None,
    problems: dict[int, DomainError],
    *,
    priced: bool,
) -> _WorkloadForecasts:
    answerable, scenarios = [], []
    resolver = ScenarioResolver(served, book)
    resolved: dict[tuple[object, ...], Scenario] = {}
    for row in rows:
        try:
            scenarios.append(_resolve(requests[row].scenario, resolver, resolved))
            answerable.append(row)
        except DomainError as error:
            problems[row] = error
    answerable_requests = [requests[row] for row in answerable]
    inquiry, work = served.ask(features_of(scenarios, served))
    offers: Sequence[Offer | None] = [None] * len(answerable)
    if book is not None and (priced or any(map(_is_on_spot, answerable_requests))):
        offers = offers_for(answerable_requests, scenarios, book, work.median(), served.currency)
    forecast, refusals = interrupted(work, answerable_requests, scenarios, offers)
    center, below, above = forecast.widths()
    problems.update({answerable[row]: refusal for row, refusal in refusals.items()})
    feasible = [row for row in range(len(answerable)) if row not in refusals]
    portfolio = served.portfolio
    standing = inquiry.standing
    if refusals:
        standing = standing.about(np.array(feasible, dtype=np.intp))
    return _WorkloadForecasts(
        Answered(
            served.workload,
            np.arange(len(feasible)),
            standing,
            inquiry.noise_shares[feasible],
            portfolio.report.category_levels,
            portfolio.memory_law,
            portfolio.convergence,
        ),
        [answerable[row] for row in feasible],
        [scenarios[row] for row in feasible],
        [offers[row] for row in feasible],
        (center[feasible], below[feasible], above[feasible]),
    )


def _resolve(
    scenario: Scenario, resolver: ScenarioResolver, resolved: dict[tuple[object, ...], Scenario]
) -> Scenario:
    """Return a scenario in the regressor's terms; each name and job's parameters are read once."""
    configuration = scenario.configuration
    key = (configuration.gpu_type, configuration.instance_type, id(scenario.parameters))
    first = resolved.get(key)
    if first is None:
        first = resolved[key] = resolver.resolve(scenario)
    return Scenario(resolver.resolve_configuration(configuration), scenario.work, first.parameters)


def _merge(gathered: Sequence[_WorkloadForecasts], problems: dict[int, DomainError]) -> Beliefs:
    rows = [row for part in gathered for row in part.rows]
    order = np.argsort(np.array(rows, dtype=np.intp), kind="stable")
    ends = list(accumulate(len(part.rows) for part in gathered))
    places, positions = np.argsort(order), order.tolist()
    scenarios = [scenario for part in gathered for scenario in part.scenarios]
    offers = [offer for part in gathered for offer in part.offers]
    no_widths = np.empty((0, len(NORMAL_KNOTS) - 1))
    empty = (np.empty(0), no_widths, no_widths)
    center, below, above = (
        np.concatenate([empty[index], *(part.arrays[index] for part in gathered)])[order]
        for index in range(3)
    )
    return Beliefs(
        durations=DurationBeliefs.from_widths(center, below, above, NORMAL_KNOTS),
        known=[rows[position] for position in positions],
        scenarios=[scenarios[position] for position in positions],
        offers=[offers[position] for position in positions],
        problems=problems,
        answers=[
            part.answered._replace(places=places[end - len(part.rows) : end])
            for part, end in zip(gathered, ends, strict=True)
            if part.rows
        ],
    )
