"""Influence of measured configurations on a forecast: derivatives by the measured durations."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Literal, NamedTuple

import numpy as np

from models.explanations.explanation import TERM_NAMES, TermName
from models.features.layout import Layout
from models.laws.law_priors import TERMS
from models.laws.power_laws import FittedLaw, evaluate_law, jacobian_factors
from models.laws.scaling_laws import MAX_LAW_CONFIGURATIONS, ScalingLaw
from models.numerics.triangles import gram_of_lower
from models.processes.conditioning import conditioning_rows
from models.processes.gaussian import MAX_PROCESS_CONFIGURATIONS, GaussianProcess
from models.regressor import PortfolioRegressor
from models.runs.run_names import RunNames
from models.tables import BoolArray, FloatArray, IntArray
from models.trees.boosting import ResidualTrees

Subject = TermName | Literal["category", "neighbourhood"]

MAX_LESSONS = 5
"""At most this many configurations are named for a forecast, the most influential first."""

_SUBJECTS: tuple[Subject, ...] = (
    *(TERM_NAMES[term] for term in TERMS),
    "category",
    "neighbourhood",
)
_CATEGORY, _NEIGHBOURHOOD = len(TERMS), len(TERMS) + 1
_MIN_INFLUENCE, _MAX_INFLUENCE = 0.01, 1e3
_VALUES_AT_ONCE = 500_000
_CorrelationResponse = tuple[IntArray, BoolArray, tuple[FloatArray, ...]]
"""Positions of configurations, which have one, and factors that map correlations to responses."""


class Lesson(NamedTuple):
    """What one measured configuration contributes to a forecast.

    `influence` says how many percent longer the forecast would be if all runs of that configuration
    had taken 1 % longer; it is negative where longer runs there would tilt a trend the other way.
    `about` is the part of the forecast that it affects most: a term of the laws, the effect of a
    category's level, or the correction by runs in the neighbourhood.
    """

    run_ids: tuple[str, ...]
    influence: float
    about: Subject


class Influences:
    """The derivatives of a portfolio's forecasts by the log durations of its configurations.

    For a law with parameters t, Laplace covariance P and misfit s2, ``dt/dy = P J' / s2``. For a
    process around it, ``dt/dy = P J' K^-1`` with the prior's P, plus ``k' K^-1`` from the process
    itself; where the law is held at its own fit, the process follows the residuals of that fit. The
    derivative of a forecast is ``J* dt/dy`` plus the process's part, term by term, weighted as in
    the mixture. Hyper-parameters and the choice of templates are held constant; trees have no
    derivative and are left out.

    Parameters
    ----------
    layout
        How to read the columns of X.
    members
        The regressors by name.
    X
        The configurations of the fit, encoded, shape (n_configurations, n_columns).
    excluded
        Configurations whose durations were replaced by what the others imply
        (`models.screening.refutation`), hence have no influence.

    References
    ----------
    Cook and Weisberg (1982), Residuals and influence in regression, ch. 3. Rasmussen and Williams
    (2006), Gaussian processes for machine learning, section 2.6 (weights of the equivalent kernel).
    """

    def __init__(
        self,
        layout: Layout,
        members: Mapping[str, PortfolioRegressor],
        X: FloatArray,
        excluded: Sequence[int] = (),
    ) -> None:
        self._n, self._excluded = len(X), list(excluded)
        rows: dict[bytes, list[int]] = {}
        for index, row in enumerate(X):
            rows.setdefault(row.tobytes(), []).append(index)
        self._parts: list[tuple[int, float, _LawResponse | _ProcessResponse]] = []
        for position, member in enumerate(members.values()):
            if isinstance(member, GaussianProcess):
                self._parts.append((position, 1.0, _ProcessResponse(layout, member, rows, X)))
                continue
            law = member.law_ if isinstance(member, ResidualTrees) else member
            if isinstance(law, ScalingLaw):
                self._parts += [
                    (position, weight, _LawResponse(layout, fitted, X))
                    for weight, fitted in zip(law.weights_.tolist(), law.laws_, strict=True)
                ]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the derivatives of one question: (n_subjects, n_configurations)."""
        return len(_SUBJECTS), self._n

    def questions_at_once(self, rows_per_question: float) -> int:
        """Return of how many questions the derivatives take some megabytes together."""
        return max(1, int(_VALUES_AT_ONCE / (rows_per_question * len(_SUBJECTS) * self._n)))

    def of(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the derivatives by subject, shape (n, n_subjects, n_configurations).

        Parameters
        ----------
        X
            Encoded questions of one kind, shape (n, n_columns).
        weights
            The weights of the members for that kind, in their order.
        """
        total = np.zeros((len(X), *self.shape))
        for position, share, response in self._parts:
            if weights[position] > 0:
                response.add(X, weights[position] * share, total)
        total[:, :, self._excluded] = 0.0
        return total


def name_lessons(derivatives: FloatArray, names: RunNames) -> tuple[Lesson, ...]:
    """Return the most influential configurations of a forecast, without those below 1 %.

    Parameters
    ----------
    derivatives
        By subject and configuration, shape (n_subjects, n_configurations).
    names
        Runs of each configuration.

    Examples
    --------
    >>> derivatives = np.zeros((6, 2))
    >>> derivatives[0] = [0.001, 0.7]
    >>> name_lessons(derivatives, RunNames.of(["0" * 32, "1" * 32], [("a",), ("b", "c")]))
    (Lesson(run_ids=('b', 'c'), influence=0.7, about='computation'),)
    """
    influence, about = derivatives.sum(axis=0), np.abs(derivatives).argmax(axis=0)
    order = np.argsort(-np.abs(influence), kind="stable")[:MAX_LESSONS].tolist()
    return tuple(
        Lesson(names.of_row(index), float(influence[index]), _SUBJECTS[about[index]])
        for index in order
        if _MIN_INFLUENCE <= abs(influence[index]) < _MAX_INFLUENCE
    )


class _LawResponse:
    """How a law's parameters follow the durations of all configurations.

    The law of a large workload is fitted on a subset that is not known here, so its influence is
    shared equally by all configurations.
    """

    def __init__(self, layout: Layout, law: FittedLaw, X: FloatArray) -> None:
        self._slopes = _Slopes(layout, law)
        share = min(1.0, MAX_LAW_CONFIGURATIONS / len(X))
        self._response = share * law.covariance @ self._slopes.jacobian(X).T / law.misfit

    def add(self, X: FloatArray, weight: float, total: FloatArray) -> None:
        """Add the weighted derivatives of some questions."""
        for subject, part in self._slopes.parts(X):
            total[:, subject] += weight * (part @ self._response)


class _ProcessResponse:
    """How a process and the law that is its mean follow the durations of its configurations."""

    def __init__(
        self,
        layout: Layout,
        process: GaussianProcess,
        rows: Mapping[bytes, Sequence[int]],
        X: FloatArray,
    ) -> None:
        law = process.law_.laws_[0]
        self._process, self._slopes = process, _Slopes(layout, law)
        self._columns, self._known = _match_rows(process.X_, rows)
        inverse = gram_of_lower(process.inverse_factor_.full())
        jacobian, response = self._slopes.jacobian(process.X_), process.coupling_ @ inverse
        if process.held:
            law_response = law.covariance @ jacobian.T / law.misfit
            inverse = inverse - (inverse @ jacobian) @ law_response
            response = law_response + response - (response @ jacobian) @ law_response
        self._response = response
        self._responses: list[_CorrelationResponse] = [(self._columns, self._known, (inverse,))]
        if len(X) > MAX_PROCESS_CONFIGURATIONS:
            subset = X[conditioning_rows(len(X))]
            # Numbers of repetitions are not known here; each configuration counts once.
            data_factors = process.response(subset, np.ones(len(subset)))
            law_factor = (
                -(data_factors[0] @ (data_factors[1] @ self._slopes.jacobian(subset))) @ response
            )
            self._responses = [
                (*_match_rows(subset, rows), data_factors),
                (self._columns, self._known, (law_factor,)),
            ]

    def add(self, X: FloatArray, weight: float, total: FloatArray) -> None:
        """Add the weighted derivatives of some questions."""
        for subject, part in self._slopes.parts(X):
            total[:, subject, self._columns] += weight * (part @ self._response)[:, self._known]
        correlations = self._process.scatter * self._process.correlations(X)
        for columns, known, factors in self._responses:
            response = reduce(np.matmul, factors, correlations)
            total[:, _NEIGHBOURHOOD, columns] += weight * response[:, known]


def _match_rows(X: FloatArray, rows: Mapping[bytes, Sequence[int]]) -> tuple[IntArray, BoolArray]:
    """Return the positions of configurations among all, and which of them were found.

    Equally encoded ones are matched in their order, as in the fit. A process of an artefact may
    have configurations that are not among the artefact's own.
    """
    unmatched = {key: iter(positions) for key, positions in rows.items()}
    columns: IntArray = np.array([next(unmatched.get(row.tobytes(), iter(())), -1) for row in X])
    is_known: BoolArray = columns >= 0
    return columns[is_known], is_known


class _Slopes:
    """The derivatives of a law by its parameters, grouped by the subject of each parameter."""

    def __init__(self, layout: Layout, law: FittedLaw) -> None:
        self._layout, self._law = layout, law
        slots, _ = jacobian_factors(layout, law.prior.terms)
        subjects = np.array([TERMS.index(term) for term in law.prior.terms])
        self._subjects = np.where(slots < 0, _CATEGORY, subjects[slots])

    def jacobian(self, X: FloatArray) -> FloatArray:
        """Return the derivatives, shape (n, n_parameters)."""
        return evaluate_law(self._layout, self._law.prior.terms, self._law.theta, X)[1]

    def parts(self, X: FloatArray) -> list[tuple[int, FloatArray]]:
        """Return the derivatives of each subject, zero for the parameters of all others."""
        jacobian = self.jacobian(X)
        return [
            (subject, np.where(self._subjects == subject, jacobian, 0.0))
            for subject in np.unique(self._subjects).tolist()
        ]
