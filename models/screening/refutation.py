"""Single runs that all others refute: moved to what these imply, so as not to mislead the fit."""

from dataclasses import replace

import numpy as np

from models.features.encoder import Encoder
from models.features.layout import Layout, Role
from models.laws.law_priors import TEMPLATES, LawPrior, law_prior
from models.laws.power_laws import evaluate_law
from models.laws.scaling_laws import random_subset
from models.numerics.log_grid import on_log_grid
from models.numerics.robust_scale import robust_sd
from models.processes.gaussian import GaussianProcess
from models.questions.regimes import FEW_CONFIGURATIONS
from models.reports import Outlier
from models.runs.accidents import ACCIDENT_SD, T_DOF, accident_probability
from models.runs.configurations import Configurations
from models.runs.outliers import farthest
from models.tables import BoolArray, FloatArray, IntArray

_MIN_PROBABILITY = 0.5
"""Probability of an accident above which a run is refuted."""

_MIN_TO_ONE, _MAX_SUSPECTS, _MAX_CONFIGURATIONS = 6, 10, 2_000
"""Configurations per suspect, most suspects, and most configurations that are searched."""

_SUSPECT_SDS, _MIN_DEVIATION = 3.0, 0.2
"""A run is suspect beyond this many robust deviations, and beyond this log deviation."""

_MIN_SCALE, _STEPS, _TOLERANCE = 0.02, 20, 1e-4
"""Of the reweighted fit: least robust deviation, most steps, change at which it has converged."""

_MAX_OTHERS = 100
"""Most other configurations that are used to judge suspects."""

_LOAD_SIGNS: dict[Role, float] = {"workers": -1.0, "dataset_size": 1.0, "local_batch": 1.0}
"""What fills the memory of a worker, and with which sign."""


def without_refuted(configurations: Configurations, encoder: Encoder, seed: int) -> Configurations:
    r"""Return the configurations with refuted single runs moved to what the others imply.

    A run is ``y = f(x) + delta + e``: with probability .01 it had an accident, and delta is of the
    order of 1.4, else delta is 0. Let m and v be the mean and variance that a process around a
    power law, fitted to the others, forecasts for a run. The probability p of an accident compares
    Student's t of scale ``(v + 1.4^2)^(1/2)`` with one of scale ``v^(1/2)``; if it exceeds a half,
    the run is moved by the expectation of delta, ``p (y - m) 1.4^2 / (1.4^2 + v)``.

    A run is not refuted where no other run could confirm it: if it is alone at the end of an axis,
    among all runs or among those of a level; if another suspect shows the same; and, if it was
    slow, if no other run of its levels had as much load on a worker (as few workers, as much data,
    as large a local batch), since a memory overflow shows in one run first. Fewer than 12
    configurations refute nothing; repeated ones are never refuted; at most one in six is, and no
    more than ten; more than 2,000 are not searched, since no single run then misleads the fit.

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
    She and Owen (2011), Outlier detection using nonconvex penalized regression, J. Am. Statist.
    Assoc. 106(494): a shift of an observation has the same effect on a fit as a smaller weight.

    Examples
    --------
    >>> from models.runs.configurations import collapse
    >>> from models.tables import FeatureTable, RunTable
    >>> size = np.geomspace(1e3, 1e5, 15)
    >>> seconds = size / 10 * np.where(np.arange(15) == 7, 8.0, 1.0)
    >>> runs = RunTable(FeatureTable({"dataset_size": size}, {}, 15), seconds, list(map(str, size)))
    >>> measured = collapse(runs)
    >>> settled = without_refuted(measured, Encoder.learn(measured.features), 0)
    >>> [round(outlier.ratio) for outlier in name_refuted(measured, settled)]
    [8]
    """
    if not FEW_CONFIGURATIONS <= len(configurations.keys) <= _MAX_CONFIGURATIONS:
        return configurations
    shifts = _Refutation(configurations, encoder, seed).shifts()
    if not shifts.any():
        return configurations
    # On the grid of log durations, so that the unit does not matter.
    shifts = on_log_grid(shifts)
    return replace(configurations, log_duration=configurations.log_duration - shifts)


