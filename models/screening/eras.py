"""Change points: times from which on all runs were slower or faster than before."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.candidates import CANDIDATES, Setting
from models.evidence import UnfinishedRuns
from models.features.encoder import Encoder
from models.features.hardware import HardwareDescription
from models.numerics.robust_scale import robust_sd
from models.reports import ChangePoint
from models.runs.configurations import collapse
from models.screening.refutation import without_refuted
from models.tables import FloatArray, IntArray, RunTable

FALSE_ALARM_RATE = 0.01
"""Probability of finding a change point where there is none, by the parametric bootstrap."""

MAX_CHANGE_POINTS = 12

MIN_SHIFT = 0.05
"""A change is found if its shift, in log units, is at least this; later ones may reduce it."""

MIN_RUNS = 12
"""Fewer runs show no change."""

MAX_SEARCHED = 2_000
"""Of more runs, every second, third and so on by time is searched: few show a common shift."""

_MIN_ON_A_SIDE, _ENOUGH_ON_A_SIDE, _MAX_SPLITS = 4, 12, 60
"""Fewest runs before and after a split in short and in long histories, and most splits that are
tried."""

_N_BOOTSTRAPS = 299
"""Simulations: 300 with the runs themselves, so that one in a hundred is three."""

_MIN_SD = 0.01
"""Lower bound of the standard deviation of repetitions."""

_PRIOR_SD = 0.3
"""Standard deviation of the prior by which estimates of a shift are shrunk to 0."""

_MISFIT_QUANTILE = 0.1
"""Quantile of chi-square used for the misfit of configurations, which puts it at its upper end."""

_CLIP = 3.0
"""Residuals are clipped to this many robust deviations."""

_REFINEMENTS = 2
"""How often all shifts are estimated again: a law fitted across a change takes up a part of it."""

_LAW = "scaling_law"


def find_change_points(
    runs: RunTable, hardware: Mapping[str, HardwareDescription] | None = None, *, seed: int = 0
) -> tuple[ChangePoint, ...]:
    r"""Return when all durations shifted, in order of time, with shrunken shifts.

    The residuals r of the law are modelled as ``r = D b + delta 1[t >= k] + u + e`` with linear
    effects b of the features, a misfit u of each configuration and noise e. The likelihood ratio
    against ``delta = 0`` is maximised over the splits k; its null distribution comes from
    simulating u and e on the same runs, so that configurations measured one after the other are not
    mistaken for a code change. A split is kept if fewer than 1 in 100 simulations reach its ratio
    and the shift is at least 5 %. All shifts so far are then estimated together, the earlier runs
    moved by them, and the search goes on.

    Parameters
    ----------
    runs
        Runs with their start times; without times, none are found.
    hardware, seed
        As for `fit_portfolio`.

    References
    ----------
    Andrews (1993), Tests for parameter instability and structural change with unknown change
    point, Econometrica 61(4). Efron and Tibshirani (1993), An introduction to the bootstrap.

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> size = np.tile([1e3, 2e3, 4e3, 8e3], 6)
    >>> seconds = size / 10 * np.repeat([1.0, 1.5], 12) * np.resize([1.0, 1.01, 0.99], 24)
    >>> features = FeatureTable({"dataset_size": size}, {}, 24)
    >>> table = RunTable(features, seconds, [str(n) for n in range(24)], np.arange(24.0))
    >>> [(change.at, round(change.shift, 1)) for change in find_change_points(table)]
    [(12.0, 0.4)]
    """
    changes: Sequence[ChangePoint] = ()
    if runs.n_runs < MIN_RUNS or runs.started_at is None:
        return ()
    order = _order_by_time(runs, runs.started_at)
    runs = runs.take(order[:: max(1, -(-len(order) // MAX_SEARCHED))])
    while len(changes) < MAX_CHANGE_POINTS:
        more = _with_strongest(at_present(runs, changes), changes, hardware, seed)
        if more is None:
            break
        changes = more
    for _ in range(_REFINEMENTS if changes else 0):
        changes = _refined(at_present(runs, changes), changes, hardware, seed)
    return tuple(sorted(changes, key=lambda change: change.at))


def _order_by_time(runs: RunTable, started_at: FloatArray) -> IntArray:
    """Return the runs by time, ties by content: the bootstrap draws run by run.

    So the order of upload does not matter.
    """
    keys = np.stack([runs.duration_seconds, started_at])
    order = np.lexsort(keys)
    ties = np.logical_and.reduce(np.diff(keys[:, order]) == 0)
    if ties.any():
        order = np.lexsort(np.vstack([collapse(runs).group, keys]))
    return np.asarray(order, dtype=np.int64)


def at_present(runs: RunTable, changes: Sequence[ChangePoint]) -> RunTable:
    """Return the runs as they would be at present: earlier ones moved by the shifts since then.

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> features = FeatureTable({"workers": np.ones(2)}, {}, 2)
    >>> runs = RunTable(features, np.array([10.0, 20.0]), ["a", "b"], np.array([1.0, 5.0]))
    >>> at_present(runs, [ChangePoint(5.0, float(np.log(2)))]).duration_seconds.round(6).tolist()
    [20.0, 20.0]
    """
    if runs.started_at is None or not changes:
        return runs
    shifted = runs.duration_seconds * np.exp(_shifts_since(runs.started_at, changes))
    return RunTable(runs.features, shifted, runs.run_ids, runs.started_at)


def unfinished_at_present(
    unfinished: UnfinishedRuns | None, changes: Sequence[ChangePoint]
) -> UnfinishedRuns | None:
    """Return the unfinished runs as they would be at present: the same work at the present pace.

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> features, times = FeatureTable({"workers": np.ones(2)}, {}, 2), np.array([1.0, 5.0])
    >>> stopped = UnfinishedRuns(features, np.full(2, 9.0), np.full(2, 0.5), ["a", "b"], times)
    >>> moved = unfinished_at_present(stopped, [ChangePoint(5.0, float(np.log(2)))])
    >>> moved.elapsed_seconds.round(6).tolist()
    [18.0, 9.0]
    """
    if unfinished is None or unfinished.started_at is None or not changes:
        return unfinished
    shifts = _shifts_since(unfinished.started_at, changes)
    return replace(unfinished, elapsed_seconds=unfinished.elapsed_seconds * np.exp(shifts))


def _shifts_since(started_at: FloatArray, changes: Sequence[ChangePoint]) -> FloatArray:
    """Return by how much all durations have shifted since each run, shape (n,), in log units."""
    shifts = np.zeros(len(started_at))
    for change in changes:
        shifts += np.where(started_at < change.at, change.shift, 0.0)
    return shifts


@dataclass(frozen=True, slots=True)
class _Noise:
    """Covariance ``variance I + misfit`` within each configuration; both are variances."""

    group: IntArray
    sizes: IntArray
    variance: float
    misfit: float

    def whiten(self, columns: FloatArray) -> FloatArray:
        """Return the inverse covariance times `columns`, shape (n, k)."""
        sums = np.zeros((len(self.sizes), columns.shape[1]))
        np.add.at(sums, self.group, columns)
        gain = self.misfit / (self.variance + self.sizes * self.misfit)
        return (columns - (gain[:, None] * sums)[self.group]) / self.variance

    def simulate(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return `count` columns of residuals without a change."""
        noise = rng.standard_normal((len(self.group), count)) * self.variance**0.5
        misfit = rng.standard_normal((len(self.sizes), count)) * self.misfit**0.5
        return np.asarray(noise + misfit[self.group], dtype=np.float64)


