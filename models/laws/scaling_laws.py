"""Regressors that are physical laws: a non-negative sum of power laws, and a single one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Self

import numpy as np
from typing_extensions import override

from models.features.layout import Layout, LayoutPrior
from models.laws.law_priors import TEMPLATES, LawPrior, Template, Term, law_prior, n_parameters
from models.laws.power_laws import FittedLaw, evaluate_law, evidence_temperature, fit_law
from models.regressor import PortfolioRegressor, State
from models.state.checks import MAX_LOG, check_bounded, check_weights, demand
from models.state.typed_json import read_number
from models.tables import FloatArray, IntArray

MAX_LAW_CONFIGURATIONS = 250
"""More configurations are subsampled: a law has few parameters."""


_CACHED_LAWS = 32
"""Number of fitted laws that are cached: more than the members of one portfolio use."""

_MAX_ODDS = 10.0
"""A template with less than a tenth of the best one's tempered evidence is left out."""


def random_subset(n_rows: int, limit: int, seed: int) -> IntArray | slice:
    """Return a random subset of `limit` rows, ascending, or all rows if there are no more."""
    if n_rows <= limit:
        return slice(None)
    return np.sort(np.random.default_rng(seed).choice(n_rows, limit, replace=False))


def _template(name: object) -> Template:
    for template in TEMPLATES:
        if template == name:
            return template
    raise ValueError(f"There is no template {name!r}.")


@lru_cache(maxsize=_CACHED_LAWS)
def _fit_cached(
    layout: Layout,
    uncompared: tuple[LayoutPrior | None, tuple[float, ...]],
    template: Template,
    terms: tuple[Term, ...],
    tightness: float,
    data: bytes,
) -> FittedLaw:
    """Return the law fitted to log durations with median 0, the first column of the bytes `data`.

    Several members of a portfolio use the same law: it is fitted once for all of them. Prior and
    relevance, which the comparison of layouts leaves out, are part of the key.
    """
    prior, relevance = uncompared
    layout = replace(layout, prior=prior, relevance=relevance)
    n_columns = 2 + layout.n_numeric + len(layout.levels)
    table = np.frombuffer(data).reshape(-1, n_columns)
    parameter_prior = law_prior(layout, template, terms, tightness)
    return fit_law(layout, parameter_prior, table[:, 1:], table[:, 0])


_LAW_ARRAYS = ("theta", "covariance", "prior", "scalars")


