"""The priors of the parameters of sums of power laws."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.features.hardware import UNKNOWN_SD
from models.features.layout import Layout, Role
from models.tables import FloatArray

Template = Literal["data", "serial", "steps", "const"]
Term = Literal["compute", "overhead", "comm", "fixed"]

TERMS: tuple[Term, ...] = ("compute", "overhead", "comm", "fixed")
TEMPLATES: tuple[Template, ...] = ("data", "serial", "steps", "const")

_ROLES: tuple[Role, ...] = (
    "workers",
    "dataset_size",
    "epochs",
    "local_batch",
    "workers_per_node",
    "processors",
)

_EXPONENTS: dict[Template, dict[Term, tuple[float, ...]]] = {
    "data": {
        "compute": (-1, 1, 1, 0, 0, -0.8),
        "overhead": (-1, 1, 1, -1, 0, 0),
        "comm": (-0.9, 1, 1, -1, 0, 0),
    },
    "serial": {
        "compute": (-1, 1, 1, 0, 0, -0.8),
        "overhead": (0, 1, 1, 0, 0, 0),
        "comm": (0.1, 1, 1, -0.5, 0, 0),
    },
    "steps": {
        "compute": (0, 1, 1, 1, 0, -0.8),
        "overhead": (0, 1, 1, 0, 0, 0),
        "comm": (0.1, 1, 1, 0, 0, 0),
    },
    "const": {
        "compute": (-1, 1, 1, 1, 0, -0.8),
        "overhead": (0, 0, 1, 0, 0, 0),
        "comm": (0.1, 0, 1, 0, 0, 0),
    },
}
"""Prior mean exponents of `_ROLES`; those of the fixed term are 0.

Processors have -.8 in computation, since most programs keep most of them busy."""

_EXPONENT_SD: dict[Term, float] = {"compute": 0.4, "overhead": 0.4, "comm": 0.3, "fixed": 0.25}
"""Prior standard deviations of these exponents."""

_PARAMETER_SD, _PARAMETER_SD_FIXED, _FLAG_SD = 0.35, 0.3, 0.1
"""The same for parameters and indicators of missing values, the fixed term's, several nodes'."""

MAX_TERMS = len(TERMS)

_MAIN_SHARE, _OTHER_SHARE = (0.0, 1.0), (-2.5, 1.5)
"""Prior mean and deviation of a term's log share of the median duration: computation, others.

Computation is expected to be most of it, any other term a twelfth."""

_DESCRIBED_SD = 0.35
"""Prior standard deviation of a level's log effect around the one that a data sheet implies."""

_DEVIATION_SD, _MAX_DEVIATIONS = 0.4, 48
"""Prior standard deviation of a level's own effect on one term, and how many are worth a fit."""

_MULTI_NODE_PRIOR = 0.25, 0.35
"""Prior mean and deviation of what several nodes add to communication, in log units.

A network between nodes is not faster than the links within one: time saved on several nodes is due
to the number of workers."""


@dataclass(frozen=True, slots=True)
class LawPrior:
    """Gaussian priors of a law's parameters, for log durations with median 0.

    The parameters are the log shares of the terms, their exponents (term by term), the effects of
    all category levels, which are common to the terms, and each term's deviations from them. They
    are independent with standard deviations `sds` unless a `covariance` is given.
    """

    terms: tuple[Term, ...]
    means: FloatArray
    sds: FloatArray
    covariance: FloatArray | None = None
    log_weight: float = 0.0

    @classmethod
    def joint(
        cls, terms: tuple[Term, ...], means: FloatArray, covariance: FloatArray, log_weight: float
    ) -> "LawPrior":
        """Return a prior under which parameters are correlated."""
        return cls(terms, means, np.sqrt(np.diag(covariance)), covariance, log_weight)

    def full_covariance(self) -> FloatArray:
        """Return the covariance of the parameters."""
        return np.diag(self.sds**2) if self.covariance is None else self.covariance

    def coupling(self, jacobian: FloatArray) -> FloatArray:
        """Return the covariance of the parameters with linear functions of them, given as rows."""
        if self.covariance is None:
            return self.sds[:, None] ** 2 * jacobian.T
        return self.covariance @ jacobian.T

    def log_determinant(self) -> float:
        """Return the log determinant of the covariance."""
        if self.covariance is None:
            return 2 * float(np.log(self.sds).sum())
        return float(np.linalg.slogdet(self.covariance)[1])

    def precision(self) -> FloatArray:
        """Return the inverse of the covariance."""
        if self.covariance is None:
            return np.diag(self.sds**-2)
        inverse = np.linalg.inv(self.covariance)
        return (inverse + inverse.T) / 2

    def variance(self, jacobian: FloatArray) -> FloatArray:
        """Return the variance of linear functions of the parameters, given as rows."""
        if self.covariance is None:
            return np.asarray(jacobian**2 @ self.sds**2, dtype=np.float64)
        products = jacobian @ self.covariance
        return np.asarray(np.einsum("ij,ij->i", products, jacobian), dtype=np.float64)


