"""The use case of planning which configurations to measure next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import exp, log
from typing import Final

import numpy as np

from app.decisions.profiling import Limits, Schedule, plan_runs, width_of
from app.domain.configurations import Scenario
from app.domain.errors import Fault, InvalidRequestError, NoRegressorError, UnknownWorkloadError
from app.domain.forecasts import ForecastWarning, Interval
from app.domain.identifiers import ProjectId
from app.domain.profiling import (
    PlannedRun,
    ProfilingPlan,
    ProfilingRequest,
    RejectedRun,
    TargetOutlook,
)
from app.pricing.billing import bill
from app.pricing.resolution import Offer, PriceBook
from app.services.context import ServiceContext
from app.services.prices import PriceService
from app.services.profiling_candidates import candidate_scenarios, distinct, identity_of
from app.services.profiling_grounds import (
    ColdGround,
    FittedGround,
    Ground,
    Outlook,
    named_cold,
)
from app.services.questions import to_question
from app.services.serving import RegressorCache, ServedRegressor
from models import FloatArray, IntArray

MAX_NAMED_REJECTIONS: Final = 100
_COLD_RUNS: Final = 4
"""Runs after which a plan without any measured run asks for a fit."""


@dataclass(frozen=True, slots=True)
class _Field:
    """All candidates with their prices, and those that may be taken."""

    scenarios: Sequence[Scenario]
    outlook: Outlook
    prices: list[Decimal | None]
    currency: str | None
    kept: IntArray
    rejected: list[RejectedRun]

    def costs(self) -> FloatArray:
        """Return what the design weighs gains by: money, or worker-seconds where none is known."""
        money = np.array([float(self.prices[row] or 0) for row in self.kept])
        if self.currency is not None and (money > 0).all():
            return money
        workers = [self.scenarios[row].configuration.workers for row in self.kept]
        return np.array(workers) * self.outlook.mean_s[self.kept]

    def money(self) -> FloatArray:
        """Return the prices of the kept candidates, 0 where none is known."""
        return np.array([float(self.prices[row] or 0) for row in self.kept])


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
            If a configuration cannot be forecast, or nothing is left to measure.
        """
        try:
            served = self._regressors.get(project_id, request.workload)
        except NoRegressorError:
            served = None
        request, ground, scenarios = self._ground(project_id, request, served)
        field = _field(request, ground, scenarios, self._prices.book(project_id))
        design = ground.design(field.kept, field.costs())
        now = design.half_widths()
        scale = _scale(now, field.outlook.targets)
        limits = Limits(
            runs=request.runs if field.outlook.is_scaled else min(request.runs, _COLD_RUNS),
            budget=_budget(request, field),
            stop=request.stop,
        )
        schedule = plan_runs(design, field.money(), limits, scale)
        least = float(width_of(scale * design.least_half_widths()).mean())
        return _tell(request, served, field, schedule, least)

    def _ground(
        self, project_id: ProjectId, request: ProfilingRequest, served: ServedRegressor | None
    ) -> tuple[ProfilingRequest, Ground, list[Scenario]]:
        with self._context.database.reading() as stores:
            workload = stores.workloads.get(project_id, request.workload)
            if workload is None:
                raise UnknownWorkloadError(request.workload)
            measured = stores.forecasts.measured_hardware(workload.workload_id)
            runs = stores.runs.usable_for_fit(workload.workload_id) if served is None else None
        candidates = candidate_scenarios(request, measured)
        resolve = named_cold if served is None else (lambda each: to_question(each, served))
        request = replace(
            request,
            targets=tuple(resolve(each) for each in request.targets),
            exclude=tuple(resolve(each) for each in request.exclude),
        )
        scenarios = distinct(resolve(each) for each in candidates)
        if served is not None:
            return request, FittedGround(request, scenarios, served), scenarios
        assert runs is not None
        return request, ColdGround(request, scenarios, runs), scenarios


def _field(
    request: ProfilingRequest, ground: Ground, scenarios: list[Scenario], book: PriceBook
) -> _Field:
    offers = [book.resolve(scenario.configuration, request.pricing) for scenario in scenarios]
    outlook = ground.outlook(offers)
    prices = _prices(offers, outlook)
    currency = next((offer.price.currency for offer in offers if offer is not None), None)
    reasons = _reasons(request, ground, scenarios, offers, outlook)
    kept = [row for row, reason in enumerate(reasons) if reason is None]
    rejected = [
        RejectedRun(scenario, reason)
        for scenario, reason in zip(scenarios, reasons, strict=True)
        if reason is not None
    ]
    if not kept:
        raise _nothing_left(rejected)
    return _Field(scenarios, outlook, prices, currency, np.array(kept, dtype=np.int64), rejected)


def _nothing_left(rejected: Sequence[RejectedRun]) -> InvalidRequestError:
    reasons = ", ".join(sorted({each.reason for each in rejected}))
    remedy = (
        "Name other candidates, or repeat: true to measure configurations again."
        if any(each.reason == "measured" for each in rejected)
        else "Name other candidates, or a price with pricing.price_per_hour."
    )
    return InvalidRequestError(
        f"None of the {len(rejected)} candidates can be measured ({reasons}).",
        [Fault("Nothing is left to plan.", remedy, field="candidates", pointer="/candidates")],
    )


