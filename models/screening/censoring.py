"""Unfinished runs as lower bounds: estimates of the durations that they would have had."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.candidates import CANDIDATES, Setting
from models.evidence import UnfinishedRuns
from models.features.encoder import Encoder
from models.features.hardware import HardwareDescription
from models.reports import UnfinishedCounts
from models.runs.accidents import ACCIDENT_SD, ACCIDENT_SHARE, T_DOF
from models.runs.configurations import collapse, configuration_keys
from models.screening.refutation import is_outdone, is_surrounded
from models.tables import BoolArray, FloatArray, IntArray, RunTable

MIN_PROGRESS = 0.2
"""Below this share of the work, the start-up time dominates elapsed / progress."""

MIN_SURPRISE = 0.5
"""A bound is informative if the law gives a shorter run more than this probability."""

_MAX_SHARE_HUNG = 1 / 6
"""If more of all configurations than this seem to have hung, the law is wrong instead."""

_ITERATIONS = 3
_LAW = "scaling_law"


@dataclass(frozen=True, slots=True)
class Imputed:
    """Completed runs, followed by estimates of unfinished ones.

    `keys` are those of the configurations that have estimates only.
    """

    runs: RunTable
    keys: frozenset[str]
    counts: UnfinishedCounts


def impute(
    runs: RunTable,
    unfinished: UnfinishedRuns | None,
    hardware: Mapping[str, HardwareDescription] | None = None,
    *,
    seed: int = 0,
) -> Imputed:
    """Return the runs with estimates of the durations of unfinished ones, where informative.

    A run that was stopped after a known share p of its work would have taken ``elapsed / p``.
    Otherwise its log duration is known to exceed a bound c: it is replaced by its expectation
    ``m + s phi(a) / (1 - Phi(a))``, ``a = (c - m) / s``, under the law of the completed runs, and
    the law is fitted again with it, three times in all. A bound that the law exceeds anyway is not
    informative and left out, and so is a configuration that another run completed. So is a bound
    that the completed runs refute: a run that hangs exceeds any bound, with probability .01, one
    that does not exceeds it with the tail probability of Student's t around the law of the
    completed runs, with four degrees of freedom. It is taken to have hung if that is more probable,
    unless more than a sixth of all configurations would have. Where no completed run could show
    that memory overflows (`models.screening.refutation`), its scale is that of an accident.

    Parameters
    ----------
    runs, unfinished
        Completed runs, at least one, and stopped runs.
    hardware, seed
        As for `fit_portfolio`.

    References
    ----------
    Buckley and James (1979), Linear regression with censored data, Biometrika 66(3). Tobin (1958),
    Estimation of relationships for limited dependent variables, Econometrica 26(1).

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> size = np.array([1e3, 2e3, 4e3, 8e3])
    >>> table = RunTable(FeatureTable({"dataset_size": size}, {}, 4), size / 10, list("abcd"))
    >>> large = FeatureTable({"dataset_size": np.array([3.2e4])}, {}, 1)
    >>> stopped = UnfinishedRuns(large, np.array([6000.0]), np.array([np.nan]), ["e"])
    >>> imputed = impute(table, stopped)
    >>> bool(imputed.runs.duration_seconds[-1] > 6000), imputed.counts.as_bounds
    (True, 1)
    """
    if unfinished is None or not unfinished.n_runs:
        return Imputed(runs, frozenset(), UnfinishedCounts())
    keys = configuration_keys(unfinished.features)
    chosen = _best_runs(keys, unfinished, set(configuration_keys(runs.features)))
    if not len(chosen):
        return Imputed(runs, frozenset(), UnfinishedCounts(uninformative=unfinished.n_runs))
    stopped = unfinished.take(chosen)
    by_progress = stopped.progress >= MIN_PROGRESS
    logs, informative = _estimate(runs, stopped, by_progress, hardware, seed)
    kept = np.flatnonzero(by_progress | informative)
    n_by_progress = int(by_progress.sum())
    return Imputed(
        _with_estimates(runs, stopped.take(kept), np.exp(logs[kept])),
        frozenset(keys[chosen[row]] for row in kept),
        UnfinishedCounts(len(kept) - n_by_progress, n_by_progress, unfinished.n_runs - len(kept)),
    )


def _best_runs(keys: list[str], unfinished: UnfinishedRuns, completed: set[str]) -> IntArray:
    """Return the most informative run of each configuration: by progress, then by its bound.

    Progress below `MIN_PROGRESS` counts as unknown; among equal runs, the last by name is taken.
    """
    progress = np.where(unfinished.progress >= MIN_PROGRESS, unfinished.progress, -1.0)
    order = np.lexsort((np.array(unfinished.run_ids), unfinished.elapsed_seconds, progress))
    best = {keys[row]: int(row) for row in order if keys[row] not in completed}
    return np.array([best[key] for key in sorted(best)], dtype=np.int64)


def _estimate(
    runs: RunTable,
    stopped: UnfinishedRuns,
    by_progress: BoolArray,
    hardware: Mapping[str, HardwareDescription] | None,
    seed: int,
) -> tuple[FloatArray, BoolArray]:
    """Return expected log durations, and which runs are used: by progress or informative bound."""
    from scipy import special  # noqa: PLC0415 - heavy, and only fits need it

    completed = collapse(runs)
    encoder = Encoder.learn(completed.features.above(stopped.features), hardware)
    X, X_stopped = (
        encoder.encode(features).X for features in (completed.features, stopped.features)
    )
    noise = completed.noise_variance
    setting = Setting(encoder.layout, noise**0.5, completed.noise_dof, seed)
    bounds = np.log(stopped.elapsed_seconds)
    logs = np.where(by_progress, bounds - np.log(np.maximum(stopped.progress, 1e-9)), bounds)
    used, hung = by_progress.copy(), np.zeros(len(bounds), dtype=np.bool_)
    for iteration in range(_ITERATIONS):
        law = CANDIDATES[_LAW](setting).fit(
            np.vstack([X, X_stopped[used]]),
            np.concatenate([completed.log_duration, logs[used]]),
            np.concatenate([completed.counts, np.ones(int(used.sum()))]),
        )
        mean, variance = law.predict_moments(X_stopped)
        scale = np.sqrt((0.0 if variance is None else variance) + noise + 1e-6)
        z = (bounds - mean) / scale
        if iteration == 0:
            is_alone = ~is_surrounded(encoder.layout, X_stopped, X)
            is_alone |= ~is_outdone(encoder.layout, X_stopped, X)
            widened = np.hypot(scale, np.where(is_alone, ACCIDENT_SD, 0.0))
            hung = _hung((bounds - mean) / widened, by_progress, len(X))
        expected = mean + scale * _hazard(z)
        logs = np.where(by_progress, logs, expected)
        used = by_progress | ((special.ndtr(z) > MIN_SURPRISE) & ~hung)
    return logs, used


def _hung(z: FloatArray, by_progress: BoolArray, n_completed: int) -> BoolArray:
    """Return which bounds, in deviations from the law of the completed runs, these refute."""
    from scipy import special  # noqa: PLC0415 - heavy, and only fits need it

    log_odds = np.log(ACCIDENT_SHARE / (1 - ACCIDENT_SHARE)) - np.log(special.stdtr(T_DOF, -z))
    hung: BoolArray = ~by_progress & (log_odds > 0)
    most = max(1.0, _MAX_SHARE_HUNG * (n_completed + len(z)))
    return hung if hung.sum() <= most else np.zeros(len(z), dtype=np.bool_)


def _hazard(z: FloatArray) -> FloatArray:
    """Return ``phi / (1 - Phi)`` of the standard normal without underflow.

    Examples
    --------
    >>> _hazard(np.array([0.0, 40.0])).round(2).tolist()
    [0.8, 40.02]
    """
    from scipy import special  # noqa: PLC0415 - heavy, and only fits need it

    log_density = -0.5 * z**2 - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.exp(log_density - special.log_ndtr(-z)), dtype=np.float64)


def _with_estimates(runs: RunTable, stopped: UnfinishedRuns, seconds: FloatArray) -> RunTable:
    return RunTable(
        runs.features.above(stopped.features),
        np.concatenate([runs.duration_seconds, seconds]),
        [*runs.run_ids, *stopped.run_ids],
    )
