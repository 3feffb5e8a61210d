"""Answers of one fit's members to the same rows; what they share is computed once."""

from models.laws.power_laws import FittedLaw, evaluate_terms
from models.laws.scaling_laws import ScalingLaw
from models.processes.gaussian import GaussianProcess
from models.regressor import PortfolioRegressor
from models.tables import FloatArray
from models.trees.boosting import ResidualTrees

Moments = tuple[FloatArray, FloatArray | None]


class SharedAnswers:
    """Answers of several members to the same rows.

    Processes with equal kernels have the same correlations with their training rows, and one law
    may be the mean of several processes and the base of trees.

    Parameters
    ----------
    X
        The rows, in the form of the members' layout.
    """

    def __init__(self, X: FloatArray) -> None:
        self._X = X
        self._levels: FloatArray | None = None
        self._processes: list[tuple[GaussianProcess, FloatArray]] = []
        self._laws: dict[int, tuple[FittedLaw, tuple[FloatArray, FloatArray]]] = {}

    def moments(self, member: PortfolioRegressor) -> Moments:
        """Return the same as `PortfolioRegressor.predict_moments` of the member."""
        if isinstance(member, GaussianProcess):
            evaluated = self._evaluated(member.law_, member.law_.laws_[0])
            return member.moments_given(evaluated, self._correlations(member))
        if isinstance(member, ScalingLaw):
            return self._law_moments(member)
        if isinstance(member, ResidualTrees):
            return self._law_moments(member.law_)[0] + member.trees_.predict(self._X), None
        return member.predict_moments(self._X)

    def _correlations(self, process: GaussianProcess) -> FloatArray:
        for other, correlations in self._processes:
            if other.kernel.is_same(process.kernel):
                return correlations
        correlations = process.correlations(self._X)
        self._processes.append((process, correlations))
        return correlations

    def _law_moments(self, law: ScalingLaw) -> tuple[FloatArray, FloatArray]:
        return law.moments_given([self._evaluated(law, fitted) for fitted in law.laws_])

    def _evaluated(self, law: ScalingLaw, fitted: FittedLaw) -> tuple[FloatArray, FloatArray]:
        """Return log durations and Jacobian of a template of a law."""
        cached = self._laws.get(id(fitted))
        if cached is None:
            terms, theta = fitted.prior.terms, fitted.theta
            if self._levels is None:
                self._levels = law.layout.one_hot(self._X)
            cached = fitted, evaluate_terms(law.layout, terms, theta, self._X, self._levels)
            self._laws[id(fitted)] = cached
        return cached[1]
