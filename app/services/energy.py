"""Energy and carbon of a forecast: the workload's power, the place's grid factor."""

from datetime import datetime
from typing import Final

from app.domain.configurations import Configuration
from app.domain.energy import EnergyForecast, EnergyTerms
from app.domain.prices import PriceQuery
from app.pricing.energy import MeasuredPowers, kilowatt_hours, power_draw
from app.pricing.grid import GridBook
from app.pricing.offers import Offer

_NO_POWER: Final = (
    "The power of this hardware is not known; give energy.watts_per_worker, or upload runs with"
    " resources.energy_joules."
)
_NO_PLACE: Final = (
    "Neither provider nor region is known; name them, or give energy.kg_co2e_per_kwh."
)


def energy_of(
    configuration: Configuration,
    seconds: float,
    terms: EnergyTerms,
    measured: MeasuredPowers,
    grid: GridBook,
    place: tuple[str | None, str | None],
    as_of: datetime,
) -> EnergyForecast:
    """Return the estimate for a duration; unknown figures come with the reason."""
    pue = terms.power_usage_effectiveness
    draw = power_draw(configuration.gpu_type, terms, measured)
    if draw is None:
        return EnergyForecast(None, None, pue, reason=_NO_POWER)
    energy = kilowatt_hours(draw, configuration.workers, seconds, power_usage_effectiveness=pue)
    factor = None if terms.kg_co2e_per_kwh is not None else grid.factor(*place, as_of)
    intensity = terms.kg_co2e_per_kwh if factor is None else float(factor.kg_co2e_per_kwh)
    if intensity is None:
        return EnergyForecast(energy, None, pue, draw, reason=_no_factor(place))
    return EnergyForecast(energy, energy * intensity, pue, draw, intensity, factor)


def _no_factor(place: tuple[str | None, str | None]) -> str:
    named = " ".join(each for each in place if each is not None)
    if not named:
        return _NO_PLACE
    return f"No grid factor is known for {named}; store one by POST /v1/grid-factors."


def place_of(
    configuration: Configuration, query: PriceQuery, offer: Offer | None
) -> tuple[str | None, str | None]:
    """Return provider and region: those asked for, otherwise those of the offer."""
    provider = query.provider or configuration.provider
    region = query.region or configuration.region
    if offer is not None:
        provider, region = provider or offer.price.provider, region or offer.price.region
    return provider, region
