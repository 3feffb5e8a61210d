"""Answers to many questions to one regressor, as columns that are computed only when needed."""

from collections.abc import Sequence
from datetime import datetime
from math import isnan, nan
from typing import Any

import numpy as np

from app.domain.alike import column_of, configurations_of, digests_of
from app.domain.columns import Repeated, map_distinct, zip_columns
from app.domain.configurations import Configuration, Purchase, Scenario
from app.domain.energy import EnergyForecast, EnergyTerms
from app.domain.errors import DomainError
from app.domain.forecasts import (
    NO_SPOT_TERMS,
    AxisOutside,
    CostForecast,
    ForecastRequest,
    ForecastWarning,
    Lesson,
    PurchaseOption,
    RareLevels,
    SpotReport,
    SpotTerms,
    SupportReport,
    TargetForecast,
)
from app.domain.identifiers import RunId, Slug
from app.domain.prices import PriceQuery
from app.pricing.bill_columns import BillColumns, bills
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.answering.costs import cost_of
from app.services.answering.durations import (
    features_of,
    interrupted,
    is_any_spot,
    is_spot,
    machines_of,
    may_be_spot,
    offers_for,
)
from app.services.answering.energy import EnergyRate, energy_rate, place_of
from app.services.answering.figures import Figures, none_if_nan
from app.services.answering.interruptions import report_of
from app.services.answering.purchases import counterpart_of
from app.services.answering.rounding import significant
from app.services.answering.targets import targets_of
from app.services.answering.warnings import Warnings
from app.services.served_regressors import ServedRegressor
from app.services.tables.machine_sizes import statable_columns
from models import FloatArray, IntArray, Support, SupportColumns, once


