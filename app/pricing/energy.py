"""An estimate of the energy that a training draws."""

from functools import cache
from typing import Final

from app.pricing.gpus import specifications, variants_of

POWER_USAGE_EFFECTIVENESS: Final = 1.0
"""Energy of the building per energy of the machines; 1 counts the accelerators alone."""

_JOULES_PER_KWH: Final = 3.6e6


@cache
def _tdp_watts(gpu_type: str) -> float | None:
    watts = {specifications()[name].tdp_watts for name in variants_of(gpu_type)}
    return watts.pop() if len(watts) == 1 else None


def kilowatt_hours(gpu_type: str | None, workers: int, seconds: float) -> float | None:
    """Return the energy of the accelerators at their thermal design power, None if unknown.

    One worker drives one accelerator. It is an upper estimate: no accelerator draws more on
    average, most draw less.

    Examples
    --------
    >>> kilowatt_hours("T4", 10, 3600.0)
    0.7
    """
    watts = None if gpu_type is None else _tdp_watts(gpu_type)
    if watts is None:
        return None
    return watts * workers * seconds * POWER_USAGE_EFFECTIVENESS / _JOULES_PER_KWH
