"""The mathematics of sums of power laws: prior, evaluation, fit, evidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.layout import Layout, Role
from models.positive_definite import invert_positive, solve_positive
from models.tables import FloatArray, IntArray

Template = Literal["data", "serial", "steps", "const"]
Term = Literal["compute", "overhead", "comm", "fixed"]

TERMS: tuple[Term, ...] = ("compute", "overhead", "comm", "fixed")
TEMPLATES: tuple[Template, ...] = ("data", "serial", "steps", "const")

_ROLES: tuple[Role, ...] = ("workers", "dataset_size", "epochs", "local_batch", "workers_per_node")

_EXPONENTS: dict[Template, dict[Term, tuple[float, ...]]] = {
    "data": {
        "compute": (-1, 1, 1, 0, 0),
        "overhead": (-1, 1, 1, -1, 0),
        "comm": (-0.9, 1, 1, -1, 0),
    },
    "serial": {
        "compute": (-1, 1, 1, 0, 0),
        "overhead": (0, 1, 1, 0, 0),
        "comm": (0.1, 1, 1, -0.5, 0),
    },
    "steps": {
        "compute": (0, 1, 1, 1, 0),
        "overhead": (0, 1, 1, 0, 0),
        "comm": (0.1, 1, 1, 0, 0),
    },
    "const": {
        "compute": (-1, 1, 1, 1, 0),
        "overhead": (0, 0, 1, 0, 0),
        "comm": (0.1, 0, 1, 0, 0),
    },
}
"""Prior mean exponents of `_ROLES`; the fixed term has none."""

_EXPONENT_SD: dict[Term, float] = {"compute": 0.4, "overhead": 0.4, "comm": 0.3, "fixed": 0.25}
MAX_TERMS = len(TERMS)
_GATE_DEPTH, _NO_TERM = 30.0, -1e9
_MISFIT_A, _MISFIT_B = 2.0, 2 * 0.04**2
_MAX_STEPS = 40
_DEVIATION_SD, _MAX_DEVIATIONS = 0.4, 48
_CROSSING_NODES = 0.25, 0.35
"""What communication costs beyond one node, in log units: mean and deviation.

No network between nodes is faster than the links within one: what workers on several nodes save is
the workers' doing."""


@dataclass(frozen=True, slots=True)
class LawPrior:
    """Gaussian priors of a law's parameters, for log durations with median 0.

    The parameters are the log shares of the terms, their exponents (term by term), the effects of
    all category levels, which the terms have in common, and each term's deviations from them.
    They are independent with standard deviations `sds` unless a `covariance` is given.
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
        """Return a prior under which parameters depend on each other."""
        return cls(terms, means, np.sqrt(np.diag(covariance)), covariance, log_weight)

    def spread(self) -> FloatArray:
        """Return the covariance of the parameters."""
        return np.diag(self.sds**2) if self.covariance is None else self.covariance

    def coupling(self, jacobian: FloatArray) -> FloatArray:
        """Return the covariance of the parameters with linear functions of them, one a row."""
        if self.covariance is None:
            return self.sds[:, None] ** 2 * jacobian.T
        return self.covariance @ jacobian.T

    def log_determinant(self) -> float:
        """Return that of the covariance."""
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
        """Return the variance of linear functions of the parameters, one a row."""
        if self.covariance is None:
            return np.asarray(jacobian**2 @ self.sds**2, dtype=np.float64)
        spread = jacobian @ self.covariance
        return np.asarray(np.einsum("ij,ij->i", spread, jacobian), dtype=np.float64)


def law_prior(
    layout: Layout, template: Template, terms: tuple[Term, ...], tightness: float
) -> LawPrior:
    """Return the prior of a template; `tightness` multiplies the deviations of the exponents.

    Not those of strong parameters: what physics does not tell it cannot narrow.

    Examples
    --------
    >>> prior = law_prior(Layout(("workers", "epochs"), (), ()), "serial", ("compute",), 1.0)
    >>> prior.means.tolist(), prior.sds.tolist()
    ([0.0, -1.0, 1.0], [1.0, 0.4, 0.4])
    """
    means = [0.0 if term == "compute" else -2.5 for term in terms]
    sds = [1.0 if term == "compute" else 1.5 for term in terms]
    for term in terms:
        for role, relevant in zip(layout.roles, layout.relevances, strict=True):
            mean, sd = _exponent_prior(template, term, role)
            means.append(mean)
            known = role not in ("multi_node", "missing") and relevant <= 1
            sds.append(relevant * sd * (tightness if known else 1.0))
    deviations = len(terms) * sum(layout.levels) if has_deviations(layout, terms) else 0
    if layout.prior is not None:
        return _informed(layout, template, terms, (np.array(means), np.array(sds)), deviations)
    spreads = layout.spreads_of_levels().tolist()
    offsets = [offset for of_category in layout.offsets for offset in of_category]
    means += offsets
    sds += [
        spread * (0.35 if offset else 0.5) for spread, offset in zip(spreads, offsets, strict=True)
    ]
    means += [0.0] * deviations
    sds += [_DEVIATION_SD] * deviations
    return LawPrior(terms, np.array(means), np.array(sds))


def _informed(
    layout: Layout,
    template: Template,
    terms: tuple[Term, ...],
    numeric: tuple[FloatArray, FloatArray],
    deviations: int,
) -> LawPrior:
    """Return the template's prior as corrected by what other workloads say."""
    prior = layout.prior
    assert prior is not None
    means, sds = prior.numeric(template, terms, *numeric)
    effects, covariance = prior.levels(layout.spreads_of_levels())
    first, last = len(means), len(means) + len(effects)
    joint = np.diag(
        np.concatenate([sds, np.zeros(last - first), [_DEVIATION_SD] * deviations]) ** 2
    )
    joint[first:last, first:last] = covariance
    mean = np.concatenate([means, effects, np.zeros(deviations)])
    return LawPrior.joint(terms, mean, joint, prior.log_weight(template, terms))