def name_refuted(measured: Configurations, settled: Configurations) -> tuple[Outlier, ...]:
    """Return the runs that `without_refuted` moved, the farthest first.

    Each has itself as `beside`; its ratio is its duration over the one to which it was moved.
    """
    shifts = measured.log_duration - settled.log_duration
    names = [measured.run_ids[row][0] for row in np.flatnonzero(shifts)]
    return farthest(
        Outlier(name, float(f"{np.exp(shift):.6g}"), name)
        for name, shift in zip(names, shifts[shifts != 0].tolist(), strict=True)
    )


class _Refutation:
    """The search for refuted runs among the configurations of a fit."""

    def __init__(self, configurations: Configurations, encoder: Encoder, seed: int) -> None:
        self._layout, self._seed = encoder.layout, seed
        self._X = encoder.encode(configurations.features).X
        self._y = configurations.log_duration - float(np.median(configurations.log_duration))
        self._counts = configurations.counts
        self._is_single = (self._counts == 1) & ~configurations.contradicted
        self._process = GaussianProcess(
            encoder.layout,
            noise_sd=configurations.noise_variance**0.5,
            noise_dof=configurations.noise_dof,
            seed=seed,
        )

    def shifts(self) -> FloatArray:
        """Return by how much to move each run, shape (n,), zero for nearly all."""
        shifts = np.zeros(len(self._y))
        residuals = robust_residuals(self._layout, self._X, self._y)
        suspects = self._suspects(residuals)
        while len(suspects):
            rest = np.setdiff1d(np.arange(len(self._y)), suspects)
            kept = is_surrounded(self._layout, self._X[suspects], self._X[rest])
            kept &= (residuals[suspects] < 0) | is_outdone(
                self._layout, self._X[suspects], self._X[rest]
            )
            if kept.all():
                subset = rest[random_subset(len(rest), _MAX_OTHERS, self._seed)]
                deviation, variance = self._compare(subset, suspects)
                probability = accident_probability(deviation, variance)
                kept = probability > _MIN_PROBABILITY
                kept &= ~self._is_cleared(subset, suspects) if kept.all() else True
                if kept.all():
                    share = ACCIDENT_SD**2 / (ACCIDENT_SD**2 + variance)
                    shifts[suspects] = probability * share * deviation
                    break
            suspects = suspects[kept]
        return shifts

    def _suspects(self, residuals: FloatArray) -> IntArray:
        """Return single runs far from a robust fit, only the farthest if there are many."""
        candidates = np.flatnonzero(self._is_single & (np.abs(residuals) > _SUSPECT_SDS))
        order = np.argsort(-np.abs(residuals[candidates]), kind="stable")
        most = min(len(residuals) // _MIN_TO_ONE, _MAX_SUSPECTS)
        return np.sort(candidates[order[:most]])

    def _compare(self, subset: IntArray, tested: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return how candidates runs are from the forecast by others, and its variance."""
        X, y = self._X, self._y
        process = self._process.fit(X[subset], y[subset], self._counts[subset])
        # Hyper-parameters are learned once: fewer suspects hardly change them.
        self._process = process.refit_clone()
        mean, variance = process.predict_moments(X[tested])
        assert variance is not None
        return y[tested] - mean, variance

    def _is_cleared(self, subset: IntArray, suspects: IntArray) -> BoolArray:
        """Return which suspects are cleared if the other suspects are trusted."""
        is_cleared = np.zeros(len(suspects), dtype=np.bool_)
        if len(suspects) > 1:
            for index in range(len(suspects)):
                others = np.concatenate([subset, np.delete(suspects, index)])
                moments = self._compare(others, suspects[index : index + 1])
                is_cleared[index] = accident_probability(*moments)[0] <= _MIN_PROBABILITY
        return is_cleared


def robust_residuals(layout: Layout, X: FloatArray, y: FloatArray) -> FloatArray:
    """Return residuals of the best power law under Student's t, in robust deviations, shape (n,).

    Residuals up to .2 log units count as zero; y has median 0.

    References
    ----------
    Lange, Little, Taylor (1989), Robust statistical modeling using the t distribution, J. Am.
    Statist. Assoc. 84(408), 881-896.
    """
    fits = [
        _reweighted(law_prior(layout, template, ("compute",), 1.0), layout, X, y)
        for template in TEMPLATES
    ]
    _, residual, scale = min(fits, key=lambda fit: fit[0])
    return np.where(np.abs(residual) > _MIN_DEVIATION, residual / scale, 0.0)


def _reweighted(
    prior: LawPrior, layout: Layout, X: FloatArray, y: FloatArray
) -> tuple[float, FloatArray, float]:
    """Return the negative log posterior, the residuals and the scale of a reweighted fit."""
    precision, theta = prior.precision(), prior.means
    # A single power law is linear in its parameters.
    _, jacobian = evaluate_law(layout, prior.terms, theta, X)
    prior_term = precision @ prior.means
    for _ in range(_STEPS):
        residual, scale = _residuals(y, jacobian @ theta)
        weighted = jacobian.T * ((T_DOF + 1) / (T_DOF * scale**2 + residual**2))
        updated = np.linalg.solve(weighted @ jacobian + precision, weighted @ y + prior_term)
        change, theta = float(np.abs(updated - theta).max()), np.asarray(updated, dtype=np.float64)
        if change < _TOLERANCE:
            break
    residual, scale = _residuals(y, jacobian @ theta)
    offset = theta - prior.means
    log_tails = (T_DOF + 1) / 2 * np.log1p((residual / scale) ** 2 / T_DOF)
    loss = len(y) * np.log(scale) + log_tails.sum() + offset @ precision @ offset / 2
    return float(loss), residual, scale


def _residuals(y: FloatArray, mean: FloatArray) -> tuple[FloatArray, float]:
    residual = y - mean
    return residual, max(robust_sd(residual), _MIN_SCALE)


def is_surrounded(layout: Layout, suspects: FloatArray, rest: FloatArray) -> BoolArray:
    """Return which rows have others at or beyond them both ways on each axis, per own level."""
    x, known = layout.numeric(suspects)[:, None], layout.numeric(rest)[None]
    sides = known <= x, known >= x
    same_level = [np.ones((len(suspects), len(rest)), dtype=np.bool_)]
    for column, levels in zip(layout.codes(suspects).T, layout.codes(rest).T, strict=True):
        same_level.append(np.equal.outer(column, levels))
    is_surrounded = np.ones(len(suspects), dtype=np.bool_)
    for side in sides:
        for mask in same_level:
            on_axis: BoolArray = np.logical_or.reduce(side & mask[:, :, None], axis=1)
            is_surrounded &= np.logical_and.reduce(on_axis, axis=1)
    return is_surrounded


def is_outdone(layout: Layout, suspects: FloatArray, rest: FloatArray) -> BoolArray:
    """Return for which rows the rest has as much load on a worker, for each own level."""
    signs = np.array([_LOAD_SIGNS.get(role, 0.0) for role in layout.roles])
    load, known = layout.numeric(suspects) * signs, layout.numeric(rest) * signs
    has_more_load: BoolArray = np.logical_and.reduce(known[None] >= load[:, None], axis=2)
    is_outdone: BoolArray = np.logical_or.reduce(has_more_load, axis=1)
    for column, levels in zip(layout.codes(suspects).T, layout.codes(rest).T, strict=True):
        is_outdone &= np.logical_or.reduce(has_more_load & np.equal.outer(column, levels), axis=1)
    return is_outdone