def _with_strongest(
    runs: RunTable,
    known: Sequence[ChangePoint],
    hardware: Mapping[str, HardwareDescription] | None,
    seed: int,
) -> Sequence[ChangePoint] | None:
    """Return the changes known and the next one, with all shifts as estimated together.

    None if there is no further one. `runs` are at present as far as known.
    """
    splits = _splits(runs.started_at)
    if runs.started_at is None or not len(splits):
        return None
    residual, design, group = _residuals(runs, hardware, seed)
    order = np.argsort(runs.started_at, kind="stable")
    noise = _estimate_noise(residual, design, group, order)
    later = _later(runs.started_at, splits)
    of_known = _later(runs.started_at, np.array([change.at for change in known]))
    clipped = _clipped(residual)
    rng = np.random.default_rng(seed)
    columns = np.column_stack([clipped, noise.simulate(_N_BOOTSTRAPS, rng)])
    ratios = _likelihood_ratios(columns, later, np.hstack([design, of_known]), noise)
    exceeded = int((ratios[:, 1:].max(axis=0) >= ratios[:, 0].max()).sum())
    if (1 + exceeded) / (1 + _N_BOOTSTRAPS) > FALSE_ALARM_RATE:
        return None
    best = int(ratios[:, 0].argmax())
    eras = np.column_stack([of_known, later[:, best]])
    is_later = later[:, best] > 0
    centred = residual.copy()
    centred[is_later] = _clipped(residual[is_later])
    centred[~is_later] = _clipped(residual[~is_later])
    shifts, _ = _joint_shifts(centred, eras, design, noise)
    # Where few configurations are repeated, the change itself was taken for noise at first.
    noise = _estimate_noise(residual - eras @ shifts, design, group, order)
    shifts, variances = _joint_shifts(centred, eras, design, noise)
    changes = _corrected([*known, ChangePoint(float(splits[best]), 0.0)], shifts, variances)
    return None if abs(changes[-1].shift) < MIN_SHIFT else changes