def law_prior(
    layout: Layout, template: Template, terms: tuple[Term, ...], tightness: float
) -> LawPrior:
    """Return the prior of a template; `tightness` multiplies the deviations of the exponents.

    Strong parameters and indicators (missing values, several nodes) are exempt: physics does not
    know them.

    Examples
    --------
    >>> prior = law_prior(Layout(("workers", "epochs"), (), ()), "serial", ("compute",), 1.0)
    >>> prior.means.tolist(), prior.sds.tolist()
    ([0.0, -1.0, 1.0], [1.0, 0.4, 0.4])
    """
    share_priors = [_MAIN_SHARE if term == "compute" else _OTHER_SHARE for term in terms]
    means, sds = [mean for mean, _ in share_priors], [sd for _, sd in share_priors]
    for term in terms:
        for role, relevance in zip(layout.roles, layout.relevances, strict=True):
            mean, sd = _exponent_prior(template, term, role)
            means.append(mean)
            is_physical = role not in ("multi_node", "missing") and relevance <= 1
            sds.append(relevance * sd * (tightness if is_physical else 1.0))
    n_deviations = len(terms) * sum(layout.levels) if has_deviations(layout, terms) else 0
    if layout.prior is not None:
        return _with_pool(layout, template, terms, (np.array(means), np.array(sds)), n_deviations)
    spreads = layout.spreads_of_levels().tolist()
    offsets = [offset for category_offsets in layout.offsets for offset in category_offsets]
    means += offsets
    sds += [
        spread * (_DESCRIBED_SD if offset else UNKNOWN_SD)
        for spread, offset in zip(spreads, offsets, strict=True)
    ]
    means += [0.0] * n_deviations
    sds += [_DEVIATION_SD] * n_deviations
    return LawPrior(terms, np.array(means), np.array(sds))


def _with_pool(
    layout: Layout,
    template: Template,
    terms: tuple[Term, ...],
    numeric: tuple[FloatArray, FloatArray],
    n_deviations: int,
) -> LawPrior:
    """Return the template's prior, corrected by the prior from other workloads."""
    prior = layout.prior
    assert prior is not None
    means, sds = prior.numeric(template, terms, *numeric)
    effects, covariance = prior.levels(layout.spreads_of_levels())
    first, last = len(means), len(means) + len(effects)
    joint = np.diag(
        np.concatenate([sds, np.zeros(last - first), [_DEVIATION_SD] * n_deviations]) ** 2
    )
    joint[first:last, first:last] = covariance
    mean = np.concatenate([means, effects, np.zeros(n_deviations)])
    return LawPrior.joint(terms, mean, joint, prior.log_weight(template, terms))


def has_deviations(layout: Layout, terms: tuple[Term, ...]) -> bool:
    """Return whether category levels act on each term differently: not if there are many."""
    few = len(terms) > 1 and len(terms) * sum(layout.levels) <= _MAX_DEVIATIONS
    return few and (layout.prior is None or layout.prior.has_deviations)


def n_parameters(layout: Layout, terms: tuple[Term, ...]) -> int:
    """Return how many parameters a law has: shares, exponents, effects of levels, deviations.

    Examples
    --------
    >>> n_parameters(Layout(("workers", "epochs"), (2,), ((0.0, 0.0),)), ("compute",))
    5
    """
    levels = sum(layout.levels)
    deviations = len(terms) * levels if has_deviations(layout, terms) else 0
    return len(terms) * (1 + layout.n_numeric) + levels + deviations


def _exponent_prior(template: Template, term: Term, role: Role) -> tuple[float, float]:
    if role == "multi_node":
        return _MULTI_NODE_PRIOR if term == "comm" else (0.0, _FLAG_SD)
    if role in _ROLES:
        mean = 0.0 if term == "fixed" else _EXPONENTS[template][term][_ROLES.index(role)]
        return mean, _EXPONENT_SD[term]
    return 0.0, _PARAMETER_SD_FIXED if term == "fixed" else _PARAMETER_SD