def _reasons(
    request: ProfilingRequest,
    ground: Ground,
    scenarios: Sequence[Scenario],
    offers: Sequence[Offer | None],
    outlook: Outlook,
) -> list[str | None]:
    """Return for each candidate why it cannot be taken, None if it can."""
    excluded = {identity_of(each) for each in request.exclude}
    measured = [False] * len(scenarios) if request.repeat else ground.is_measured()
    currencies = [None if offer is None else offer.price.currency for offer in offers]
    currency = next((each for each in currencies if each is not None), None)
    reasons: list[str | None] = []
    for row, scenario in enumerate(scenarios):
        reason = None
        if identity_of(scenario) in excluded:
            reason = "excluded"
        elif measured[row]:
            reason = "measured"
        elif row in outlook.impossible:
            reason = "spot_infeasible"
        elif currencies[row] != currency:
            reason = "price_unknown" if currencies[row] is None else "other_currency"
        reasons.append(reason)
    return reasons


def _prices(offers: Sequence[Offer | None], outlook: Outlook) -> list[Decimal | None]:
    if not outlook.is_scaled:
        return [None] * len(offers)
    return [
        None if offer is None else bill(offer, seconds, seconds, seconds).median
        for offer, seconds in zip(offers, outlook.mean_s.tolist(), strict=True)
    ]


def _budget(request: ProfilingRequest, field: _Field) -> float | None:
    if request.budget is None or not field.outlook.is_scaled:
        return None
    if field.currency is None:
        raise InvalidRequestError(
            "A budget needs prices, and none is known for any candidate.",
            [
                Fault(
                    "No price is known.",
                    "Name pricing.price_per_hour, or upload prices, or leave the budget out.",
                    field="budget",
                    pointer="/budget",
                )
            ],
        )
    return float(request.budget)


def _scale(now: FloatArray, targets: Sequence[Interval | None]) -> FloatArray:
    """Return what makes the design's half widths those of the forecasts' own intervals."""
    shown = [
        half if each is None else log(each.upper / each.median)
        for half, each in zip(now.tolist(), targets, strict=True)
    ]
    return np.array(shown) / now


def _tell(
    request: ProfilingRequest,
    served: ServedRegressor | None,
    field: _Field,
    schedule: Schedule,
    attainable: float,
) -> ProfilingPlan:
    last = schedule.runs[-1].widths if schedule.runs else schedule.widths
    return ProfilingPlan(
        request=request,
        regressor_version=None if served is None else served.version,
        currency=field.currency,
        considered=len(field.scenarios),
        runs=_planned(field, schedule),
        targets=tuple(
            _outlook(*each)
            for each in zip(
                request.targets,
                field.outlook.targets,
                schedule.widths.tolist(),
                last.tolist(),
                strict=True,
            )
        ),
        width=float(schedule.widths.mean()),
        expected_width=float(last.mean()),
        attainable_width=attainable,
        stop=schedule.stop,
        rejected=tuple(field.rejected[:MAX_NAMED_REJECTIONS]),
        rejected_count=len(field.rejected),
        warnings=tuple(_warnings(request, served, field, attainable)),
    )


def _planned(field: _Field, schedule: Schedule) -> tuple[PlannedRun, ...]:
    total: Decimal | None = Decimal(0)
    planned = []
    for chosen in schedule.runs:
        row = int(field.kept[chosen.candidate])
        price = field.prices[row]
        total = None if price is None or total is None else total + price
        planned.append(
            PlannedRun(
                scenario=field.scenarios[row],
                duration=field.outlook.durations[row],
                price=price,
                total_price=total,
                narrowing=chosen.narrowing,
                width=float(chosen.widths.mean()),
            )
        )
    return tuple(planned)


def _outlook(
    scenario: Scenario, now: Interval | None, width: float, expected_width: float
) -> TargetOutlook:
    expected = None
    if now is not None:
        half = float(np.arcsinh(expected_width / 2))
        expected = Interval(
            now.median, now.median * exp(-half), now.median * exp(half), now.confidence
        )
    return TargetOutlook(scenario, now, expected, width, expected_width)


def _warnings(
    request: ProfilingRequest,
    served: ServedRegressor | None,
    field: _Field,
    attainable: float,
) -> list[ForecastWarning]:
    found = []
    if served is None:
        found.append(
            ForecastWarning(
                "cold_start",
                "No regressor is published: the plan rests on what holds for any training.",
                "Measure these runs, upload them, fit, and ask for the next plan.",
            )
        )
    if not field.outlook.is_scaled:
        found.append(
            ForecastWarning(
                "scale_unknown",
                "Nothing was measured yet: durations and prices are unknown, a budget cannot be"
                " kept.",
                "Measure the first run of the plan, upload it, and ask again.",
            )
        )
    if request.stop.width is not None and request.stop.width < attainable:
        found.append(
            ForecastWarning(
                "goal_unattainable",
                f"Runs scatter so much that no plan narrows the intervals below"
                f" {attainable:.3g} of the median.",
                f"Ask for a width above {attainable:.3g}.",
            )
        )
    return found
