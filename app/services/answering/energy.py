"""Energy and carbon of a forecast: the workload's power and the grid factor of the place."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from app.domain.columns import Repeated
from app.domain.configurations import Configuration
from app.domain.energy import EnergyForecast, EnergyTerms, PowerDraw
from app.domain.grid_factors import GridFactor
from app.domain.prices import PriceQuery
from app.pricing.energy import MeasuredPowers, kilowatt_hours, power_draw
from app.pricing.grid import GridBook
from app.pricing.offers import Offer
from models import FloatArray

_NO_POWER: Final = (
    "The power of this hardware is not known; give energy.watts_per_worker, or upload runs with"
    " resources.energy_joules."
)
_FEW: Final = 64
"""Up to this many energies are computed faster one by one than as arrays."""

_NO_PLACE: Final = (
    "Neither provider nor region is known; name them, or give energy.kg_co2e_per_kwh."
)


@dataclass(frozen=True, slots=True)
class EnergyRate:
    """What determines a configuration's energy and carbon besides its duration.

    `draw` is None where the power is unknown, `kg_co2e_per_kwh` where the grid factor is; `reason`
    says why.
    """

    workers: int
    power_usage_effectiveness: float
    draw: PowerDraw | None = None
    kg_co2e_per_kwh: float | None = None
    factor: GridFactor | None = None
    reason: str | None = None

    def over(self, seconds: float) -> EnergyForecast:
        """Return the estimate for a duration."""
        energy = carbon = None
        if self.draw is not None:
            energy = self.kilowatt_hours(seconds)
            if self.kg_co2e_per_kwh is not None:
                carbon = energy * self.kg_co2e_per_kwh
        return EnergyForecast(
            energy,
            carbon,
            self.power_usage_effectiveness,
            self.draw,
            self.kg_co2e_per_kwh,
            self.factor,
            self.reason,
        )

    def terms(self) -> tuple[float, float, float, float]:
        """Return watts, workers, power usage effectiveness and kg CO2e per kWh, 0 if unknown."""
        watts = 0.0 if self.draw is None else self.draw.watts
        intensity = self.kg_co2e_per_kwh or 0.0
        return watts, self.workers, self.power_usage_effectiveness, intensity

    def kilowatt_hours(self, seconds: float) -> float:
        """Return the energy used in a duration; 0 where the power is unknown."""
        if self.draw is None:
            return 0.0
        pue = self.power_usage_effectiveness
        return kilowatt_hours(self.draw.watts, self.workers, seconds, pue)


def energies_over(
    rates: Repeated[EnergyRate], seconds: Sequence[float]
) -> tuple[FloatArray, FloatArray]:
    """Return kWh and kilograms of CO2e, shape (n,) each, bit for bit those of `over`.

    0 where they are unknown.
    """
    if len(seconds) <= _FEW:
        energy_kwh = [
            rate.kilowatt_hours(value) for rate, value in zip(rates, seconds, strict=True)
        ]
        carbon_kg = [
            value * (rate.kg_co2e_per_kwh or 0.0)
            for rate, value in zip(rates, energy_kwh, strict=True)
        ]
        return np.array(energy_kwh), np.array(carbon_kg)
    table = np.array([rate.terms() for rate in rates.distinct]).T
    rows = np.frombuffer(rates.places, dtype=np.int64)
    watts, workers, pue, intensity = table.take(rows, axis=1)
    energy_kwh = kilowatt_hours(watts, workers, np.array(seconds), pue)
    return energy_kwh, energy_kwh * intensity


def energy_rate(
    configuration: Configuration,
    terms: EnergyTerms,
    measured: MeasuredPowers,
    grid: GridBook,
    place: tuple[str | None, str | None],
    as_of: datetime,
) -> EnergyRate:
    """Return a configuration's power and emission rate, with the reason where one is unknown."""
    workers, pue = configuration.workers, terms.power_usage_effectiveness
    gpu_type, instance_type = configuration.gpu_type, configuration.instance_type
    draw = power_draw(gpu_type, terms, measured, instance_type=instance_type)
    if draw is None:
        return EnergyRate(workers, pue, reason=_NO_POWER)
    factor = None if terms.kg_co2e_per_kwh is not None else grid.factor(*place, as_of)
    intensity = terms.kg_co2e_per_kwh if factor is None else float(factor.kg_co2e_per_kwh)
    reason = _no_factor(place) if intensity is None else None
    return EnergyRate(workers, pue, draw, intensity, factor, reason)


def _no_factor(place: tuple[str | None, str | None]) -> str:
    names = " ".join(name for name in place if name is not None)
    if not names:
        return _NO_PLACE
    return f"No grid factor is known for {names}; store one with POST /v1/grid-factors."


def place_of(
    configuration: Configuration, query: PriceQuery, offer: Offer | None
) -> tuple[str | None, str | None]:
    """Return provider and region: the requested ones, otherwise those of the offer."""
    provider = query.provider or configuration.provider
    region = query.region or configuration.region
    if offer is not None:
        provider, region = provider or offer.price.provider, region or offer.price.region
    return provider, region
