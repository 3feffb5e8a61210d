"""Runs far from the repetitions of their configuration, which count less: found and named."""

from collections.abc import Iterable

import numpy as np

from models.numerics.robust_scale import robust_sd
from models.reports import Outlier
from models.runs.configurations import Configurations
from models.tables import RunTable

MAX_NAMED = 50
MIN_REPETITIONS = 3

_SCALES, _MIN_DEVIATION = 5.0, 0.1
"""Robust deviations, and log units, beyond which a run is far."""


def find_outliers(runs: RunTable, configurations: Configurations) -> tuple[Outlier, ...]:
    """Return the runs far from the median of three or more repetitions, the farthest first.

    Far means beyond .1 log units and beyond 5 robust standard deviations, both of the
    configuration's own repetitions and of all repetitions, allowing for the larger noise of short
    runs (`models.runs.jitter`). At most 50 are named. `collapse` sets their weight in the fit.

    Parameters
    ----------
    runs, configurations
        The runs and what `collapse` made of them.

    References
    ----------
    Leys et al. (2013), Detecting outliers: use absolute deviation around the median, J. Exp. Soc.
    Psychol. 49(4).

    Examples
    --------
    >>> from models.runs.configurations import collapse
    >>> from models.tables import FeatureTable
    >>> seconds = np.array([10.0, 10.1, 9.9, 10.0, 30.0])
    >>> table = RunTable(FeatureTable({"workers": np.ones(5)}, {}, 5), seconds, list("abcde"))
    >>> [(outlier.run_id, outlier.ratio) for outlier in find_outliers(table, collapse(table))]
    [('e', 3.0)]
    """
    if configurations.counts.max() < MIN_REPETITIONS:
        return ()
    # Estimates of unfinished runs come after the completed runs.
    group = configurations.group[: runs.n_runs]
    logs = np.log(runs.duration_seconds)
    deviation, own_sd = np.zeros(len(logs)), np.zeros(len(logs))
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        if len(rows) >= MIN_REPETITIONS:
            deviation[rows] = logs[rows] - np.median(logs[rows])
            own_sd[rows] = robust_sd(deviation[rows])
    repeated = configurations.counts[group] >= MIN_REPETITIONS
    spread = configurations.spreads[group]
    pooled = spread * robust_sd((deviation / spread)[repeated])
    is_far = np.abs(deviation) > np.maximum(_SCALES * np.maximum(own_sd, pooled), _MIN_DEVIATION)
    outliers = [
        Outlier(
            runs.run_ids[row],
            float(f"{np.exp(deviation[row]):.6g}"),
            configurations.run_ids[group[row]][0],
        )
        for row in np.flatnonzero(is_far).tolist()
    ]
    return farthest(outliers)


def farthest(outliers: Iterable[Outlier]) -> tuple[Outlier, ...]:
    """Return at most 50 outliers, the farthest first: five times faster before four times slower.

    Examples
    --------
    >>> [outlier.run_id for outlier in farthest([Outlier("a", 4.0, "b"), Outlier("c", 0.2, "d")])]
    ['c', 'a']
    """
    ordered = sorted(outliers, key=lambda outlier: (-abs(np.log(outlier.ratio)), outlier.run_id))
    return tuple(ordered[:MAX_NAMED])
