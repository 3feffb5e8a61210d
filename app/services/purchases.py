"""On-demand and spot capacity side by side: the same question bought in the other way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.domain.configurations import Purchase, Scenario
from app.domain.errors import DomainError
from app.domain.forecasts import NO_SPOT_TERMS, Forecast, ForecastRequest, PurchaseOption


@dataclass(frozen=True, slots=True)
class Twin:
    """A question as it would be bought in the other way; `row` is that of the first one."""

    row: int
    request: ForecastRequest
    scenario: Scenario


def twins_of(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    answers: Sequence[Forecast | DomainError],
) -> list[Twin]:
    """Return the other way of every answered question that is about spot capacity."""
    known = zip(requests, scenarios, answers, strict=True)
    return [
        _twin(row, request, scenario, is_on_spot=answer.spot is not None)
        for row, (request, scenario, answer) in enumerate(known)
        if isinstance(answer, Forecast)
        and (answer.spot is not None or request.spot != NO_SPOT_TERMS)
    ]


def _twin(row: int, request: ForecastRequest, scenario: Scenario, *, is_on_spot: bool) -> Twin:
    purchase = Purchase.ON_DEMAND if is_on_spot else Purchase.SPOT
    # An inline price is for what was asked; the other one is looked up.
    pricing = replace(request.pricing, purchase=purchase, price_per_hour=None, serverless=None)
    configuration = replace(scenario.configuration, purchase=purchase)
    return Twin(
        row,
        replace(request, pricing=pricing),
        replace(scenario, configuration=configuration),
    )


def side_by_side(
    answer: Forecast | DomainError, other: Forecast | DomainError
) -> Forecast | DomainError:
    """Return a forecast with what it would be bought in its own way and in the other one."""
    if isinstance(answer, DomainError):
        return answer
    is_on_spot = answer.spot is not None
    own, twin = _option(answer, is_on_spot=is_on_spot), _option(other, is_on_spot=not is_on_spot)
    return replace(answer, purchases=(twin, own) if is_on_spot else (own, twin))


def _option(answer: Forecast | DomainError, *, is_on_spot: bool) -> PurchaseOption:
    asked = Purchase.SPOT if is_on_spot else Purchase.ON_DEMAND
    if isinstance(answer, DomainError):
        return PurchaseOption(asked, None, None, str(answer))
    bought = asked if answer.cost is None else answer.cost.price.purchase
    return PurchaseOption(bought, answer.duration_seconds, answer.cost)
