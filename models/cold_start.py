"""The joint distribution before any regressor: what physics alone says about configurations."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.distribution import NORMAL_KNOTS
from models.encoding import Encoder
from models.hardware import HardwareDescription
from models.joint import JointForecast, stack
from models.power_laws import TEMPLATES, TERMS, evaluate_law, law_prior
from models.tables import FeatureTable, FloatArray

SCALE_SD = 3.0
"""Log standard deviation of a duration of which nothing is known: seconds to days."""

_RUN_SD = 0.05
"""Log standard deviation of one run and of the law's misfit, before any repetition."""


@dataclass(frozen=True, slots=True)
class PriorForecast:
    """What is expected of candidates and targets without a regressor.

    Parameters
    ----------
    joint
        Their joint distribution.
    log_duration
        Mean log duration of the candidates up to one unknown constant, shape (n_candidates,).
    """

    joint: JointForecast
    log_duration: FloatArray


def prior_forecast(
    candidates: FeatureTable,
    targets: FeatureTable,
    hardware: Mapping[str, HardwareDescription] | None = None,
) -> PriorForecast:
    """Return the joint prior of sums of power laws, the templates of physics weighed alike.

    With it the greedy design is a space-filling one by cost: the cheapest configuration fixes the
    scale, and the cheapest ones far apart along an axis its exponent.

    Parameters
    ----------
    candidates, targets
        Configurations that may be measured, and those to be forecast.
    hardware
        Data sheets of accelerators by GPU type.

    References
    ----------
    Chaloner and Verdinelli (1995), Bayesian experimental design: a review, Statistical Science
    10(3).

    Examples
    --------
    >>> workers = FeatureTable({"workers": np.array([1.0, 2.0, 8.0])}, {}, 3)
    >>> asked = FeatureTable({"workers": np.array([16.0])}, {}, 1)
    >>> prior = prior_forecast(workers, asked)
    >>> bool((np.diff(prior.log_duration) < 0).all())
    True
    """
    rows = stack(candidates, targets)
    encoder = Encoder.learn(rows, hardware)
    X = encoder.encode(rows).X
    means, total = [], np.zeros((rows.n_rows,) * 2)
    for template in TEMPLATES:
        prior = law_prior(encoder.layout, template, TERMS, 1.0)
        f, jacobian = evaluate_law(encoder.layout, TERMS, prior.means, X)
        means.append(f - f.mean())
        total += (jacobian * prior.sds**2) @ jacobian.T / len(TEMPLATES)
    each = np.array(means)
    off = each - each.mean(axis=0)
    covariance = total + off.T @ off / len(TEMPLATES) + SCALE_SD**2
    joint = JointForecast(
        covariance,
        np.full(rows.n_rows, 2 * _RUN_SD**2),
        np.full(targets.n_rows, NORMAL_KNOTS[3]),
        np.arange(targets.n_rows),
    )
    return PriorForecast(joint, each.mean(axis=0)[: candidates.n_rows])
