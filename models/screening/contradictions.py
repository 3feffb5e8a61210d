"""Two repetitions that contradict each other: which of them the other configurations believe."""

from dataclasses import replace

import numpy as np

from models.features.encoder import Encoder
from models.laws.scaling_laws import spread_subset
from models.numerics.log_grid import on_log_grid
from models.processes.gaussian import GaussianProcess
from models.reports import Outlier
from models.runs.accidents import accident_log_odds, probability
from models.runs.configurations import Configurations
from models.runs.outliers import farthest
from models.tables import FloatArray, RunTable

_ODDS_OF_SLOWER, _LEAST_NOISE = 3.0, 0.02
"""Prior odds that the slower run is the odd one, and the least deviation of repetitions."""

_MOST_TOLD = 100
"""As many other configurations tell enough of one."""


def settle_pairs(configurations: Configurations, encoder: Encoder, seed: int) -> Configurations:
    r"""Return the configurations with contradicting pairs moved to the run that is believed.

    Something went wrong with one run of such a pair (`Configurations.contradicted`). With m and v
    what a process around a power law says of the configuration from all others, either run is the
    odd one: its deviation from m is one of accidents, the other's one of runs without
    (`models.runs.accidents`). Beforehand the slower one is with odds of 3 to 1, since what disturbs
    a run rarely speeds it up. With p the probability that the slower one is, the configuration is
    moved to the expectation of the other run, and counts as ``s^2 / (s^2 + p (1 - p) d^2)`` runs,
    d the log ratio of the two and s^2 the variance of repetitions: one if there is no doubt.

    Parameters
    ----------
    configurations
        What `collapse` made of the runs.
    encoder
        As learned from their features.
    seed
        Chooses the subset of large sets.

    References
    ----------
    Box and Tiao (1968), A Bayesian approach to some outlier problems, Biometrika 55(1), 119-129.
    Chen and Revels (2016), Robust benchmarking in noisy environments, arXiv:1608.04295: what
    disturbs a measurement adds time.

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
    >>> [(each.run_id, each.beside) for each in name_contradicted(runs, measured, settled)]
    [('h', 'g')]
    """
    torn = configurations.contradicted
    if not torn.any():
        return configurations
    gap = np.diff(configurations.ranges[torn]).ravel()
    off, variance = _compare(configurations, encoder, seed)
    odds = accident_log_odds(off + gap / 2, variance) - accident_log_odds(off - gap / 2, variance)
    is_slower = probability(odds + np.log(_ODDS_OF_SLOWER))
    logs, counts = configurations.log_duration.copy(), configurations.counts.copy()
    # On the grid of log durations, whatever the unit.
    logs[torn] -= on_log_grid((is_slower - 0.5) * gap)
    noise = np.maximum(configurations.noise_variances[torn], _LEAST_NOISE**2)
    counts[torn] = noise / (noise + is_slower * (1 - is_slower) * gap**2)
    return replace(configurations, log_duration=logs, counts=counts)


def _compare(
    configurations: Configurations, encoder: Encoder, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return how far contradicting pairs are from what others say of them, and its variance."""
    torn, logs = configurations.contradicted, configurations.log_duration
    others = np.flatnonzero(~torn)
    if not len(others):
        return np.zeros(int(torn.sum())), np.ones(int(torn.sum()))
    told = others[spread_subset(len(others), _MOST_TOLD, seed)]
    X, center = encoder.encode(configurations.features).X, np.median(logs[told])
    process = GaussianProcess(
        encoder.layout,
        noise_sd=configurations.noise_variance**0.5,
        noise_dof=configurations.noise_dof,
        seed=seed,
    )
    process.fit(X[told], logs[told] - center, configurations.counts[told])
    mean, variance = process.predict_moments(X[torn])
    assert variance is not None
    return logs[torn] - center - mean, variance


def name_contradicted(
    runs: RunTable, measured: Configurations, settled: Configurations
) -> tuple[Outlier, ...]:
    """Return the runs that `settle_pairs` did not believe, the farthest first.

    Their ratio is their duration over that of the other run of the pair.
    """
    group = measured.group[: runs.n_runs]
    logs = np.log(runs.duration_seconds)
    found = []
    for row in np.flatnonzero(measured.contradicted):
        rows = np.flatnonzero(group == row)
        # An estimate of an unfinished run is nobody's duration.
        if len(rows) == 2:  # noqa: PLR2004 - a pair
            kept, odd = rows[np.argsort(np.abs(logs[rows] - settled.log_duration[row]))]
            ratio = float(f"{np.exp(logs[odd] - logs[kept]):.6g}")
            found.append(Outlier(runs.run_ids[odd], ratio, measured.run_ids[row][0]))
    return farthest(found)
