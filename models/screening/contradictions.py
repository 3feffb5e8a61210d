"""Two repetitions that contradict each other: which of them the other configurations support."""

from dataclasses import replace

import numpy as np

from models.features.encoder import Encoder
from models.laws.scaling_laws import random_subset
from models.numerics.log_grid import on_log_grid
from models.processes.gaussian import GaussianProcess
from models.reports import Outlier
from models.runs.accidents import accident_log_odds, probability
from models.runs.configurations import Configurations
from models.runs.outliers import farthest
from models.tables import FloatArray, RunTable

_ODDS_OF_SLOWER, _MIN_NOISE = 3.0, 0.02
"""Prior odds that the slower run had the accident, and the least deviation of repetitions."""

_MAX_OTHERS = 100
"""Most other configurations that are used to judge one."""


def settle_pairs(configurations: Configurations, encoder: Encoder, seed: int) -> Configurations:
    r"""Return the configurations with contradicting pairs moved to the more plausible run.

    One run of such a pair had an accident (`Configurations.contradicted`). Let m and v be the mean
    and variance that a process around a power law, fitted to all other configurations, forecasts
    for this one. Deviations from m are distributed as with an accident for the run that had it, and
    as without one for the other (`models.runs.accidents`). The prior odds that the slower run had
    it are 3 to 1, since disturbances rarely speed up a run. With p the probability that it did, the
    configuration is moved to the expectation of the sound run, and counts as
    ``s^2 / (s^2 + p (1 - p) d^2)`` runs, with d the log ratio of the two and s^2 the variance of
    repetitions: one if there is no doubt.

    Parameters
    ----------
    configurations
        The configurations from `collapse`.
    encoder
        The encoder learned from their features.
    seed
        Seed for the choice of a subset of large sets.

    References
    ----------
    Box and Tiao (1968), A Bayesian approach to some outlier problems, Biometrika 55(1), 119-129.
    Chen and Revels (2016), Robust benchmarking in noisy environments, arXiv:1608.04295:
    disturbances of a measurement add time.

    Examples
    --------
    >>> from models.runs.configurations import collapse
    >>> from models.tables import FeatureTable
    >>> size = np.repeat(np.geomspace(1e3, 1e5, 8), 2)
    >>> seconds = size / 10 * np.where(np.arange(16) == 7, 8.0, 1.0) * np.tile([0.99, 1.01], 8)
    >>> features = FeatureTable({"dataset_size": size}, {}, 16)
    >>> runs = RunTable(features, seconds, list("abcdefghijklmnop"))
    >>> measured = collapse(runs)
    >>> settled = settle_pairs(measured, Encoder.learn(measured.features), 0)
    >>> [(outlier.run_id, outlier.beside) for outlier in name_contradicted(runs, measured, settled)]
    [('h', 'g')]
    """
    contradicted = configurations.contradicted
    if not contradicted.any():
        return configurations
    gap = np.diff(configurations.ranges[contradicted]).ravel()
    deviation, variance = _compare(configurations, encoder, seed)
    odds = accident_log_odds(deviation + gap / 2, variance) - accident_log_odds(
        deviation - gap / 2, variance
    )
    is_slower = probability(odds + np.log(_ODDS_OF_SLOWER))
    logs, counts = configurations.log_duration.copy(), configurations.counts.copy()
    # On the grid of log durations, so that the unit does not matter.
    logs[contradicted] -= on_log_grid((is_slower - 0.5) * gap)
    noise = np.maximum(configurations.noise_variances[contradicted], _MIN_NOISE**2)
    counts[contradicted] = noise / (noise + is_slower * (1 - is_slower) * gap**2)
    return replace(configurations, log_duration=logs, counts=counts)


def _compare(
    configurations: Configurations, encoder: Encoder, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return how far contradicting pairs are from the forecast by others, and its variance."""
    contradicted, logs = configurations.contradicted, configurations.log_duration
    others = np.flatnonzero(~contradicted)
    if not len(others):
        return np.zeros(int(contradicted.sum())), np.ones(int(contradicted.sum()))
    subset = others[random_subset(len(others), _MAX_OTHERS, seed)]
    X, center = encoder.encode(configurations.features).X, np.median(logs[subset])
    process = GaussianProcess(
        encoder.layout,
        noise_sd=configurations.noise_variance**0.5,
        noise_dof=configurations.noise_dof,
        seed=seed,
    )
    process.fit(X[subset], logs[subset] - center, configurations.counts[subset])
    mean, variance = process.predict_moments(X[contradicted])
    assert variance is not None
    return logs[contradicted] - center - mean, variance


def name_contradicted(
    runs: RunTable, measured: Configurations, settled: Configurations
) -> tuple[Outlier, ...]:
    """Return the runs that `settle_pairs` rejected, the farthest first.

    The ratio is that of the run's duration to the other run's of the pair.
    """
    group = measured.group[: runs.n_runs]
    logs = np.log(runs.duration_seconds)
    outliers = []
    for row in np.flatnonzero(measured.contradicted):
        rows = np.flatnonzero(group == row)
        # A pair may include an estimate of an unfinished run, which is not named.
        if len(rows) == 2:  # noqa: PLR2004 - a pair
            kept, rejected = rows[np.argsort(np.abs(logs[rows] - settled.log_duration[row]))]
            ratio = float(f"{np.exp(logs[rejected] - logs[kept]):.6g}")
            outliers.append(Outlier(runs.run_ids[rejected], ratio, measured.run_ids[row][0]))
    return farthest(outliers)
