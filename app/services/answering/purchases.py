"""On-demand and spot capacity side by side: the same question, bought the other way."""

from dataclasses import replace

from app.domain.configurations import Purchase, Scenario
from app.domain.forecasts import ForecastRequest


def counterpart_of(
    request: ForecastRequest, scenario: Scenario, *, is_on_spot: bool
) -> tuple[ForecastRequest, Scenario]:
    """Return a question as it would be bought the other way."""
    purchase = Purchase.ON_DEMAND if is_on_spot else Purchase.SPOT
    # An inline price applies to what was asked; that of the other way is looked up.
    pricing = replace(request.pricing, purchase=purchase, price_per_hour=None, serverless=None)
    configuration = replace(scenario.configuration, purchase=purchase)
    return replace(request, pricing=pricing), replace(scenario, configuration=configuration)
