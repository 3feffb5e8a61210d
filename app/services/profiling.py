"""The use case of planning which configurations to measure next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import log
from typing import Final

import numpy as np

from app.decisions.profiling import Limits, Reach, Schedule, plan_runs
from app.domain.configurations import Scenario
from app.domain.errors import Fault, InvalidRequestError, NoRegressorError
from app.domain.forecasts import Interval
from app.domain.identifiers import ProjectId
from app.domain.profiling import (
    PlannedRun,
    ProfilingPlan,
    ProfilingRequest,
    RejectedRun,
    TargetOutlook,
)
from app.pricing.billing import bill, costs_of
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.answering.questions import ScenarioResolver
from app.services.context import ServiceContext
from app.services.prices import PriceService
from app.services.profiling_plans.candidates import (
    Identity,
    candidate_scenarios,
    distinct,
    identity_of,
    names_nodes,
    open_nodes,
)
from app.services.profiling_plans.grounds import (
    ColdGround,
    FittedGround,
    Ground,
    Outlook,
    canonical_scenario,
)
from app.services.profiling_plans.memory import lacks_memory
from app.services.profiling_plans.newer_runs import resolved_scenarios, unfitted_runs
from app.services.profiling_plans.spending import Spending, currency_of, spending_of
from app.services.profiling_plans.warnings import plan_warnings
from app.services.searching.room import Misplaced, misplaced
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from app.services.tables.implied_gpus import with_implied_pairs
from app.services.workload_names import require_workload
from models import BoolArray, FloatArray

MAX_NAMED_REJECTIONS: Final = 100
_COLD_RUNS: Final = 4
"""Runs after which a plan without any measured run requests a fit."""


@dataclass(frozen=True, slots=True)
class _CandidateTable:
    """All candidates with their prices, and why some may not be chosen.

    Of those that are the same to the regressor only the `cheapest` counts; the caller never sees
    the others.
    """

    scenarios: Sequence[Scenario]
    outlook: Outlook
    spending: Spending
    prices: list[Decimal | None]
    currency: str | None
    reasons: list[str | None]
    cheapest: BoolArray

    def money(self) -> FloatArray:
        """Return the prices, 0 where none is known."""
        return np.array([float(price or 0) for price in self.prices])

    def allowed(self) -> BoolArray:
        """Return which candidates may be chosen."""
        is_open = np.array([reason is None for reason in self.reasons], dtype=np.bool_)
        return np.logical_and(self.cheapest, is_open)

    def costs(self) -> FloatArray:
        """Return the weights of gains: the prices, or worker-seconds where any is unknown.

        Before the first run durations are known only up to a factor, and so are costs.
        """
        workers = np.array([scenario.configuration.workers for scenario in self.scenarios])
        effort = np.asarray(workers * self.outlook.mean_s, dtype=np.float64)
        charged = self._charged()
        is_known = charged > 0
        is_priced = bool(is_known[self.allowed()].all()) and self.currency is not None
        return np.where(is_known, charged, effort) if is_priced else effort

    def _charged(self) -> FloatArray:
        """Return what each run costs before rounding, NaN where no price is known."""
        offers, mean_s = self.outlook.offers, self.outlook.mean_s
        if self.outlook.is_scaled:
            return costs_of(offers, mean_s)
        hourly = [np.nan if offer is None else float(offer.per_hour) for offer in offers]
        return np.array(hourly) * mean_s

    def rejected(self) -> list[RejectedRun]:
        """Return the candidates that may not be chosen."""
        rows = zip(self.scenarios, self.reasons, self.cheapest.tolist(), strict=True)
        return [
            RejectedRun(scenario, reason)
            for scenario, reason, is_cheapest in rows
            if is_cheapest and reason is not None
        ]


class ProfilingService:
    """The use case of planning which configurations to measure next."""

    def __init__(
        self, context: ServiceContext, regressors: RegressorCache, prices: PriceService
    ) -> None:
        self._context = context
        self._regressors = regressors
        self._prices = prices

    def plan(self, project_id: ProjectId, request: ProfilingRequest) -> ProfilingPlan:
        """Return which configurations to measure next, in order.

        Raises
        ------
        UnknownWorkloadError, RegressorUnavailableError
            If there is no such workload, or its regressor cannot be used.
        AmbiguousGpuError, UnknownGpuError, UnknownFieldError, InvalidRequestError
            If a configuration cannot be forecast, or there are too many.
        """
        try:
            served = self._regressors.get(project_id, request.workload)
        except NoRegressorError:
            served = None
        book = self._prices.book(project_id)
        request, ground, scenarios, misfits = self._ground(project_id, request, served, book)
        table = _candidate_table(request, ground, scenarios, book, misfits)
        design = ground.design(table.costs())
        reach = _reach(design.half_widths(), table.outlook.targets)
        limits = Limits(
            runs=request.runs if table.outlook.is_scaled else min(request.runs, _COLD_RUNS),
            budget=_budget(request, table),
            stop=request.stop,
        )
        schedule = plan_runs(design, table.money(), limits, reach, table.allowed())
        attainable = float(reach.widths(design.least_half_widths()).mean())
        return _to_plan(request, ground, table, schedule, reach, attainable)

    def _ground(
        self,
        project_id: ProjectId,
        request: ProfilingRequest,
        served: ServedRegressor | None,
        book: PriceBook,
    ) -> tuple[ProfilingRequest, Ground, list[Scenario], Mapping[int, Misplaced]]:
        with self._context.database.reading() as stores:
            workload = require_workload(stores, project_id, request.workload)
            measured = stores.runs.measured_hardware(workload.workload_id)
            runs = unfitted_runs(stores, workload.workload_id, served)
        if served is not None:
            measured = with_implied_pairs(measured, served.gpu_types, book)
        candidates = candidate_scenarios(request, measured, served, book)
        resolve = canonical_scenario if served is None else ScenarioResolver(served, book).resolve
        pricing = request.pricing
        request = replace(
            request,
            pricing=replace(pricing, currency=pricing.currency or workload.declaration.currency),
            targets=tuple(resolve(scenario) for scenario in request.targets),
            exclude=tuple(resolve(scenario) for scenario in request.exclude),
            made=tuple(replace(run, scenario=resolve(run.scenario)) for run in request.made),
        )
        resolved = [resolve(scenario) for scenario in candidates]
        scenarios = distinct(resolved)
        configurations = [scenario.configuration for scenario in scenarios]
        misfits = misplaced(configurations, measured, book) if names_nodes(request) else {}
        succeeded = resolved_scenarios(runs.usable, resolve)
        out_of_memory = list(resolved_scenarios(runs.out_of_memory, resolve))
        if served is not None:
            newer = list(succeeded)
            too_large = lacks_memory(scenarios, out_of_memory, newer)
            measured_since = frozenset(map(identity_of, newer))
            nodes_open = open_nodes(request, candidates, resolved, scenarios)
            ground = FittedGround(request, scenarios, served, measured_since, too_large, nodes_open)
            return request, ground, scenarios, misfits
        too_large = lacks_memory(scenarios, out_of_memory, succeeded)
        return request, ColdGround(request, scenarios, runs.usable, too_large), scenarios, misfits


def _candidate_table(
    request: ProfilingRequest,
    ground: Ground,
    scenarios: list[Scenario],
    book: PriceBook,
    misfits: Mapping[int, Misplaced],
) -> _CandidateTable:
    outlook = ground.outlook(book)
    offers, prices = outlook.offers, _prices(outlook)
    currency = currency_of(request, offers)
    reasons = _reasons(request, ground, scenarios, outlook)
    reasons = [
        misfits[row].reason if row in misfits else reason for row, reason in enumerate(reasons)
    ]
    return _CandidateTable(
        scenarios=scenarios,
        outlook=outlook,
        spending=spending_of(request, book, currency),
        prices=prices,
        currency=currency,
        reasons=reasons,
        cheapest=_cheapest(scenarios, offers, prices, reasons),
    )


def _cheapest(
    scenarios: Sequence[Scenario],
    offers: Sequence[Offer | None],
    prices: Sequence[Decimal | None],
    reasons: Sequence[str | None],
) -> BoolArray:
    """Return which candidate is the cheapest of each set of equals, whatever their order.

    Those that may not be chosen come last. Before the first run the hourly price decides.
    """

    def rank(row: int) -> tuple[bool, bool, Decimal, tuple[str, ...]]:
        offer, configuration = offers[row], scenarios[row].configuration
        price = prices[row] if offer is None or prices[row] is not None else offer.per_hour
        names = (
            configuration.provider or "",
            configuration.region or "",
            configuration.purchase or "",
        )
        return reasons[row] is not None, price is None, price or Decimal(0), names

    best: dict[Identity, int] = {}
    for row in sorted(range(len(scenarios)), key=rank):
        best.setdefault(identity_of(scenarios[row]), row)
    return np.isin(np.arange(len(scenarios)), list(best.values()))


def _reasons(
    request: ProfilingRequest,
    ground: Ground,
    scenarios: Sequence[Scenario],
    outlook: Outlook,
) -> list[str | None]:
    """Return for each candidate why it cannot be chosen, None if it can."""
    excluded = {identity_of(scenario) for scenario in request.exclude}
    measured = [False] * len(scenarios) if request.repeat else ground.is_measured()
    currencies = [None if offer is None else offer.price.currency for offer in outlook.offers]
    currency = currency_of(request, outlook.offers)
    too_large = ground.is_too_large()
    reasons: list[str | None] = []
    for row, scenario in enumerate(scenarios):
        reason = None
        if identity_of(scenario) in excluded:
            reason = "excluded"
        elif measured[row]:
            reason = "measured"
        elif too_large[row]:
            reason = "out_of_memory"
        elif row in outlook.impossible:
            reason = "spot_infeasible"
        elif currencies[row] != currency:
            reason = "price_unknown" if currencies[row] is None else "other_currency"
        reasons.append(reason)
    return reasons


def _prices(outlook: Outlook) -> list[Decimal | None]:
    if not outlook.is_scaled:
        return [None] * len(outlook.offers)
    return [
        None if offer is None else bill(offer, seconds, seconds, seconds).median
        for offer, seconds in zip(outlook.offers, outlook.mean_s.tolist(), strict=True)
    ]


def _budget(request: ProfilingRequest, table: _CandidateTable) -> float | None:
    if request.budget is None or not table.outlook.is_scaled:
        return None
    if table.currency != request.pricing.currency:
        raise InvalidRequestError(
            f"A budget needs prices in {request.pricing.currency}, and none is known for any"
            " candidate.",
            [
                Fault(
                    "No price is known.",
                    "Give pricing.price_per_hour, or upload prices or exchange rates, or leave the"
                    " budget out.",
                    field="budget",
                    pointer="/budget",
                )
            ],
        )
    return float(max(request.budget - table.spending.amount, Decimal(0)))


def _reach(half_widths: FloatArray, targets: Sequence[Interval | None]) -> Reach:
    """Return the factors that turn the design's half widths into those of the forecasts."""
    log_widths = [
        (half_width, half_width)
        if interval is None
        else (log(interval.median / interval.lower), log(interval.upper / interval.median))
        for half_width, interval in zip(half_widths.tolist(), targets, strict=True)
    ]
    below, above = np.array(log_widths).T / half_widths
    return Reach(below, above)


