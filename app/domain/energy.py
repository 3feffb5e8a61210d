"""Energy and carbon of a training: assumptions, measurements of runs, and the estimate."""

from dataclasses import dataclass

from app.domain.grid_factors import GridFactor


@dataclass(frozen=True, slots=True)
class EnergyTerms:
    """What a caller knows about the energy of a training.

    Attributes
    ----------
    power_usage_effectiveness
        Energy of the building per energy of the accelerators, >= 1; 1 counts only the accelerators.
    utilization
        Mean power of an accelerator as a share of its design power, within (0, 1].
    watts_per_worker
        Mean power of a worker in watts; takes precedence over everything else.
    kg_co2e_per_kwh
        CO2 equivalent of a kilowatt-hour; takes precedence over stored grid factors.
    """

    power_usage_effectiveness: float = 1.0
    utilization: float | None = None
    watts_per_worker: float | None = None
    kg_co2e_per_kwh: float | None = None


NO_ENERGY_TERMS = EnergyTerms()


@dataclass(frozen=True, slots=True)
class MeasuredPower:
    """What a workload's runs on one GPU type measured, None where no run measured it.

    `watts` is the mean power of a worker, `utilization` the mean share of time that its GPU works.
    """

    watts: float | None
    utilization: float | None


@dataclass(frozen=True, slots=True)
class PowerDraw:
    """The mean power of a worker in watts, and its source.

    `basis` is `given`, `measured`, `utilization` (design power times utilisation) or `data_sheet`
    (design power: an upper estimate).
    """

    watts: float
    basis: str


@dataclass(frozen=True, slots=True)
class EnergyForecast:
    """An estimate of energy and carbon, None where something is unknown; `reason` says what."""

    kilowatt_hours: float | None
    kg_co2e: float | None
    power_usage_effectiveness: float
    draw: PowerDraw | None = None
    kg_co2e_per_kwh: float | None = None
    factor: GridFactor | None = None
    reason: str | None = None