def has_deviations(layout: Layout, terms: tuple[Term, ...]) -> bool:
    """Return whether category levels act on each term differently: not where they are many."""
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
        return _CROSSING_NODES if term == "comm" else (0.0, 0.1)
    if role in _ROLES:
        mean = 0.0 if term == "fixed" else _EXPONENTS[template][term][_ROLES.index(role)]
        return mean, _EXPONENT_SD[term]
    return 0.0, 0.3 if term == "fixed" else 0.35


def evaluate_law(
    layout: Layout, terms: tuple[Term, ...], theta: FloatArray, X: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a law's log duration, shape (n,), and its Jacobian, shape (n, n_parameters).

    ``f = log sum_k exp(beta_k + w_k . z + m[c] + v_k[c])``, with 30 taken off the communication
    term of a single worker. With p_k the share of term k: ``df/dbeta_k = p_k``,
    ``df/dw_k = p_k z``, ``df/dm = onehot(c)`` and ``df/dv_k = p_k onehot(c)``.

    References
    ----------
    Hoburg, Kirschen, Abbeel (2016), Data fitting with geometric-programming-compatible softmax
    functions, Optim. Eng. 17, 897-918. Venkataraman et al. (2016), Ernest, NSDI.
    """
    return evaluate_terms(layout, terms, theta, X, layout.one_hot(X))


def evaluate_terms(
    layout: Layout, terms: tuple[Term, ...], theta: FloatArray, X: FloatArray, levels: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what `evaluate_law` does, given `layout.one_hot(X)`: laws of one fit share it."""
    count, width = len(terms), layout.n_numeric
    z = layout.numeric(X)
    weights = theta[count : count + count * width].reshape(count, width)
    logs = z @ weights.T + theta[:count]
    first, width_of_levels = count + count * width, levels.shape[1]
    deviating = has_deviations(layout, terms)
    if deviating:
        deviations = theta[first + width_of_levels :].reshape(count, width_of_levels)
        logs += levels @ deviations.T
    if "comm" in terms:
        logs[:, terms.index("comm")] -= _GATE_DEPTH * layout.gate(X)
    top = np.maximum.reduce(logs, axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = np.add.reduce(shares, axis=1, keepdims=True)
    shares /= total
    effects = levels @ theta[first : first + width_of_levels]
    slopes = (shares[:, :, None] * z[:, None, :]).reshape(len(X), count * width)
    columns = [shares, slopes, levels]
    if deviating:
        split = shares[:, :, None] * levels[:, None, :]
        columns.append(split.reshape(len(X), count * width_of_levels))
    return (top + np.log(total))[:, 0] + effects, np.concatenate(columns, axis=1)


def jacobian_factors(layout: Layout, terms: tuple[Term, ...]) -> tuple[IntArray, IntArray]:
    """Return which two factors each column of a law's Jacobian is the product of.

    The first is the share of a term, by its position, or -1 for none (always 1); the second a
    column of the base ``[1, numeric features, indicators of levels, gate]``.
    """
    count, width, n_levels = len(terms), layout.n_numeric, sum(layout.levels)
    each, numeric = np.arange(count), 1 + np.arange(width)
    levels = 1 + width + np.arange(n_levels)
    first = [each, np.repeat(each, width), np.full(n_levels, -1)]
    second = [np.zeros(count, dtype=np.int64), np.tile(numeric, count), levels]
    if has_deviations(layout, terms):
        first.append(np.repeat(each, n_levels))
        second.append(np.tile(levels, count))
    return np.concatenate(first), np.concatenate(second)


def stack_coefficients(
    layout: Layout, laws: Sequence["FittedLaw"]
) -> tuple[FloatArray, FloatArray]:
    """Return matrices that evaluate many laws at once from the base of `jacobian_factors`.

    The first gives the logs of the terms, four columns a law (those without a term next to minus
    infinity), the second the common effects of the levels, one column a law.
    """
    width, n_levels = layout.n_numeric, sum(layout.levels)
    terms_of = np.zeros((2 + width + n_levels, MAX_TERMS * len(laws)))
    terms_of[0] = _NO_TERM
    effects = np.zeros((2 + width + n_levels, len(laws)))
    for index, law in enumerate(laws):
        terms, theta = law.prior.terms, law.theta
        count = len(terms)
        columns = slice(MAX_TERMS * index, MAX_TERMS * index + count)
        first = count + count * width
        terms_of[0, columns] = theta[:count]
        terms_of[1 : 1 + width, columns] = theta[count:first].reshape(count, width).T
        if has_deviations(layout, terms):
            deviations = theta[first + n_levels :].reshape(count, n_levels)
            terms_of[1 + width : -1, columns] = deviations.T
        if "comm" in terms:
            terms_of[-1, MAX_TERMS * index + terms.index("comm")] = -_GATE_DEPTH
        effects[1 + width : -1, index] = theta[first : first + n_levels]
    return terms_of, effects


@dataclass(frozen=True, slots=True)
class FittedLaw:
    """Most probable parameters of a law, their Laplace covariance, misfit variance, evidence."""

    prior: LawPrior
    theta: FloatArray
    covariance: FloatArray
    misfit: float
    evidence: float


def fit_law(layout: Layout, prior: LawPrior, X: FloatArray, y: FloatArray) -> FittedLaw:
    """Fit a law to log durations with median 0 by Levenberg-Marquardt.

    Minimises ``|y - f|^2 / 2 s2 + (theta - mean)' L (theta - mean) / 2`` with L the prior's
    precision and the misfit variance s2 (an
    inverse gamma prior, mode near .04^2) renewed at each step. The evidence is Laplace's.

    References
    ----------
    MacKay (1992), Bayesian interpolation, Neural Computation 4(3), 415-447.
    """
    precision, levels = prior.precision(), layout.one_hot(X)
    linked = np.flatnonzero(np.count_nonzero(precision, axis=1) > 1)
    theta, offset = prior.means.copy(), np.zeros(len(prior.means))
    pull = precision @ offset
    f, jacobian = evaluate_terms(layout, prior.terms, theta, X, levels)
    misfit, damping = max(_misfit(y - f), 0.04), 1e-3
    for _ in range(_MAX_STEPS):
        residual = y - f
        gradient = jacobian.T @ residual / misfit - pull
        step = damped_step(precision, linked, jacobian / misfit**0.5, damping, gradient)
        trial = theta + step
        new_f, new_jacobian = evaluate_terms(layout, prior.terms, trial, X, levels)
        before = residual @ residual / misfit + offset @ pull
        new_offset = trial - prior.means
        new_pull = precision @ new_offset
        after = (y - new_f) @ (y - new_f) / misfit + new_offset @ new_pull
        if after > before:
            damping *= 8
            if damping > 1e8:  # noqa: PLR2004 - no step helps any more
                break
            continue
        damping = max(damping / 8, 1e-9)
        theta, offset, pull = trial, new_offset, new_pull
        f, jacobian = new_f, new_jacobian
        renewed = _misfit(y - f)
        settled = abs(np.log(renewed / misfit)) < 1e-3 and np.abs(step / prior.sds).max() < 1e-3  # noqa: PLR2004 - thousandths
        misfit = renewed
        if settled:
            break
    return _with_evidence(prior, precision, theta, (f, jacobian), y)


def damped_step(
    precision: FloatArray,
    linked: IntArray,
    jacobian: FloatArray,
    damping: float,
    gradient: FloatArray,
) -> FloatArray:
    """Return ``(H + c diag(H))^-1 g`` with ``H = J' J + L``.

    With more parameters than configurations by the matrix inversion lemma: what is solved is as
    large as the smaller of both.

    Parameters
    ----------
    precision
        L, shape (p, p), positive definite.
    linked
        Its rows that are not diagonal.
    jacobian
        J, shape (n, p), in deviations of the misfit.
    damping
        c, not negative.
    gradient
        g, shape (p,).

    References
    ----------
    Golub and Van Loan (2013), Matrix computations, section 2.1.4 (Sherman, Morrison, Woodbury).

    Examples
    --------
    >>> precision, jacobian, gradient = np.diag([1.0, 4.0]), np.array([[1.0, 2.0]]), np.ones(2)
    >>> linked = np.zeros(0, dtype=np.int64)
    >>> step = damped_step(precision, linked, jacobian, 0.0, gradient)
    >>> (jacobian.T @ jacobian + precision) @ step
    array([1., 1.])
    """
    diagonal = precision.diagonal()
    added = damping * ((jacobian**2).sum(axis=0) + diagonal)
    if len(jacobian) >= len(gradient):
        whole = jacobian.T @ jacobian + precision
        whole.reshape(-1)[:: len(whole) + 1] += added
        return solve_positive(whole, gradient)
    roots = np.sqrt(diagonal + added)
    # A matrix times itself transposed is half of the work: what is not diagonal goes apart.
    scaled = jacobian / roots
    scaled[:, linked] = 0.0
    inner = scaled @ scaled.T
    inner.reshape(-1)[:: len(inner) + 1] += 1.0
    first = gradient / roots**2
    solved, beside = np.zeros((0, len(jacobian))), jacobian[:, linked]
    if len(linked):
        block = precision[np.ix_(linked, linked)] + np.diag(added[linked])
        right = np.concatenate([gradient[linked, None], beside.T], axis=1)
        both = solve_positive(block, right)
        first[linked], solved = both[:, 0], both[:, 1:]
        inner += beside @ solved
    weights = solve_positive(inner, jacobian @ first)
    taken = scaled.T @ weights / roots
    taken[linked] = solved @ weights
    return np.asarray(first - taken, dtype=np.float64)


def _misfit(residual: FloatArray) -> float:
    return float((residual @ residual + 2 * _MISFIT_B) / (len(residual) + 2 * _MISFIT_A))


def _with_evidence(
    prior: LawPrior,
    precision: FloatArray,
    theta: FloatArray,
    at: tuple[FloatArray, FloatArray],
    y: FloatArray,
) -> FittedLaw:
    f, jacobian = at
    misfit = _misfit(y - f)
    hessian = jacobian.T @ jacobian / misfit + precision
    covariance, log_determinant = invert_positive(hessian)
    offset = theta - prior.means
    objective = ((y - f) @ (y - f) / misfit + offset @ precision @ offset) / 2
    evidence = (
        -len(y) / 2 * np.log(2 * np.pi * misfit)
        - objective
        - _MISFIT_B / misfit
        - (_MISFIT_A + 1) * np.log(misfit)
        - prior.log_determinant() / 2
        - log_determinant / 2
        + prior.log_weight
    )
    return FittedLaw(prior, theta, covariance, misfit, float(evidence))