def _refined(
    runs: RunTable,
    known: Sequence[ChangePoint],
    hardware: Mapping[str, HardwareDescription] | None,
    seed: int,
) -> Sequence[ChangePoint]:
    """Return the changes as a law of the `runs`, at present as far as known, corrects them."""
    assert runs.started_at is not None
    residual, design, group = _residuals(runs, hardware, seed)
    noise = _estimate_noise(residual, design, group, np.argsort(runs.started_at, kind="stable"))
    eras = _later(runs.started_at, np.array([change.at for change in known]))
    shifts, variances = _joint_shifts(_clipped(residual), eras, design, noise)
    return _corrected(known, shifts, variances)


def _corrected(
    changes: Sequence[ChangePoint], corrections: FloatArray, variances: FloatArray
) -> Sequence[ChangePoint]:
    """Return changes whose shifts are corrected, and shrunk by the variances of the corrections."""
    shifts = np.array([change.shift for change in changes]) + corrections
    shifts *= _PRIOR_SD**2 / (_PRIOR_SD**2 + variances)
    pairs = zip(changes, shifts.tolist(), strict=True)
    return [ChangePoint(change.at, shift) for change, shift in pairs]


def _later(started_at: FloatArray, instants: FloatArray) -> FloatArray:
    """Return which runs began at or after each instant, as 0 and 1, shape (n, instants)."""
    return (started_at[:, None] >= instants).astype(np.float64)


