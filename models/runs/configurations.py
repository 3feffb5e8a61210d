"""Runs collapsed to distinct configurations: robust means, noise, stable keys, fingerprint."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.features.ordering import numeric_columns, structural_keys
from models.numerics.log_grid import LOG_GRID, on_log_grid
from models.numerics.robust_scale import robust_sd
from models.runs.accidents import accident_probability
from models.runs.jitter import Jitter, find_jitter
from models.runs.noise_tails import NoiseTails, single_run_deviations
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray, RunTable

MAX_NAMED_RUNS = 3
"""How many runs of one configuration an artefact remembers by name."""

_PAIR, _MIN_REPEATED, _MIN_TO_ONE = 2, 3, 6
"""Runs of a pair, fewest repeated configurations for a deviation, and those per contradiction."""

_MIN_SCALE, _UNKNOWN_SCALE, _MIN_PROBABILITY = 0.02, 0.1, 0.5
"""Least deviation of repetitions, that of too few, and least probability of an accident."""

UNBOUNDED = 1e3
"""Stands for no bound: no log duration is as large."""


@dataclass(frozen=True, slots=True)
class Configurations:
    """Distinct configurations, in an order that depends on their content alone.

    Parameters
    ----------
    features
        One row per configuration.
    log_duration
        Robust mean of the log seconds of its runs, shape (n,).
    counts
        Runs of each configuration, shape (n,).
    keys
        Hash of the features, names included, independent of the order of rows and columns.
    structure
        Hash of the features that does not change when levels are renamed
        (`models.features.ordering`), ascending.
    run_ids
        Up to three runs of each configuration.
    ranges
        Least and largest log duration of its runs, shape (n, 2); -1000 and 1000 for a single run.
    group
        Configuration of each run, shape (n_runs,).
    noise_variance, noise_dof
        Pooled variance of the log duration within configurations and its degrees of freedom
        (0 and 0 without repetitions); contradicting pairs do not count.
    contradicted
        Whether its two runs contradict each other, shape (n,): an accident of one of them is a more
        probable reason for their difference than noise (`models.runs.accidents`).
    jitter
        How that variance depends on the duration, None where it is the same for all.
    noise_tails
        The tails of the noise of runs, None where they are no heavier than normal.
    """

    features: FeatureTable
    log_duration: FloatArray
    counts: FloatArray
    keys: tuple[str, ...]
    structure: tuple[str, ...]
    run_ids: tuple[tuple[str, ...], ...]
    ranges: FloatArray
    group: IntArray
    noise_variance: float
    noise_dof: int
    contradicted: BoolArray
    jitter: Jitter | None = None
    noise_tails: NoiseTails | None = None

    @property
    def noise_variances(self) -> FloatArray:
        """Variance of the log duration of one run of each configuration, shape (n,)."""
        return self.noise_variance * self.spreads**2

    @property
    def spreads(self) -> FloatArray:
        """Standard deviation of one run of each configuration over the pooled one, shape (n,)."""
        if self.jitter is None:
            return np.ones(len(self.counts))
        return np.sqrt(self.jitter.factor(self.log_duration))


def configuration_keys(features: FeatureTable) -> list[str]:
    """Return a hash (32 hex digits) of the known values of each row; missing ones do not count.

    Examples
    --------
    >>> one = FeatureTable({"workers": np.array([2.0])}, {"gpu_type": ["T4"]}, 1)
    >>> two = FeatureTable({"nodes": np.array([np.nan]), **one.numeric}, one.categorical, 1)
    >>> configuration_keys(one) == configuration_keys(two)
    True
    """
    numeric = [(name, features.numeric[name].tolist()) for name in sorted(features.numeric)]
    categorical = [(name, features.categorical[name]) for name in sorted(features.categorical)]
    keys = []
    for row in range(features.n_rows):
        known: list[tuple[str, float | str | None]] = [
            # Adding 0.0 makes -0.0 and 0.0 the same configuration.
            (name, values[row] + 0.0)
            for name, values in numeric
            if not math.isnan(values[row])
        ]
        known += [(name, levels[row]) for name, levels in categorical if levels[row] is not None]
        keys.append(hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32])
    return keys


def collapse(runs: RunTable) -> Configurations:
    """Collapse repetitions of a configuration to one row.

    The log duration of three or more repetitions is their Huber-weighted mean, with weights
    ``1 / max(1, |y - median| / 2s)`` and ``s = 1.4826 MAD``, so that an outlier counts less.

    References
    ----------
    Huber (1964), Robust estimation of a location parameter, Ann. Math. Statist. 35(1), 73-101.

    Examples
    --------
    >>> features = FeatureTable({"workers": np.array([1.0, 2.0, 1.0])}, {}, 3)
    >>> table = collapse(RunTable(features, np.array([100.0, 60.0, 100.0]), ["a", "b", "c"]))
    >>> sorted(table.counts.tolist()), table.noise_dof
    ([1.0, 2.0], 1)
    """
    first, group = _distinct_rows(runs.features)
    center, logs = _on_grid(np.log(runs.duration_seconds))
    # Runs of a configuration are sorted by duration: their order in the upload does not matter.
    by_group = np.lexsort((logs, group))
    parts = np.split(by_group, np.flatnonzero(np.diff(group[by_group])) + 1)
    robust = [_robust_mean(logs[rows]) for rows in parts]
    means = np.array([mean for mean, _ in robust])
    distinct = runs.features.take(first)
    structure = structural_keys(distinct, means)
    order = np.argsort(structure, kind="stable")
    log_duration = center + on_log_grid(means)
    jitter = _find_jitter(log_duration, logs, parts, order)
    raw_deviations = [logs[parts[index]] - means[index] for index in order]
    contradicted, standardised = _contradicted(raw_deviations), raw_deviations
    if jitter is not None:
        # Jitter can only clear pairs, never add contradicting ones.
        spreads = np.sqrt(jitter.factor(log_duration[order])).tolist()
        standardised = [row / spread for row, spread in zip(raw_deviations, spreads, strict=True)]
        contradicted &= _contradicted(standardised)
    deviations = [
        np.clip(logs[parts[index]] - means[index], -3 * robust[index][1], 3 * robust[index][1])
        for index in order[~contradicted]
    ]
    pooled = np.concatenate([np.zeros(0), *deviations])
    dof = len(pooled) - len(deviations)
    noise_variance = float(pooled @ pooled) / dof if dof else 0.0
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    ordered_features = distinct.take(order)
    return Configurations(
        ordered_features,
        log_duration[order],
        np.array([len(parts[index]) for index in order], dtype=np.float64),
        tuple(configuration_keys(ordered_features)),
        tuple(structure[index] for index in order),
        tuple(
            tuple(sorted(runs.run_ids[row] for row in parts[index])[:MAX_NAMED_RUNS])
            for index in order
        ),
        _ranges(runs.duration_seconds, [parts[index] for index in order]),
        position[group],
        noise_variance,
        dof,
        contradicted,
        jitter.scaled_to(noise_variance) if jitter is not None and noise_variance else None,
        NoiseTails.learn(
            single_run_deviations([standardised[row] for row in np.flatnonzero(~contradicted)]),
            noise_variance**0.5,
        ),
    )


def _find_jitter(
    log_duration: FloatArray, logs: FloatArray, parts: Sequence[IntArray], order: IntArray
) -> Jitter | None:
    """Return the jitter of repetitions, taken in the order of the configurations."""
    repeated = [index for index in order.tolist() if len(parts[index]) > 1]
    variances = np.array([float(logs[parts[index]].var(ddof=1)) for index in repeated])
    dof = np.array([len(parts[index]) - 1.0 for index in repeated])
    return find_jitter(log_duration[repeated], variances, dof)


def _contradicted(deviations: Sequence[FloatArray]) -> BoolArray:
    """Return which configurations are pairs of runs that contradict each other, given deviations.

    If they exceed a sixth of the repeated configurations, none count: noise is then that large.
    """
    contradicted = np.zeros(len(deviations), dtype=np.bool_)
    pairs = [row for row, runs in enumerate(deviations) if len(runs) == _PAIR]
    if not pairs:
        return contradicted
    repeated = [runs for runs in deviations if len(runs) > 1]
    scale = _UNKNOWN_SCALE
    if len(repeated) >= _MIN_REPEATED:
        scale = max(robust_sd(single_run_deviations(repeated)), _MIN_SCALE)
    gaps = np.array([np.ptp(deviations[row]) for row in pairs])
    is_contradicted = (
        accident_probability(gaps, np.full(len(pairs), 2 * scale**2)) > _MIN_PROBABILITY
    )
    if is_contradicted.sum() <= max(len(repeated) // _MIN_TO_ONE, 1):
        contradicted[pairs] = is_contradicted
    return contradicted


def _ranges(seconds: FloatArray, parts: Sequence[IntArray]) -> FloatArray:
    """Return the range of the log durations of each configuration, narrowed by a grain."""
    ranges = np.tile([-UNBOUNDED, UNBOUNDED], (len(parts), 1))
    for row, rows in enumerate(parts):
        if len(rows) > 1:
            low, high = float(np.log(seconds[rows].min())), float(np.log(seconds[rows].max()))
            grain = min(2 * LOG_GRID, (high - low) / 4)
            ranges[row] = low + grain, high - grain
    return ranges


def _on_grid(logs: FloatArray) -> tuple[float, FloatArray]:
    """Return a centre and the logs relative to it, both multiples of the grid."""
    center = float(np.median(logs))
    return float(on_log_grid(np.array(center))), on_log_grid(logs - center)


def _distinct_rows(features: FeatureTable) -> tuple[IntArray, IntArray]:
    columns = numeric_columns(features)
    for name in sorted(features.categorical):
        code_of = {
            level: code for code, level in enumerate(dict.fromkeys(features.categorical[name]))
        }
        columns.append(
            np.array([code_of[level] for level in features.categorical[name]], dtype=float)
        )
    if not columns:
        return np.zeros(1, dtype=np.int64), np.zeros(features.n_rows, dtype=np.int64)
    _, first, inverse = np.unique(
        np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True
    )
    return first, inverse.ravel()


def _robust_mean(logs: FloatArray) -> tuple[float, float]:
    """Return the Huber-weighted mean and a robust scale (infinite below three values)."""
    if len(logs) == 1:
        return float(logs[0]), np.inf
    if len(logs) < 3:  # noqa: PLR2004 - two values have no outlier
        return float(logs.mean()), np.inf
    deviation = np.abs(logs - np.median(logs))
    scale = max(robust_sd(deviation), 1e-6)
    weights = 1 / np.maximum(1.0, deviation / (2 * scale))
    return float(weights @ logs / weights.sum()), scale


def fingerprint(runs: RunTable, configurations: Configurations) -> str:
    """Return the SHA-256 (hex) of the runs, the same for any order of rows and columns."""
    pairs = zip(configurations.group.tolist(), runs.duration_seconds.tolist(), strict=True)
    lines = sorted(f"{configurations.keys[row]} {duration!r}" for row, duration in pairs)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
