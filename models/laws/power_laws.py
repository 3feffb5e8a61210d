"""The mathematics of sums of power laws: evaluation, fit, evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.features.layout import Layout
from models.laws.law_priors import MAX_TERMS, LawPrior, Term, has_deviations
from models.numerics.positive_definite import invert_positive, solve_positive
from models.tables import FloatArray, IntArray

_GATE_DEPTH, _NO_TERM = 30.0, -1e9
"""Subtracted from the log of a term that is switched off, and the log of an absent term."""

_MISFIT_A, _MISFIT_B = 2.0, 2 * 0.04**2
"""Shape and rate of the inverse gamma prior of the misfit variance."""

_FIRST_MISFIT = 0.04
"""Least misfit variance to start from (20 %), so that first steps follow the data's shape."""

_MAX_STEPS, _MAX_DAMPING, _TOLERANCE = 40, 1e8, 1e-3
"""Most steps, damping at which the search gives up, and change at which it has converged."""

_RESIDUALS_PER_INDEPENDENT = 10
"""One in this many residuals counts as independent of the others."""


def evaluate_law(
    layout: Layout, terms: tuple[Term, ...], theta: FloatArray, X: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a law's log duration, shape (n,), and its Jacobian, shape (n, n_parameters).

    ``f = log sum_k exp(beta_k + w_k . z + m[c] + v_k[c])``, with 30 subtracted in the communication
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
    """Return what `evaluate_law` does, given `layout.one_hot(X)`, which laws of one fit share."""
    n_terms, n_numeric = len(terms), layout.n_numeric
    z = layout.numeric(X)
    weights = theta[n_terms : n_terms + n_terms * n_numeric].reshape(n_terms, n_numeric)
    logs = z @ weights.T + theta[:n_terms]
    first, n_levels = n_terms + n_terms * n_numeric, levels.shape[1]
    is_deviating = has_deviations(layout, terms)
    if is_deviating:
        deviations = theta[first + n_levels :].reshape(n_terms, n_levels)
        logs += levels @ deviations.T
    if "comm" in terms:
        logs[:, terms.index("comm")] -= _GATE_DEPTH * layout.gate(X)
    top = np.maximum.reduce(logs, axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = np.add.reduce(shares, axis=1, keepdims=True)
    shares /= total
    effects = levels @ theta[first : first + n_levels]
    slopes = (shares[:, :, None] * z[:, None, :]).reshape(len(X), n_terms * n_numeric)
    columns = [shares, slopes, levels]
    if is_deviating:
        level_slopes = shares[:, :, None] * levels[:, None, :]
        columns.append(level_slopes.reshape(len(X), n_terms * n_levels))
    return (top + np.log(total))[:, 0] + effects, np.concatenate(columns, axis=1)


def jacobian_factors(layout: Layout, terms: tuple[Term, ...]) -> tuple[IntArray, IntArray]:
    """Return the two factors whose product is each column of a law's Jacobian.

    The first is the position of a term, for its share, or -1 for a constant 1; the second is a
    column of the base ``[1, numeric features, indicators of levels, gate]``.
    """
    n_terms, n_numeric, n_levels = len(terms), layout.n_numeric, sum(layout.levels)
    positions, numeric = np.arange(n_terms), 1 + np.arange(n_numeric)
    levels = 1 + n_numeric + np.arange(n_levels)
    first = [positions, np.repeat(positions, n_numeric), np.full(n_levels, -1)]
    second = [np.zeros(n_terms, dtype=np.int64), np.tile(numeric, n_terms), levels]
    if has_deviations(layout, terms):
        first.append(np.repeat(positions, n_levels))
        second.append(np.tile(levels, n_terms))
    return np.concatenate(first), np.concatenate(second)


def stack_coefficients(
    layout: Layout, laws: Sequence["FittedLaw"]
) -> tuple[FloatArray, FloatArray]:
    """Return matrices that evaluate many laws at once from the base of `jacobian_factors`.

    The first gives the logs of the terms, four columns per law (that of an absent term is close to
    minus infinity), the second the common effects of the levels, one column per law.
    """
    n_numeric, n_levels = layout.n_numeric, sum(layout.levels)
    coefficients = np.zeros((2 + n_numeric + n_levels, MAX_TERMS * len(laws)))
    coefficients[0] = _NO_TERM
    effects = np.zeros((2 + n_numeric + n_levels, len(laws)))
    for index, law in enumerate(laws):
        terms, theta = law.prior.terms, law.theta
        n_terms = len(terms)
        columns = slice(MAX_TERMS * index, MAX_TERMS * index + n_terms)
        first = n_terms + n_terms * n_numeric
        coefficients[0, columns] = theta[:n_terms]
        coefficients[1 : 1 + n_numeric, columns] = (
            theta[n_terms:first].reshape(n_terms, n_numeric).T
        )
        if has_deviations(layout, terms):
            deviations = theta[first + n_levels :].reshape(n_terms, n_levels)
            coefficients[1 + n_numeric : -1, columns] = deviations.T
        if "comm" in terms:
            coefficients[-1, MAX_TERMS * index + terms.index("comm")] = -_GATE_DEPTH
        effects[1 + n_numeric : -1, index] = theta[first : first + n_levels]
    return coefficients, effects


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
    precision; the misfit variance s2 (inverse gamma prior, mode near .04^2) is updated at each
    step. The evidence is Laplace's approximation.

    References
    ----------
    MacKay (1992), Bayesian interpolation, Neural Computation 4(3), 415-447.
    """
    precision, levels = prior.precision(), layout.one_hot(X)
    linked = np.flatnonzero(np.count_nonzero(precision, axis=1) > 1)
    theta, offset = prior.means.copy(), np.zeros(len(prior.means))
    prior_gradient = precision @ offset
    f, jacobian = evaluate_terms(layout, prior.terms, theta, X, levels)
    misfit, damping = max(_misfit_variance(y - f), _FIRST_MISFIT), 1e-3
    for _ in range(_MAX_STEPS):
        residual = y - f
        gradient = jacobian.T @ residual / misfit - prior_gradient
        step = damped_step(precision, linked, jacobian / misfit**0.5, damping, gradient)
        trial = theta + step
        new_f, new_jacobian = evaluate_terms(layout, prior.terms, trial, X, levels)
        before = residual @ residual / misfit + offset @ prior_gradient
        new_offset = trial - prior.means
        new_prior_gradient = precision @ new_offset
        after = (y - new_f) @ (y - new_f) / misfit + new_offset @ new_prior_gradient
        if after > before:
            damping *= 8
            if damping > _MAX_DAMPING:
                break
            continue
        damping = max(damping / 8, 1e-9)
        theta, offset, prior_gradient = trial, new_offset, new_prior_gradient
        f, jacobian = new_f, new_jacobian
        new_misfit = _misfit_variance(y - f)
        change = max(abs(np.log(new_misfit / misfit)), np.abs(step / prior.sds).max())
        misfit = new_misfit
        if change < _TOLERANCE:
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

    With more parameters than configurations, by the matrix inversion lemma: the system to solve has
    the size of the smaller of the two, apart from linked parameters.

    Parameters
    ----------
    precision
        L, shape (p, p), positive definite.
    linked
        Indices of its rows with elements off the diagonal.
    jacobian
        J, shape (n, p), in units of the misfit's standard deviation.
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
    damping_terms = damping * ((jacobian**2).sum(axis=0) + diagonal)
    if len(jacobian) >= len(gradient):
        hessian = jacobian.T @ jacobian + precision
        hessian.reshape(-1)[:: len(hessian) + 1] += damping_terms
        return solve_positive(hessian, gradient)
    roots = np.sqrt(diagonal + damping_terms)
    # The product of a matrix and its own transpose costs half, so linked columns are kept apart.
    scaled = jacobian / roots
    scaled[:, linked] = 0.0
    inner = scaled @ scaled.T
    inner.reshape(-1)[:: len(inner) + 1] += 1.0
    first = gradient / roots**2
    solved_linked, linked_jacobian = np.zeros((0, len(jacobian))), jacobian[:, linked]
    if len(linked):
        block = precision[np.ix_(linked, linked)] + np.diag(damping_terms[linked])
        right_sides = np.concatenate([gradient[linked, None], linked_jacobian.T], axis=1)
        solutions = solve_positive(block, right_sides)
        first[linked], solved_linked = solutions[:, 0], solutions[:, 1:]
        inner += linked_jacobian @ solved_linked
    weights = solve_positive(inner, jacobian @ first)
    correction = scaled.T @ weights / roots
    correction[linked] = solved_linked @ weights
    return np.asarray(first - correction, dtype=np.float64)


def evidence_temperature(n_configurations: int) -> float:
    """Return the divisor of the log evidences of laws that are compared.

    The residuals of a misspecified law depend on each other: as evidence, ten of them count as one.

    References
    ----------
    Gruenwald and van Ommen (2017), Inconsistency of Bayesian inference for misspecified linear
    models, and a proposal for repairing it, Bayesian Analysis 12(4), 1069-1103.

    Examples
    --------
    >>> evidence_temperature(4), evidence_temperature(40)
    (1.0, 4.0)
    """
    return max(1.0, n_configurations / _RESIDUALS_PER_INDEPENDENT)


def _misfit_variance(residual: FloatArray) -> float:
    return float((residual @ residual + 2 * _MISFIT_B) / (len(residual) + 2 * _MISFIT_A))


def _with_evidence(
    prior: LawPrior,
    precision: FloatArray,
    theta: FloatArray,
    evaluated: tuple[FloatArray, FloatArray],
    y: FloatArray,
) -> FittedLaw:
    f, jacobian = evaluated
    misfit = _misfit_variance(y - f)
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
