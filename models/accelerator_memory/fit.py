"""Fit of the memory law: from measured peaks and outcomes of runs to posterior draws."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.accelerator_memory.features import (
    MemoryFeatures,
    MemoryRows,
    capacity_codes,
    capacity_names,
)
from models.accelerator_memory.law import MemoryLaw
from models.accelerator_memory.parameters import (
    GIB,
    Parameters,
    error_log_density,
    error_probability,
    prior_of,
)
from models.accelerator_memory.posterior import sample_posterior, stratified_choice
from models.evidence import MemoryRuns
from models.features.hardware import HardwareDescription
from models.reports import MemoryCounts
from models.tables import BoolArray, FloatArray, IntArray

MAX_ROWS = 300
"""More distinct outcomes and peaks than this add cost and almost no information."""

N_DRAWS = 64
"""Draws kept in an artefact; see `models.accelerator_memory.posterior.stratified_choice`."""

_LAPSE = 0.01
"""Share of outcomes that have another cause than memory."""

_FARTHEST = 100.0
"""Greatest distance of a parameter from its prior's mean, in deviations: log density -5000.

The sampler proposes points beyond where the posterior is a narrow ridge. They are refused, but some
overflow."""


def fit_memory_law(
    runs: MemoryRuns, hardware: Mapping[str, HardwareDescription] | None = None, *, seed: int = 0
) -> MemoryLaw | None:
    """Fit the memory law, or return None if the runs say nothing about memory.

    A run that succeeded without a measured peak is informative only if the memory of its GPU is
    known, or if another run measured a peak or ran out of memory.

    Parameters
    ----------
    runs
        Runs with measured peaks, that ran out of memory, or that succeeded.
    hardware
        Data sheets by GPU type; the memory of any other type is estimated.
    seed
        Seed of the draws; equal runs and seed give equal draws, in any row order.

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> batch = np.array([8.0, 16.0, 32.0])
    >>> features = FeatureTable({"batch_size": batch}, {"gpu_type": ["mine"] * 3}, 3)
    >>> outcome = np.array([False, False, True])
    >>> law = fit_memory_law(MemoryRuns(features, outcome, np.full(3, np.nan)))
    >>> query = FeatureTable({"batch_size": np.array([8.0, 64.0])}, {"gpu_type": ["mine"] * 2}, 2)
    >>> probability = law.feasibility(query).probability
    >>> bool(probability[0] > 0.8), bool(probability[1] < 0.2)
    (True, True)
    """
    if not runs.n_runs:
        return None
    capacities = {
        name: float(np.log(sheet.memory_gib * GIB))
        for name, sheet in (hardware or {}).items()
        if sheet.memory_gib is not None
    }
    features = MemoryFeatures.learn(runs.features, _use(runs))
    names = capacity_names(runs.features)
    rows = features.rows(runs.features)
    is_informative = ~np.isnan(rows.log_batch)
    tested = ~np.isnan(runs.peak_bytes) | runs.is_out_of_memory
    if not (is_informative & tested).any():
        is_informative &= np.array([name in capacities for name in names], dtype=np.bool_)
    if not is_informative.any():
        return None
    informative_names = [
        name for name, is_kept in zip(names, is_informative, strict=True) if is_kept
    ]
    latent, codes = capacity_codes(informative_names, capacities)
    known = np.array([capacities.get(name, 0.0) for name in informative_names])
    observations = _distinct(_take(rows, is_informative), runs, is_informative, codes, known)
    means, sds = prior_of(features, len(latent))

    def log_density(z: FloatArray) -> FloatArray:
        within = np.clip(z, -_FARTHEST, _FARTHEST)
        parameters = Parameters.of(means + sds * within, features, len(latent))
        density: FloatArray = observations.log_likelihood(parameters) - 0.5 * (z**2).sum(axis=1)
        return density

    draws = means + sds * sample_posterior(log_density, len(means), seed)
    margins = observations.margins(Parameters.of(draws, features, len(latent)))
    draws = draws[stratified_choice(margins, N_DRAWS, seed)]
    return MemoryLaw(features, capacities, tuple(latent), draws, _counts(runs, is_informative))


def _use(runs: MemoryRuns) -> FloatArray:
    """Return a rank of each run by the memory that it took, NaN where nobody knows.

    Runs out of memory come last. A success without a peak is known to have taken less than these
    only if no run measured a peak.
    """
    measured = ~np.isnan(runs.peak_bytes) & ~runs.is_out_of_memory
    use = np.where(measured, runs.peak_bytes, np.nan if measured.any() else 0.0)
    use[runs.is_out_of_memory] = np.inf
    return use


@dataclass(frozen=True, slots=True)
class _Observations:
    """Distinct rows: log peaks (NaN unless measured), outcomes, memory."""

    rows: MemoryRows
    log_peak: FloatArray
    is_out: BoolArray
    known: FloatArray
    codes: IntArray

    def margins(self, parameters: Parameters) -> FloatArray:
        """Return the log margin of each peak below the limit by draw, shape (n_draws, n_rows)."""
        return parameters.limits(self.known, self.codes) - parameters.peaks(self.rows)

    def log_likelihood(self, parameters: Parameters) -> FloatArray:
        """Return the log likelihood of each draw, shape (n_draws,)."""
        peaks = parameters.peaks(self.rows)
        limits = parameters.limits(self.known, self.codes)
        has_peak = ~np.isnan(self.log_peak) & ~self.is_out
        margins = limits - peaks
        # A measured peak stays below the memory, whatever the law says.
        margins[:, has_peak] = limits[:, has_peak] - self.log_peak[has_peak]
        margins /= parameters.outcome_scale()
        margins[:, self.is_out] *= -1
        probability = _LAPSE / 2 + (1 - _LAPSE) * error_probability(margins)
        errors = (self.log_peak[has_peak] - peaks[:, has_peak]) / parameters.sigma[:, None]
        peak_log_density = error_log_density(errors).sum(axis=1) - errors.shape[1] * np.log(
            parameters.sigma
        )
        return np.asarray(peak_log_density + np.log(probability).sum(axis=1), dtype=np.float64)


def _distinct(
    rows: MemoryRows,
    runs: MemoryRuns,
    is_informative: BoolArray,
    codes: IntArray,
    known: FloatArray,
) -> _Observations:
    """Return the distinct rows: repetitions share the law's misfit and tell nothing about it."""
    peaks = np.log(runs.peak_bytes[is_informative])
    is_out = runs.is_out_of_memory[is_informative]
    sizes = np.column_stack([rows.log_batch, rows.log_workers, rows.parameters])
    columns = np.column_stack([is_out, codes, known, sizes, rows.levels])
    keys = np.column_stack([columns, ~np.isnan(peaks)]).round(9) + 0.0
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    median = np.array([np.median(peaks[inverse.ravel() == group]) for group in range(len(first))])
    thinned = _thin(is_out[first])
    kept = first[thinned]
    return _Observations(_take(rows, kept), median[thinned], is_out[kept], known[kept], codes[kept])


def _thin(is_out: BoolArray) -> IntArray:
    """Return evenly spaced positions: at most half for runs out of memory, the rest for others."""
    order = np.argsort(~is_out, kind="stable")
    n_out = int(is_out.sum())
    failures = order[:n_out][:: max(1, -(-n_out // (MAX_ROWS // 2)))]
    others = order[n_out:]
    max_others = MAX_ROWS - len(failures)
    return np.concatenate([failures, others[:: max(1, -(-len(others) // max_others))]])


def _take(rows: MemoryRows, chosen: IntArray | BoolArray) -> MemoryRows:
    return MemoryRows(
        rows.log_batch[chosen],
        rows.log_workers[chosen],
        rows.parameters[chosen],
        rows.levels[chosen],
        rows.unseen[chosen],
        rows.n_unseen[chosen],
    )


def _counts(runs: MemoryRuns, is_informative: BoolArray) -> MemoryCounts:
    out = runs.is_out_of_memory & is_informative
    measured = ~np.isnan(runs.peak_bytes) & is_informative & ~out
    return MemoryCounts(
        int(measured.sum()), int(out.sum()), int((is_informative & ~out & ~measured).sum())
    )
