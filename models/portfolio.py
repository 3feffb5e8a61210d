"""A fitted portfolio: the regressors of one workload, their weights and their calibration."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from models.convergence import ConvergenceLaw
from models.distribution import LEVELS, ForecastDistribution
from models.encoding import Encoded, Encoder
from models.explanation import PhaseShare, TermShare, explain_rows, name_shares
from models.holdout import SHORT_AXIS_BREAK, TREND_BREAK
from models.influence import Influences, Lesson, name_lessons
from models.intervals import tempered
from models.memory import Memory
from models.memory_law import Feasibility, MemoryLaw
from models.mixture import Mixture, RegimeModel
from models.phases import PhaseLaw
from models.power_laws import TERMS, Term
from models.regimes import FEW_CONFIGURATIONS, RegimeMap
from models.regressor import PortfolioRegressor
from models.reports import FitReport, Support
from models.support import describe_support
from models.tables import FeatureTable, FloatArray
from models.transfer import LevelTransfer

MAX_LOG_DISTANCE = 15.0
"""No forecast is further from the median duration of the runs than this, in log units."""

NO_MEMORY_EVIDENCE = "no memory measurements"

_MIN_VARIANCE = 1e-8
_KEPT_ROWS = 64
_Asked: TypeAlias = tuple[Encoded, tuple[str, ...]]


class FittedPortfolio:
    """The published form of a fit: forecasts with intervals, and what supports them.

    Made by `fit_portfolio` or `loads`; immutable by convention.

    Parameters
    ----------
    encoder, transfer, regime_map
        How questions are encoded, open levels answered, and kinds of question told apart.
    members
        The regressors with weight in some regime, by name.
    regimes
        How each kind of question is answered.
    center
        Median log duration of the configurations; the members forecast what is above it.
    memory
        The configurations of the fit: rows, keys, names of runs, held-out forecasts.
    report
        What was fitted on what, and how well.
    memory_law
        Whether a configuration fits into GPU memory, None if no run tells anything of it.
    convergence
        How many samples the target takes with a batch size, None if no run reached one.
    phases
        How the phases that runs told share the duration, None if no run told any.

    Attributes
    ----------
    trend_breaks
        Log standard deviation, per log unit beyond the measured range, of a break in the trend of
        each numeric feature, shape (n_numeric,).
    """

    def __init__(  # noqa: PLR0913 - the parts of an artefact, named once where it is built
        self,
        encoder: Encoder,
        transfer: LevelTransfer,
        regime_map: RegimeMap,
        members: Mapping[str, PortfolioRegressor],
        regimes: Mapping[str, RegimeModel],
        center: float,
        memory: Memory,
        report: FitReport,
        memory_law: MemoryLaw | None = None,
        convergence: ConvergenceLaw | None = None,
        phases: PhaseLaw | None = None,
    ) -> None:
        self.encoder, self.transfer, self.regime_map = encoder, transfer, regime_map
        self.members, self.regimes = dict(members), dict(regimes)
        self.center, self.memory, self.report = center, memory, report
        self.memory_law, self.convergence, self.phases = memory_law, convergence, phases
        self._mixtures: dict[str, Mixture] = {}
        self._influences: Influences | None = None
        self._latest: tuple[FeatureTable, _Asked] | None = None
        self.trend_breaks = _trend_breaks(encoder, regime_map, report.n_configurations)

    def predict(self, features: FeatureTable) -> ForecastDistribution:
        """Return the forecast distribution of a new run of each row.

        Parameters
        ----------
        features
            The questions. A column that the fit knows and the table lacks counts as missing; one
            that the fit does not know is ignored (`support` names it).

        Returns
        -------
        ForecastDistribution
            Log seconds, shape (n_rows,): positive and finite, wider with the distance from the
            measured range; the median of a repeated configuration lies within its repetitions.

        Raises
        ------
        DamagedForecastError
            If a forecast is not finite: a bug or a damaged artefact, never clipped in silence.
        """
        if features.n_rows == 0:
            return ForecastDistribution(np.empty(0), np.empty(0), (), np.empty((0, len(LEVELS))))
        encoded, regimes = self._asked(features)
        mean, variance = self._answer(encoded, features, regimes)
        variance = variance + encoded.variance
        variance = variance + encoded.excess**2 @ self.trend_breaks**2
        bounded = self.center + np.clip(mean, -MAX_LOG_DISTANCE, MAX_LOG_DISTANCE)
        curves = np.array([self.regimes[regime].curve for regime in regimes])
        scale = tempered(np.sqrt(np.maximum(variance, _MIN_VARIANCE)))
        median = self.memory.within_repetitions(encoded, np.where(np.isnan(mean), mean, bounded))
        return ForecastDistribution(median, scale, regimes, curves)

    def support(self, features: FeatureTable) -> list[Support]:
        """Return how well the runs support each row: ranges, levels, nearest runs, basis."""
        encoded, _ = self._asked(features)
        return describe_support(
            features, encoded, self.encoder, self.transfer, self.memory, self.regime_map.few_levels
        )

    def feasibility(self, features: FeatureTable) -> Feasibility:
        """Return the probability that each row fits into GPU memory, NaN without evidence."""
        if self.memory_law is None:
            n = features.n_rows
            return Feasibility(np.full(n, np.nan), (NO_MEMORY_EVIDENCE,) * n, is_tested=False)
        return self.memory_law.feasibility(features)

    def explain(self, features: FeatureTable) -> list[tuple[TermShare, ...]]:
        """Return for each row what its duration is made of, the largest share first.

        The shares are those of the terms of the laws that answer the question, weighted as in the
        forecast; they sum to 1 and leave out what is below 0.1 %. A question without an answer by
        laws has none. Corrections of the processes multiply all terms alike and have no share.
        """
        if features.n_rows == 0:
            return []
        encoded, regimes = self._asked(features)
        expansion = self.transfer.expand(encoded, features)
        if expansion is None:
            return explain_rows(self._term_shares(encoded.X, regimes))
        asked = [regimes[row] for row in expansion.source]
        shares = self._term_shares(expansion.X, asked)
        total = {term: np.zeros(len(regimes)) for term in shares}
        for term, column in shares.items():
            np.add.at(total[term], expansion.source, expansion.weights * column)
        return explain_rows(total)

    def explain_phases(self, features: FeatureTable) -> list[tuple[PhaseShare, ...]]:
        """Return for each row how the measured phases share its duration, the largest first.

        They sum to 1 and leave out what is below 0.1 %; there are none where no run told phases.
        """
        if self.phases is None:
            return [()] * features.n_rows
        shares = self.phases.shares(self.encoder.layout, self._asked(features)[0].X)
        return name_shares(self.phases.names, shares, PhaseShare)

    def taught_by(self, features: FeatureTable) -> list[tuple[Lesson, ...]]:
        """Return for each row which configurations taught its forecast most, and what.

        A forecast by trees alone names none.
        """
        if features.n_rows == 0:
            return []
        if self._influences is None:
            self._influences = Influences(self.encoder.layout, self.members, self.memory.X)
        encoded, regimes = self._asked(features)
        expansion = self.transfer.expand(encoded, features)
        lessons: list[tuple[Lesson, ...]] = []
        for row, regime in enumerate(regimes):
            X, shares = encoded.X[[row]], np.ones(1)
            if expansion is not None:
                own = expansion.source == row
                X, shares = expansion.X[own], expansion.weights[own]
            derivatives = self._influences.of(X, self.regimes[regime].weights)
            whole = np.tensordot(shares, derivatives, axes=1)
            lessons.append(name_lessons(whole, self.memory.names))
        return lessons

    def _asked(self, features: FeatureTable) -> _Asked:
        """Return the encoded rows and the kind of each, those of a small table asked last kept.

        A forecast asks the same table for its figures, their explanation and their support.
        """
        latest = self._latest
        if latest is not None and latest[0] is features:
            return latest[1]
        encoded = self.transfer.settle(self.encoder.encode(features))
        regimes = self.regime_map.of_rows(self.encoder, encoded.distances, encoded.codes)
        if features.n_rows <= _KEPT_ROWS:
            self._latest = features, (encoded, regimes)
        return encoded, regimes

    def _term_shares(self, X: FloatArray, regimes: Sequence[str]) -> dict[Term, FloatArray]:
        total = {term: np.zeros(len(X)) for term in TERMS}
        for name, rows in _rows_of(regimes).items():
            for term, column in self._mixture(name).term_shares(X[rows]).items():
                total[term][rows] = column
        return total

    def _answer(
        self, encoded: Encoded, features: FeatureTable, regimes: tuple[str, ...]
    ) -> tuple[FloatArray, FloatArray]:
        expansion = self.transfer.expand(encoded, features)
        if expansion is None:
            return self._moments(encoded.X, regimes)
        asked = tuple(regimes[row] for row in expansion.source)
        means, variances = self._moments(expansion.X, asked)
        means, variances = means + expansion.shift, variances + expansion.variance
        n, source, weights = len(regimes), expansion.source, expansion.weights
        mean, variance = np.zeros(n), np.zeros(n)
        np.add.at(mean, source, weights * means)
        np.add.at(variance, source, weights * (variances + (means - mean[source]) ** 2))
        return mean, variance

    def _moments(self, X: FloatArray, regimes: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of each row's log duration, by the mixture of its regime."""
        first = regimes[0]
        if len(X) == 1 or all(regime == first for regime in regimes):
            return self._mixture(first).moments(X)
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for name, rows in _rows_of(regimes).items():
            mean[rows], variance[rows] = self._mixture(name).moments(X[rows])
        return mean, variance

    def _mixture(self, regime: str) -> Mixture:
        """Return a regime's mixture, made when first asked for."""
        mixture = self._mixtures.get(regime)
        if mixture is None:
            members, layout = self.members.values(), self.encoder.layout
            mixture = Mixture(layout, members, self.regimes[regime])
            self._mixtures[regime] = mixture
        return mixture


def _trend_breaks(encoder: Encoder, regime_map: RegimeMap, n_configurations: int) -> FloatArray:
    """Return what a trend's break adds along each feature: the batch, and axes of two levels.

    With few configurations the spread of an axis's exponent is wide enough by itself.
    """
    short = SHORT_AXIS_BREAK if n_configurations >= FEW_CONFIGURATIONS else 0.0
    breaks: FloatArray = np.zeros(len(encoder.numeric))
    for index, feature in enumerate(encoder.numeric):
        if feature.role == "local_batch":
            breaks[index] = TREND_BREAK
        elif feature.used and regime_map.kinds.get(feature.column) == "short_axis":
            breaks[index] = short
    return breaks


def _rows_of(regimes: Sequence[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, regime in enumerate(regimes):
        rows.setdefault(regime, []).append(row)
    return rows
