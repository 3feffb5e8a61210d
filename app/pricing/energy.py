"""An estimate of the energy that a training uses."""

from collections.abc import Mapping
from functools import cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from app.domain.energy import EnergyTerms, MeasuredPower, PowerDraw
from app.pricing.gpus import specifications, variants_of

_JOULES_PER_KWH: Final = 3.6e6
Figure = TypeVar("Figure", float, npt.NDArray[np.float64])
MeasuredPowers = Mapping[tuple[str | None, str | None], MeasuredPower]
"""Measurements of runs, keyed by GPU type, or by instance type for runs without a GPU type.

The other part of the key is None; of both, for all runs without a GPU type.
"""


@cache
def _design_watts(gpu_type: str) -> float | None:
    """Return the largest design power of the boards that a name may mean, an upper estimate."""
    watts = (specifications()[name].tdp_watts for name in variants_of(gpu_type))
    return max((power for power in watts if power is not None), default=None)


def power_draw(
    gpu_type: str | None,
    terms: EnergyTerms,
    measured: MeasuredPowers,
    *,
    instance_type: str | None = None,
) -> PowerDraw | None:
    """Return the mean power of a worker from the best available source, None without any.

    In this order: a given power; unless a utilisation is given, the power that the workload's runs
    measured on the GPU type, or if they name none, on its instance type; the design power times the
    given or measured utilisation; the design power alone. The last is an upper estimate: no
    accelerator draws more on average, most draw less. Without a GPU type, runs on the instance type
    count, or if none measured it, all runs without a GPU type.

    Examples
    --------
    >>> power_draw("T4", EnergyTerms(utilization=0.5), {})
    PowerDraw(watts=35.0, basis='utilization')
    """
    if terms.watts_per_worker is not None:
        return PowerDraw(terms.watts_per_worker, "given")
    found = _measurements(gpu_type, instance_type, measured)
    watts = next((one.watts for one in found if one.watts is not None), None)
    if terms.utilization is None and watts is not None:
        return PowerDraw(watts, "measured")
    design = None if gpu_type is None else _design_watts(gpu_type)
    if design is None:
        return None
    utilization = terms.utilization
    if utilization is None:
        shares = (one.utilization for one in found if one.utilization is not None)
        utilization = next(shares, None)
    if utilization is None:
        return PowerDraw(design, "data_sheet")
    return PowerDraw(design * utilization, "utilization")


def _measurements(
    gpu_type: str | None, instance_type: str | None, measured: MeasuredPowers
) -> list[MeasuredPower]:
    """Return what runs measured on hardware, what says most about it first."""
    of_gpu = measured.get((gpu_type, None))
    of_instance = None if instance_type is None else measured.get((None, instance_type))
    in_order = (of_instance, of_gpu) if gpu_type is None else (of_gpu, of_instance)
    return [measurement for measurement in in_order if measurement is not None]


def kilowatt_hours(
    watts: Figure, workers: Figure, seconds: Figure, power_usage_effectiveness: Figure
) -> Figure:
    """Return the energy of all workers and of the building around them, for one or many rows.

    Parameters
    ----------
    watts
        Power of a worker.
    workers, seconds, power_usage_effectiveness
        Number of workers, duration, and energy of the building per energy of the workers.

    Examples
    --------
    >>> kilowatt_hours(70.0, 10, 3600.0, 1.5)
    1.05
    """
    joules = watts * workers * seconds
    return joules * power_usage_effectiveness / _JOULES_PER_KWH