class AnswerColumns:
    """One column per part of the answers, computed when it is first needed.

    Parameters
    ----------
    requests, scenarios
        The questions, and their scenarios in the regressor's terms.
    served, book, now
        The regressor, the prices and the current time.

    Raises
    ------
    RegressorUnavailableError
        If the regressor is damaged.
    """

    def __init__(
        self,
        requests: Sequence[ForecastRequest],
        scenarios: Sequence[Scenario],
        served: ServedRegressor,
        book: PriceBook,
        now: datetime,
    ) -> None:
        self.requests, self.scenarios = requests, scenarios
        self.served, self.book, self.now = served, book, now
        self._inquiry, self._work = served.ask(features_of(scenarios, served))
        self._figures_and_refusals = self._forecast_figures()

    def _forecast_figures(self) -> tuple[Figures, dict[int, DomainError]]:
        """Return the figures; offers are looked up where some may be for spot capacity."""
        if self._is_any_spot:
            forecast, refusals = interrupted(self._work, self.requests, self.scenarios, self.offers)
        else:
            forecast, refusals = interrupted(self._work, (), (), ())
        return Figures(self.requests, forecast), refusals

    @once
    def _is_any_spot(self) -> bool:
        return is_any_spot(self.requests, self.scenarios)

    @property
    def figures(self) -> Figures:
        """Durations with their bounds, time limits and probabilities."""
        return self._figures_and_refusals[0]

    @property
    def refusals(self) -> dict[int, DomainError]:
        """The refusals of rows that cannot be answered, by row."""
        return self._figures_and_refusals[1]

    @once
    def workloads(self) -> Sequence[Slug]:
        """The workload that each row asks about."""
        return column_of(self.requests, "workload")

    @once
    def digests(self) -> list[str]:
        """The digests of the scenarios."""
        return digests_of(self.scenarios)

    @once
    def offers(self) -> Repeated[Offer | None]:
        """The offer at which each row is bought."""
        return offers_for(
            self.requests, self.scenarios, self.book, self._work.median(), self.served.currency
        )

    @once
    def within_budget(self) -> list[float]:
        """The probabilities of keeping the budgets; NaN without a budget or a known price."""
        if set(column_of(self.requests, "budget")) == {None}:
            return [nan] * len(self.requests)
        return self.figures.within_budget(self.offers)

    @once
    def bills(self) -> BillColumns:
        """The cost of each row, in whole numbers where these suffice."""
        return bills(self.offers, self.figures.median, *self.figures.bounds)

    def cost_of(self, row: int) -> CostForecast | None:
        """Return the cost of a row."""
        offer = self.offers[row]
        if offer is None or row in self.refusals:
            return None
        return cost_of(offer, self.figures.durations[row])

    @once
    def targets(self) -> Sequence[TargetForecast | None]:
        """The time and cost of each row's training until it reaches its target."""
        law = self.served.portfolio.convergence
        if law is None:
            return Repeated.alone(None, len(self.requests))
        return targets_of(self.requests, self.scenarios, self.offers, self.figures.durations, law)

    @once
    def spot(self) -> Sequence[SpotReport | None]:
        """The assumptions on interruptions and their expected effect, for each row."""
        if not self._is_any_spot:
            return Repeated.alone(None, len(self.requests))
        reports: list[SpotReport | None] = [None] * len(self.requests)
        for row, (request, scenario) in enumerate(zip(self.requests, self.scenarios, strict=True)):
            if not may_be_spot(request):
                continue
            offer = self.offers[row]
            if is_spot(request.pricing, request.scenario.configuration, offer):
                instances = machines_of(scenario.configuration, offer)
                work_s = float(self._work.median()[row])
                reports[row] = report_of(work_s, request.spot, instances)
        return reports

    @once
    def purchases(self) -> Sequence[tuple[PurchaseOption, ...]]:
        """The two ways to buy each row about spot capacity: on demand and spot."""
        spot_terms, spot = column_of(self.requests, "spot"), self.spot
        if not self._is_any_spot and not any(map(_is_about_spot, Repeated.of(spot_terms).distinct)):
            return Repeated.alone((), len(self.requests))
        options: list[tuple[PurchaseOption, ...]] = [()] * len(self.requests)
        rows = [
            row
            for row, terms in enumerate(spot_terms)
            if row not in self.refusals and (spot[row] is not None or _is_about_spot(terms))
        ]
        on_spot = [self.spot[row] is not None for row in rows]
        pairs = [
            counterpart_of(self.requests[row], self.scenarios[row], is_on_spot=is_on_spot)
            for row, is_on_spot in zip(rows, on_spot, strict=True)
        ]
        requests, scenarios = (
            [pair[0] for pair in pairs],
            [pair[1] for pair in pairs],
        )
        others = AnswerColumns(requests, scenarios, self.served, self.book, self.now)
        for position, (row, is_on_spot) in enumerate(zip(rows, on_spot, strict=True)):
            own_option, other_option = self._option(row), others._option(position)
            options[row] = (other_option, own_option) if is_on_spot else (own_option, other_option)
        return options

    def _option(self, row: int) -> PurchaseOption:
        request = self.requests[row]
        asked = request.pricing.purchase_of(request.scenario.configuration) or Purchase.ON_DEMAND
        refusal = self.refusals.get(row)
        if refusal is not None:
            return PurchaseOption(asked, None, None, str(refusal))
        cost = self.cost_of(row)
        purchase = asked if cost is None else cost.price.purchase
        return PurchaseOption(purchase, self.figures.durations[row], cost)

    @once
    def _energy_inputs(self) -> Repeated[tuple[Any, ...]]:
        """Configuration, energy terms, price query and offer of each row; few are distinct."""
        return zip_columns(
            configurations_of(self.scenarios),
            column_of(self.requests, "energy"),
            column_of(self.requests, "pricing"),
            self.offers,
        )

    @once
    def energy_rates(self) -> Repeated[EnergyRate]:
        """The power and emission rate of each row; equal rows share one."""
        return self._energy_inputs.made(lambda inputs: self._energy_rate(*inputs))

    def _energy_rate(
        self,
        configuration: Configuration,
        terms: EnergyTerms,
        pricing: PriceQuery,
        offer: Offer | None,
    ) -> EnergyRate:
        place = place_of(configuration, pricing, offer)
        as_of = pricing.as_of or self.now
        return energy_rate(configuration, terms, self.served.power, self.book.grid, place, as_of)

    @once
    def energies(self) -> list[EnergyForecast]:
        """The energy and emissions of each row."""
        pairs = zip(self.energy_rates, self.figures.median, strict=True)
        return [rate.over(seconds) for rate, seconds in pairs]

    @property
    def support(self) -> list[Support]:
        """How well the runs support each row, in the library's terms."""
        return self._inquiry.support

    @property
    def supports(self) -> SupportColumns:
        """The same as `support`, as columns."""
        return self._inquiry.supports

    @once
    def reports(self) -> list[SupportReport]:
        """How well the runs support each row; rows with equal support share one report."""
        return map_distinct(self.support, self.report_of)

    def report_of(self, support: Support) -> SupportReport:
        """Return how well the runs support a row, in the domain's terms."""
        report = self.served.portfolio.report
        pooling = report.pooling
        return SupportReport(
            within_range=support.within_range,
            axes=_axes(support) if support.axes else (),
            unseen_levels=support.unseen_levels,
            rare_levels=support.rare_levels,
            unidentified=statable_columns(support.unidentified),
            runs_used=report.n_runs,
            nearest_runs=tuple(map(RunId, support.nearest_run_ids)),
            pooled_from=() if pooling is None else tuple(map(Slug, pooling.contributors)),
            factory_prior=pooling is not None and pooling.factory > 0,
        )

    def report_within(self, nearest: tuple[str, ...], rare: RareLevels) -> SupportReport:
        """Return the report of a row inside the measured range, with these runs and levels."""
        places = np.zeros(1, dtype=np.int64)
        return self.report_of(SupportColumns([nearest], places, ["interpolated"], [rare], {}).of(0))

    @once
    def explanations(self) -> list[dict[str, float]]:
        """The share of each phase or term in the duration of each row."""
        return [
            {name: float(f"{share:.4g}") for name, share in explanation.items()}
            for explanation in self._inquiry.explanation
        ]

    @property
    def ranked_shares(self) -> tuple[Sequence[str], IntArray, FloatArray]:
        """The explanations as columns: names, their order in each row, and their shares."""
        return self._inquiry.ranked

    @once
    def chances_to_fit(self) -> tuple[list[float | None], Sequence[str]]:
        """The probability that each row fits into memory, and what that is based on."""
        feasibility = self.served.portfolio.feasibility(self._inquiry.features)
        probabilities = significant(feasibility.probability, 4)
        # In nearly all cases every probability is known.
        return (
            list(map(none_if_nan, probabilities)) if isnan(sum(probabilities)) else [*probabilities]
        ), feasibility.basis

    @once
    def lessons(self) -> Sequence[tuple[Lesson, ...] | None]:
        """The runs that influenced each row for which this was asked."""
        rows = [row for row, is_asked in enumerate(column_of(self.requests, "explain")) if is_asked]
        if not rows:
            return Repeated.alone(None, len(self.requests))
        lessons: list[tuple[Lesson, ...] | None] = [None] * len(self.requests)
        features = self._inquiry.features.take(np.array(rows))
        for row, row_lessons in zip(rows, self.served.portfolio.taught_by(features), strict=True):
            lessons[row] = tuple(
                Lesson(
                    tuple(map(RunId, lesson.run_ids)),
                    float(f"{lesson.influence:.4g}"),
                    lesson.about,
                )
                for lesson in row_lessons
            )
        return lessons

    @once
    def warnings(self) -> Repeated[tuple[ForecastWarning, ...]]:
        """What callers should know before they rely on each row."""
        warnings = Warnings(self.served, self.book, self.now)
        inputs = zip_columns(
            configurations_of(self.scenarios),
            column_of(self.requests, "pricing"),
            self.offers,
            self.energy_rates.made(lambda rate: rate.factor),
        )
        common = inputs.made(lambda row: warnings.on_grounds(*row))
        levels = self.figures.levels
        return warnings.of_rows(common, self.supports, self.chances_to_fit[0], levels)


def _is_about_spot(terms: SpotTerms) -> bool:
    # Nearly always it is the same object: checking identity first is much faster than equality.
    return terms is not NO_SPOT_TERMS and terms != NO_SPOT_TERMS


def _axes(support: Support) -> tuple[AxisOutside, ...]:
    return tuple(
        [
            AxisOutside(axis.name, axis.asked, axis.measured_min, axis.measured_max, axis.distance)
            for axis in support.axes
        ]
    )