class ScalingLaw(PortfolioRegressor):
    """A sum of power laws with physical priors, fitted in relative error.

    ``T = sum_k exp(beta_k) prod_j x_j^(w_kj) exp(m[c])``: terms for computation, overhead and
    synchronisation, each a non-negative power law in workers, dataset size, epochs, local batch and
    parameters, with one factor per category level. It includes Amdahl's law and Ernest, stays
    positive and extrapolates by its exponents. Several templates of prior exponents compete; the
    two with the largest (tempered) evidence are averaged.

    Parameters
    ----------
    layout
        How to read the columns of X.
    terms
        The terms of the sum.
    tightness
        Factor on the prior standard deviations of the exponents; small means trusting physics.
    templates
        Templates that compete.
    seed
        Seed for the choice of a subset of large sets.

    References
    ----------
    Venkataraman et al. (2016), Ernest: efficient performance prediction for large-scale advanced
    analytics, NSDI. Amdahl (1967), AFIPS. Qiao et al. (2021), Pollux, OSDI.

    Examples
    --------
    >>> X = np.array([[np.log(w), float(w == 1)] for w in (1, 2, 4, 8)])
    >>> y = np.log([800.0, 400.0, 200.0, 100.0])
    >>> law = ScalingLaw(Layout(("workers",), (), ())).fit(X, y)
    >>> bool(40 < np.exp(law.predict(np.array([[np.log(16), 0.0]])))[0] < 60)
    True
    """

    def __init__(
        self,
        layout: Layout,
        terms: tuple[Term, ...] = ("compute", "overhead", "comm"),
        tightness: float = 0.4,
        templates: tuple[Template, ...] = TEMPLATES,
        seed: int = 0,
    ) -> None:
        self.layout, self.terms, self.tightness = layout, terms, tightness
        self.templates, self.seed = templates, seed

    @override
    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit every template and keep the two most plausible."""
        self.center_ = float(np.median(y))
        rows = random_subset(len(y), MAX_LAW_CONFIGURATIONS, self.seed)
        layout = self.layout
        uncompared = layout.prior, layout.relevance
        data = np.column_stack([y[rows] - self.center_, X[rows]]).tobytes()
        fitted = [
            (_fit_cached(layout, uncompared, template, self.terms, self.tightness, data), template)
            for template in self.templates
        ]
        fitted.sort(key=lambda pair: -pair[0].evidence)
        temperature = evidence_temperature(min(len(y), MAX_LAW_CONFIGURATIONS))
        gaps = [(law.evidence - fitted[0][0].evidence) / temperature for law, _ in fitted[:2]]
        weights = np.array([np.exp(gap) for gap in gaps if gap > -np.log(_MAX_ODDS)])
        self.weights_ = weights / weights.sum()
        self.laws_ = [law for law, _ in fitted[: len(weights)]]
        self.templates_ = tuple(template for _, template in fitted[: len(weights)])
        return self

    @override
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return mean and variance of the log duration, averaged over the templates."""
        return self.moments_given(
            [evaluate_law(self.layout, self.terms, law.theta, X) for law in self.laws_]
        )

    def moments_given(
        self, evaluated: Sequence[tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Return what `predict_moments` does, given the result of `evaluate_law` per template."""
        means, variances = [], []
        for law, (f, jacobian) in zip(self.laws_, evaluated, strict=True):
            means.append(f)
            variances.append(((jacobian @ law.covariance) * jacobian).sum(axis=1) + law.misfit)
        if len(means) == 1:
            return means[0] + self.center_, variances[0]
        stacked = np.array(means)
        mean = self.weights_ @ stacked
        return mean + self.center_, self.weights_ @ (np.array(variances) + (stacked - mean) ** 2)

    @override
    def covariance(self, A: FloatArray, B: FloatArray) -> FloatArray | None:
        """Return the covariance of two sets of rows, within the templates and between them."""
        total = np.zeros((len(A), len(B)))
        means = []
        for weight, law in zip(self.weights_, self.laws_, strict=True):
            (f, a), (g, b) = (evaluate_law(self.layout, self.terms, law.theta, X) for X in (A, B))
            total += weight * (a @ law.covariance @ b.T)
            means.append((f, g))
        f_all, g_all = (np.array([pair[side] for pair in means]) for side in (0, 1))
        f_off, g_off = f_all - self.weights_ @ f_all, g_all - self.weights_ @ g_all
        return np.asarray(total + (self.weights_[:, None] * f_off).T @ g_off, dtype=np.float64)

    @property
    @override
    def run_variance(self) -> float | None:
        """Return the misfit variance, which measuring other configurations does not remove."""
        return float(self.weights_ @ [law.misfit for law in self.laws_])

    @override
    def refit_clone(self) -> Self:
        """Return an unfitted copy that tries the chosen templates only."""
        return type(self)(**{**self.get_params(), "templates": self.templates_})

    @override
    def to_state(self) -> State:
        """Return the laws as data."""
        arrays = {"weights": self.weights_}
        for index, law in enumerate(self.laws_):
            prior, scalars = [law.prior.means, law.prior.sds], [law.misfit, law.evidence]
            numbers = (law.theta, law.covariance, np.stack(prior), np.array(scalars))
            arrays |= {
                f"{name}{index}": array for name, array in zip(_LAW_ARRAYS, numbers, strict=True)
            }
            if law.prior.covariance is not None:
                arrays[f"spread{index}"] = law.prior.covariance
        return State(
            {"center": self.center_, "templates": [str(name) for name in self.templates_]}, arrays
        )

    @override
    def load_state(self, state: State) -> None:
        """Restore laws from data.

        Raises
        ------
        ValueError
            If the numbers do not fit each other.
        """
        names = state.values["templates"]
        demand(isinstance(names, list) and names, "a law has no template")
        assert isinstance(names, list)
        self.templates_ = tuple(_template(name) for name in names)
        self.center_ = read_number(state.values["center"])
        self.weights_ = state.arrays["weights"]
        demand(self.weights_.shape == (len(names),), "weights are too many or too few")
        check_weights(self.weights_)
        n = n_parameters(self.layout, self.terms)
        self.laws_ = [_read_law(self.terms, state, index, n) for index in range(len(names))]


def _read_law(terms: tuple[Term, ...], state: State, index: int, n: int) -> FittedLaw:
    """Return a law of n parameters, one object for all members that share it."""
    numbers = [state.arrays[f"{name}{index}"] for name in _LAW_ARRAYS]
    spread = state.arrays.get(f"spread{index}")
    key = (terms, n, *map(id, numbers), id(spread))
    if key not in state.shared:
        state.shared[key] = _checked_law(terms, n, numbers, spread)
    law: FittedLaw = state.shared[key]
    return law


def _checked_law(
    terms: tuple[Term, ...], n: int, numbers: Sequence[FloatArray], spread: FloatArray | None
) -> FittedLaw:
    theta, covariance, prior, scalars = numbers
    check_bounded(theta, (n,), "theta")
    check_bounded(covariance, (n, n), "a covariance")
    check_bounded(prior, (2, n), "a prior")
    is_positive = prior[1].min() > 0 and covariance.diagonal().min() >= 0
    demand(is_positive, "a deviation is not positive")
    if spread is not None:
        check_bounded(spread, (n, n), "a prior covariance")
    demand(scalars.shape == (2,) and 0 <= scalars[0] <= MAX_LOG**2, "a misfit is out of range")
    misfit, evidence = scalars.tolist()
    return FittedLaw(
        LawPrior(terms, prior[0], prior[1], spread), theta, covariance, misfit, evidence
    )


class LogLinearLaw(ScalingLaw):
    """A single power law: linear in the log features, shrunk towards physical exponents.

    ``log T = beta + w . z + m[c]``, a ridge regression whose penalty pulls the exponents to
    their physical values (-1 for workers, 1 for dataset size and epochs) and the effects of
    category levels to their common mean (partial pooling).

    References
    ----------
    Hoerl and Kennard (1970), Ridge regression, Technometrics 12(1), 55-67. Gelman and Hill (2007),
    Data analysis using regression and multilevel models, ch. 12.

    Examples
    --------
    >>> X = np.array([[np.log(w), float(w == 1)] for w in (1, 2, 4, 8)])
    >>> law = LogLinearLaw(Layout(("workers",), (), ())).fit(X, 5 - X[:, 0])
    >>> bool(abs(law.predict(X[:1]) - 5)[0] < 0.01)
    True
    """

    def __init__(
        self,
        layout: Layout,
        tightness: float = 1.0,
        templates: tuple[Template, ...] = TEMPLATES,
        seed: int = 0,
    ) -> None:
        super().__init__(layout, ("compute",), tightness, templates, seed)
