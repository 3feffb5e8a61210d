"""Answers many questions to one regressor at once: durations, costs, probabilities, warnings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from app.domain.configurations import Purchase, Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import (
    AxisOutside,
    Basis,
    ExplainedBy,
    Feasibility,
    Forecast,
    ForecastRequest,
    Interval,
    Lesson,
    SupportReport,
)
from app.domain.identifiers import RunId, Slug
from app.pricing.offers import Offer
from app.pricing.resolution import PriceBook
from app.services.costs import cost_of
from app.services.energy import energy_of, place_of
from app.services.figures import Figures, figures_of, known
from app.services.frames import scenario_features
from app.services.purchases import side_by_side, twins_of
from app.services.questions import to_features, to_question
from app.services.serving import ServedRegressor
from app.services.spot_terms import InterruptedForecast, report_of, with_interruptions
from app.services.targets import targets_of
from app.services.warnings import warnings_of
from models import FeatureTable, FloatArray, ForecastDistribution, Inquiry, Support

Answer = Forecast | DomainError


@dataclass(frozen=True, slots=True)
class Reason:
    """What a forecast rests on, its explanation, its memory, and who taught it what."""

    support: Support
    explanation: dict[str, float]
    feasibility: Feasibility
    taught_by: tuple[Lesson, ...] | None


@dataclass(frozen=True, slots=True)
class _Around:
    """What answers besides the question."""

    served: ServedRegressor
    book: PriceBook
    now: datetime


def answer_all(
    requests: Sequence[ForecastRequest], served: ServedRegressor, book: PriceBook, now: datetime
) -> list[Answer]:
    """Return a forecast or a refusal for each request, in order, by one evaluation."""
    answers: list[Answer | None] = [None] * len(requests)
    rows: list[int] = []
    scenarios: list[Scenario] = []
    for index, request in enumerate(requests):
        try:
            scenarios.append(to_question(request.scenario, served))
            rows.append(index)
        except DomainError as error:
            answers[index] = error
    asked = [requests[index] for index in rows]
    found = _answer(asked, scenarios, served, book, now)
    found = _with_other_purchases(asked, scenarios, found, served, book, now)
    for index, answer in zip(rows, found, strict=True):
        answers[index] = answer
    return [answer for answer in answers if answer is not None]


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
    return [
        book.resolve(scenario.configuration, request.pricing, currency=currency, seconds=each)
        for request, scenario, each in zip(requests, scenarios, seconds.tolist(), strict=True)
    ]


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


def predict(scenarios: Sequence[Scenario], served: ServedRegressor) -> ForecastDistribution:
    """Return the distributions of the durations without interruptions."""
    return served.predict(features_of(scenarios, served))


def features_of(scenarios: Sequence[Scenario], served: ServedRegressor) -> FeatureTable:
    """Return what the regressor sees of questions."""
    report = served.portfolio.report
    return scenario_features([to_features(scenario, report) for scenario in scenarios])


def is_spot(request: ForecastRequest, offer: Offer | None) -> bool:
    """Whether a request is for capacity that may be taken away."""
    if offer is not None:
        return offer.price.purchase is Purchase.SPOT
    return Purchase.SPOT in {request.pricing.purchase, request.scenario.configuration.purchase}


def _answer(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    served: ServedRegressor,
    book: PriceBook,
    now: datetime,
) -> list[Answer]:
    features = features_of(scenarios, served)
    inquiry, work = served.ask(features)
    offers = offers_for(requests, scenarios, book, work.median(), served.currency)
    durations, refusals = interrupted(work, requests, offers)
    reasons = _reasons(requests, inquiry, served)
    figures = figures_of(requests, durations, offers)
    around = _Around(served, book, now)
    law = served.portfolio.convergence
    targets = targets_of(requests, scenarios, offers, figures.durations(requests), law)
    answers: list[Answer] = []
    work_s = work.median().tolist()
    rows = zip(requests, scenarios, offers, reasons, strict=True)
    for row, (request, scenario, offer, reason) in enumerate(rows):
        refusal = refusals.get(row)
        if refusal is not None:
            answers.append(refusal)
            continue
        forecast = _forecast(
            row,
            request,
            scenario,
            offer,
            reason,
            figures=figures,
            around=around,
        )
        if targets[row]:
            forecast = replace(forecast, to_target=targets[row])
        if is_spot(request, offer):
            instances = 1 if offer is None else offer.total_instances
            forecast = replace(forecast, spot=report_of(work_s[row], request.spot, instances))
        answers.append(forecast)
    return answers


def _with_other_purchases(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    answers: list[Answer],
    served: ServedRegressor,
    book: PriceBook,
    now: datetime,
) -> list[Answer]:
    """Return the answers, those about spot capacity beside the same on demand, and vice versa."""
    twins = twins_of(requests, scenarios, answers)
    if not twins:
        return answers
    others = _answer(
        [twin.request for twin in twins], [twin.scenario for twin in twins], served, book, now
    )
    for twin, other in zip(twins, others, strict=True):
        answers[twin.row] = side_by_side(answers[twin.row], other)
    return answers


def _reasons(
    requests: Sequence[ForecastRequest], inquiry: Inquiry, served: ServedRegressor
) -> list[Reason]:
    """Return what each forecast rests on and what it is made of."""
    features = inquiry.features
    if not features.n_rows:
        return []
    has_phases = served.portfolio.phases is not None
    explained = inquiry.phases if has_phases else inquiry.explanation
    shares: list[dict[str, float]] = [
        {name: float(f"{share:.4g}") for name, share in explanation} for explanation in explained
    ]
    fits = _feasibilities(features, served)
    lessons = _lessons([request.explain for request in requests], features, served)
    return [Reason(*parts) for parts in zip(inquiry.support, shares, fits, lessons, strict=True)]


def _lessons(
    is_asked: Sequence[bool], features: FeatureTable, served: ServedRegressor
) -> list[tuple[Lesson, ...] | None]:
    """Return which runs taught each forecast that is to be explained."""
    rows = np.flatnonzero(is_asked)
    lessons: list[tuple[Lesson, ...] | None] = [None] * len(is_asked)
    if len(rows):
        found = served.portfolio.taught_by(features.take(rows))
        for row, taught in zip(rows.tolist(), found, strict=True):
            lessons[row] = tuple(
                Lesson(tuple(map(RunId, each.run_ids)), float(f"{each.influence:.4g}"), each.about)
                for each in taught
            )
    return lessons


def _feasibilities(features: FeatureTable, served: ServedRegressor) -> list[Feasibility]:
    found = served.portfolio.feasibility(features)
    return [
        Feasibility(known(float(f"{chance:.4g}")), basis)
        for chance, basis in zip(found.probability.tolist(), found.basis, strict=True)
    ]


def _forecast(
    row: int,
    request: ForecastRequest,
    scenario: Scenario,
    offer: Offer | None,
    reason: Reason,
    *,
    figures: Figures,
    around: _Around,
) -> Forecast:
    configuration, served, now = scenario.configuration, around.served, around.now
    support, feasibility = reason.support, reason.feasibility
    duration = Interval(
        figures.median[row], figures.lower[row], figures.upper[row], request.confidence
    )
    energy = energy_of(
        configuration,
        duration.median,
        request.energy,
        served.power,
        around.book.grid,
        place_of(configuration, request.pricing, offer),
        request.pricing.as_of or now,
    )
    return Forecast(
        forecast_id=None,
        workload=request.workload,
        workload_id=served.workload_id,
        regressor_version=served.version,
        fitted_at=served.fitted_at,
        scenario=scenario,
        duration_seconds=duration,
        time_limit_seconds=figures.time_limit[row],
        cost=None if offer is None else cost_of(offer, duration),
        feasibility=feasibility,
        deadline_probability=known(figures.deadline[row]),
        budget_probability=known(figures.budget[row]),
        support=_support_report(support, served),
        basis=Basis(support.basis),
        energy=energy,
        explanation=reason.explanation,
        explained_by=ExplainedBy.TERMS if served.portfolio.phases is None else ExplainedBy.PHASES,
        warnings=warnings_of(
            request,
            served,
            support,
            offer,
            now,
            fits_probability=feasibility.fits_probability,
            factor=energy.factor,
        ),
        taught_by=reason.taught_by,
    )


def _support_report(support: Support, served: ServedRegressor) -> SupportReport:
    pooling = served.portfolio.report.pooling
    return SupportReport(
        within_range=support.within_range,
        axes=tuple(
            AxisOutside(
                name=axis.name,
                asked=axis.asked,
                measured_min=axis.measured_min,
                measured_max=axis.measured_max,
                distance=axis.distance,
            )
            for axis in support.axes
        ),
        unseen_levels=support.unseen_levels,
        unidentified=support.unidentified,
        runs_used=served.portfolio.report.n_runs,
        nearest_runs=tuple(RunId(name) for name in support.nearest_run_ids),
        pooled_from=() if pooling is None else tuple(Slug(name) for name in pooling.contributors),
        factory_prior=pooling is not None and pooling.factory > 0,
    )
