"""Forecast distributions of work that is interrupted: spot capacity."""

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from app.domain.errors import SpotInfeasibleError
from app.domain.forecasts import SpotTerms
from app.pricing.spot import (
    MAX_FACTOR,
    Interruptions,
    completion,
    optimal_checkpoint_interval_s,
)
from models import FloatArray, ForecastDistribution

SpotRows = Mapping[int, tuple[SpotTerms, int]]
"""Rows on spot capacity: the terms asked for and the number of instances."""

_DEFAULTS = Interruptions()
_LARGEST_STEP = 0.5


def interruptions_of(terms: SpotTerms, instances: int) -> Interruptions:
    """Return the terms with the defaults filled in.

    The hazard is that of one instance: a job on n of them is interrupted n times as often.
    """
    per_hour = terms.interruptions_per_hour
    interval = terms.checkpoint_interval_s
    return Interruptions(
        per_hour=(_DEFAULTS.per_hour if per_hour is None else per_hour) * instances,
        checkpoint_interval_s=_DEFAULTS.checkpoint_interval_s if interval is None else interval,
        checkpoint_s=_DEFAULTS.checkpoint_s if terms.checkpoint_s is None else terms.checkpoint_s,
        restart_s=_DEFAULTS.restart_s if terms.restart_s is None else terms.restart_s,
    )


def with_interruptions(
    forecast: ForecastDistribution, rows: SpotRows
) -> tuple[ForecastDistribution, dict[int, SpotInfeasibleError]]:
    """Return the distributions with the expected interruptions, and the rows that cannot end.

    The completion time is taken as log-symmetric like the work. Its mean at the median of the
    work is exact; its log deviation joins that of the work, stretched by the elasticity of the
    mean (without checkpoints longer work suffers more than in proportion), with that of the
    interruptions.
    """
    log_median, scale = forecast.log_median.copy(), forecast.scale.copy()
    refusals: dict[int, SpotInfeasibleError] = {}
    groups: defaultdict[Interruptions, list[int]] = defaultdict(list)
    for row, (terms, instances) in rows.items():
        groups[interruptions_of(terms, instances)].append(row)
    for met, members in groups.items():
        chosen = np.array(members)
        work_s = np.exp(log_median[chosen])
        moments = completion(work_s, met)
        factors = moments.expected_s / work_s
        for row, factor, seconds in zip(members, factors.tolist(), work_s.tolist(), strict=True):
            if not factor <= MAX_FACTOR:
                refusals[row] = _refusal(met, factor, seconds)
        relative = moments.standard_deviation_s / moments.expected_s
        spread = np.log1p(np.minimum(relative, MAX_FACTOR) ** 2)
        stretched = _elasticity(work_s, scale[chosen], met) * scale[chosen]
        log_median[chosen] = np.log(moments.expected_s) - spread / 2
        scale[chosen] = np.sqrt(stretched**2 + spread)
    return ForecastDistribution(log_median, scale, forecast.regimes, forecast.curves), refusals


def _elasticity(work_s: FloatArray, scale: FloatArray, terms: Interruptions) -> FloatArray:
    """Return by how much the log mean grows with the log of the work, within [1, MAX_FACTOR]."""
    step = np.minimum(scale, _LARGEST_STEP)
    longer = completion(work_s * np.exp(step), terms).expected_s
    shorter = completion(work_s * np.exp(-step), terms).expected_s
    return np.clip(np.log(longer / shorter) / (2.0 * step), 1.0, MAX_FACTOR)


def _refusal(terms: Interruptions, factor: float, work_s: float) -> SpotInfeasibleError:
    interval = optimal_checkpoint_interval_s(terms)
    better = Interruptions(terms.per_hour, interval, terms.checkpoint_s, terms.restart_s)
    best = completion(np.array([work_s]), better).expected_s[0] / work_s
    would_do = math.isfinite(interval) and best <= MAX_FACTOR
    return SpotInfeasibleError(
        expected_factor=factor, checkpoint_interval_s=interval if would_do else None
    )