def _splits(started_at: FloatArray | None) -> FloatArray:
    """Return the times at which a new era may begin, evenly spread over the runs."""
    if started_at is None:
        return np.zeros(0)
    times, first = np.unique(np.sort(started_at), return_index=True)
    least = min(max(_MIN_ON_A_SIDE, len(started_at) // 20), _ENOUGH_ON_A_SIDE)
    times = times[(first >= least) & (len(started_at) - first >= least)]
    # From the last one on: forecasts are those of the present.
    return times[:: -max(1, -(-len(times) // _MAX_SPLITS))][::-1]


def _residuals(
    runs: RunTable, hardware: Mapping[str, HardwareDescription] | None, seed: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return residuals of the law, the design of linear effects, and each run's configuration."""
    configurations = collapse(runs)
    encoder = Encoder.learn(configurations.features, hardware)
    X = encoder.encode(configurations.features).X
    noise = configurations.noise_variance**0.5
    setting = Setting(encoder.layout, noise, configurations.noise_dof, seed)
    settled = without_refuted(configurations, encoder, seed)
    law = CANDIDATES[_LAW](setting).fit(X, settled.log_duration, configurations.counts)
    mean, _ = law.predict_moments(X)
    mean = mean + configurations.log_duration - settled.log_duration
    group = configurations.group
    residual = np.log(runs.duration_seconds) - mean[group]
    design = np.column_stack([np.ones(len(X)), encoder.layout.design(X)])[group]
    return residual, design, group


def _estimate_noise(
    residual: FloatArray, design: FloatArray, group: IntArray, order: IntArray
) -> _Noise:
    """Estimate noise from successive repetitions: a single change affects few of their differences.

    The misfit of configurations is set to the upper end of what their means allow.
    """
    from scipy import stats  # noqa: PLC0415 - heavy, and only fits need it

    by_group = order[np.argsort(group[order], kind="stable")]
    sizes = np.bincount(group)
    is_same = np.diff(group[by_group]) == 0
    differences = np.diff(residual[by_group])[is_same]
    means = np.bincount(group, residual) / sizes
    _, first = np.unique(group, return_index=True)
    effects = design[first]
    residuals = means - effects @ np.linalg.lstsq(effects, means, rcond=None)[0]
    dof = max(len(means) - int(np.linalg.matrix_rank(effects)), 1)
    misfit_variance = float(residuals @ residuals) / float(stats.chi2.ppf(_MISFIT_QUANTILE, dof))
    if not len(differences):
        return _Noise(group, sizes, max(misfit_variance, _MIN_SD**2), 0.0)
    variance = max(robust_sd(differences) ** 2 / 2, _MIN_SD**2)
    misfit = max(misfit_variance - variance * float(np.mean(1 / sizes)), 0.0)
    return _Noise(group, sizes, variance, misfit)


def _clipped(residual: FloatArray) -> FloatArray:
    center = float(np.median(residual))
    scale = robust_sd(residual - center)
    bound = _CLIP * max(scale, _MIN_SD)
    return np.clip(residual, center - bound, center + bound)


def _likelihood_ratios(
    residuals: FloatArray, later: FloatArray, design: FloatArray, noise: _Noise
) -> FloatArray:
    """Return the share explained by a shift at each split (rows) of each residual (columns)."""
    shifts, errors = _without_effects((later, residuals), design, noise)
    weighted = noise.whiten(shifts)
    information = np.maximum((shifts * weighted).sum(axis=0), 1e-9)
    scores = weighted.T @ errors
    # Relative to the total, as in an F test, since the noise is estimated.
    total = np.maximum((errors * noise.whiten(errors)).sum(axis=0), 1e-300)
    return np.asarray(scores**2 / information[:, None] / total)


def _joint_shifts(
    residual: FloatArray, eras: FloatArray, design: FloatArray, noise: _Noise
) -> tuple[FloatArray, FloatArray]:
    """Return the shift at the beginning of each era, all estimated together, and the variances."""
    shifts, errors = _without_effects((eras, residual[:, None]), design, noise)
    weighted = noise.whiten(shifts)
    covariance = np.linalg.pinv(shifts.T @ weighted, hermitian=True)
    return covariance @ (weighted.T @ errors)[:, 0], np.diag(covariance)


def _without_effects(
    tables: Sequence[FloatArray], design: FloatArray, noise: _Noise
) -> Iterator[FloatArray]:
    """Yield tables with one row a run, less what the linear effects of the design explain."""
    whitened = noise.whiten(design)
    # A pseudo-inverse, since levels and constant columns may be linearly dependent.
    project = np.linalg.pinv(design.T @ whitened, hermitian=True) @ whitened.T
    for table in tables:
        yield table - design @ (project @ table)
