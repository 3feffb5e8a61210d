"""The joint distribution of configurations before any regressor, from physical priors alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.distribution import NORMAL_90
from models.features.encoder import Encoder
from models.features.hardware import HardwareDescription
from models.features.layout import Layout
from models.laws.law_priors import TEMPLATES, TERMS, law_prior
from models.laws.power_laws import evaluate_law
from models.planning.joint import JointForecast
from models.runs.configurations import collapse
from models.tables import FeatureTable, FloatArray, RunTable

SCALE_SD = 3.0
"""Log standard deviation of a duration about which nothing is known: seconds to days."""

MAX_MEASURED = 2_000
"""Of more runs, at most as many configurations count: memory grows with the square of them."""

_RUN_SD = 0.05
"""Log standard deviation of one run, and of the law's misfit, before any repetition."""


@dataclass(frozen=True, slots=True)
class PriorForecast:
    """Forecast of candidates and targets without a regressor.

    Parameters
    ----------
    joint
        Their joint distribution.
    log_duration
        Mean log duration of candidates, then targets, shape (n,); up to an unknown constant where
        nothing was measured.
    """

    joint: JointForecast
    log_duration: FloatArray


def prior_forecast(
    candidates: FeatureTable,
    targets: FeatureTable,
    hardware: Mapping[str, HardwareDescription] | None = None,
    measured: RunTable | None = None,
) -> PriorForecast:
    """Return the joint distribution under sums of power laws, with equal weights of the templates.

    Under it, greedy design fills the space at low cost: the cheapest configuration fixes the scale,
    and the cheapest configurations far apart along an axis fix its exponent.

    Parameters
    ----------
    candidates, targets
        Configurations that may be measured, and those to be forecast.
    hardware
        Data sheets of accelerators by GPU type.
    measured
        Runs on which no regressor was fitted yet; the distribution is conditioned on them. Of more
        than 2,000, it is conditioned on at most as many configurations, each as one run.

    References
    ----------
    Chaloner and Verdinelli (1995), Bayesian experimental design: a review, Statistical Science
    10(3).

    Examples
    --------
    >>> workers = FeatureTable({"workers": np.array([1.0, 2.0, 8.0])}, {}, 3)
    >>> target = FeatureTable({"workers": np.array([16.0])}, {}, 1)
    >>> prior = prior_forecast(workers, target)
    >>> bool((np.diff(prior.log_duration) < 0).all())
    True
    """
    configurations = candidates.above(targets)
    measured = None if measured is None else _thinned(measured)
    rows = configurations if measured is None else configurations.above(measured.features)
    encoder = Encoder.learn(rows, hardware)
    mean, covariance = _law_prior(encoder.layout, encoder.encode(rows).X)
    n, noise = configurations.n_rows, 2 * _RUN_SD**2
    if measured is not None and measured.n_runs:
        cross = covariance[:n, n:]
        observed = covariance[n:, n:] + noise * np.eye(measured.n_runs)
        gain = np.linalg.solve(observed, cross.T).T
        mean[:n] += gain @ (np.log(measured.duration_seconds) - mean[n:])
        covariance[:n, :n] -= gain @ cross.T
    joint = JointForecast(
        covariance[:n, :n],
        np.full(n, noise),
        np.full(targets.n_rows, NORMAL_90),
        np.arange(targets.n_rows),
    )
    return PriorForecast(joint, mean[:n])


def _thinned(runs: RunTable) -> RunTable:
    """Return all runs if they are few, otherwise some configurations, each as one run."""
    if runs.n_runs <= MAX_MEASURED:
        return runs
    known = collapse(runs)
    # Configurations are in the order of their hashes: the first ones are a random choice.
    rows = np.arange(min(len(known.keys), MAX_MEASURED))
    names = [names[0] for names in known.run_ids[:MAX_MEASURED]]
    return RunTable(known.features.take(rows), np.exp(known.log_duration[rows]), names)


def _law_prior(layout: Layout, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of the log durations of rows under all templates."""
    means, total = [], np.zeros((len(X), len(X)))
    for template in TEMPLATES:
        prior = law_prior(layout, template, TERMS, 1.0)
        f, jacobian = evaluate_law(layout, TERMS, prior.means, X)
        means.append(f - f.mean())
        total += jacobian @ prior.full_covariance() @ jacobian.T / len(TEMPLATES)
    template_means = np.array(means)
    mean = np.asarray(template_means.mean(axis=0), dtype=np.float64)
    deviations = template_means - mean
    return mean, total + deviations.T @ deviations / len(TEMPLATES) + SCALE_SD**2