def _to_plan(
    request: ProfilingRequest,
    ground: Ground,
    table: _CandidateTable,
    schedule: Schedule,
    reach: Reach,
    attainable: float,
) -> ProfilingPlan:
    targets = _outlooks(request.targets, table.outlook.targets, schedule, reach)
    rejected = table.rejected()
    return ProfilingPlan(
        request=request,
        regressor_version=ground.version,
        currency=table.currency or table.spending.currency,
        spent=table.spending.amount,
        considered=int(table.cheapest.sum()),
        runs=_planned(table, schedule, reach),
        targets=targets,
        width=float(np.mean([target.width for target in targets])),
        expected_width=float(np.mean([target.expected_width for target in targets])),
        attainable_width=attainable,
        stop=schedule.stop,
        rejected=tuple(rejected[:MAX_NAMED_REJECTIONS]),
        rejected_count=len(rejected),
        warnings=tuple(
            plan_warnings(request, ground, table.outlook, table.spending, attainable=attainable)
        ),
    )


def _planned(table: _CandidateTable, schedule: Schedule, reach: Reach) -> tuple[PlannedRun, ...]:
    total: Decimal | None = Decimal(0)
    planned = []
    for chosen in schedule.runs:
        row = chosen.candidate
        price, offer = table.prices[row], table.outlook.offers[row]
        total = None if price is None or total is None else total + price
        planned.append(
            PlannedRun(
                scenario=table.scenarios[row],
                duration=table.outlook.durations[row],
                price=price,
                price_per_hour=None if offer is None else offer.per_hour,
                total_price=total,
                narrowing=chosen.narrowing,
                width=float(reach.widths(chosen.half_widths).mean()),
            )
        )
    return tuple(planned)


def _outlooks(
    targets: Sequence[Scenario],
    intervals: Sequence[Interval | None],
    schedule: Schedule,
    reach: Reach,
) -> tuple[TargetOutlook, ...]:
    widths = [reach.widths(values).tolist() for values in (schedule.half_widths, schedule.expected)]
    bounds = [values.tolist() for values in reach.bounds(schedule.expected)]
    return tuple(
        TargetOutlook(scenario, now, now and _within(now, lower, upper), width, expected_width)
        for scenario, now, width, expected_width, lower, upper in zip(
            targets, intervals, *widths, *bounds, strict=True
        )
    )


def _within(now: Interval, lower: float, upper: float) -> Interval:
    """Return an interval with the same median and confidence, and the given relative bounds."""
    return Interval(now.median, now.median * lower, now.median * upper, now.confidence)
