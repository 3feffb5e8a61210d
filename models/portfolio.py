"""A fitted portfolio: the regressors of one workload, their weights and their calibration."""

from collections.abc import Mapping

import numpy as np

from models.accelerator_memory.law import Feasibility, MemoryLaw
from models.answers.departures import MeasuredBounds
from models.answers.inquiry import Grounds, Inquiry
from models.answers.memory import Memory
from models.answers.support import SupportGrounds
from models.calibration.lopsided import AsymmetricIntervals
from models.calibration.lower_ends import LowerEnds
from models.columns.relevance import IRRELEVANT
from models.convergence import ConvergenceLaw
from models.distribution import ForecastDistribution
from models.explanations.influence import Influences, Lesson, name_lessons
from models.explanations.phases import PhaseLaw
from models.features.encoder import Encoder
from models.features.placement import Placement
from models.members.epochs import Epochs
from models.members.mixture import Mixtures
from models.members.regime_model import RegimeModel
from models.members.transfer import LevelTransfer
from models.questions.regimes import IRRELEVANT_AXIS, UNTESTED_AXES, RegimeMap
from models.regressor import PortfolioRegressor
from models.reports import FitReport, Support
from models.runs.jitter import Jitter
from models.runs.noise_tails import NoiseTails
from models.selection.holdout import trend_breaks
from models.tables import FeatureTable, FloatArray

_SHORT_AXIS_BREAK = 0.3
"""Replaces the break of `models.selection.holdout` along an axis with one or two levels."""

NO_MEMORY_EVIDENCE = "no memory measurements"


class FittedPortfolio:
    """The published form of a fit: forecasts with intervals, and what supports them.

    Made by `fit_portfolio` or `loads`; immutable by convention.

    Parameters
    ----------
    encoder, transfer, regime_map
        How questions are encoded, unseen or unspecified levels answered, and regimes told apart.
    members
        The regressors with weight in some regime, by name.
    regimes
        How each kind of question is answered.
    center
        Median log duration of the configurations; the members forecast log durations less this.
    memory
        The configurations of the fit: rows, keys, names of runs, held-out forecasts.
    report
        What was fitted on what, and how well.
    memory_law
        Whether a configuration fits into GPU memory, None if no run shows anything about it.
    convergence
        How many samples the target takes at a batch size, None if no run reached one.
    phases
        How the phases that runs reported share the duration, None if no run reported any.
    jitter
        How the noise of runs depends on the duration, None where it is the same for all.
    placement
        How workers are placed on nodes where a question does not say, None where no run shows it.
    noise_tails
        The tails of the noise of runs, None where they are no heavier than normal.

    Attributes
    ----------
    trend_breaks
        Log standard deviation, per log unit beyond the measured range, of a break in the trend of
        each numeric feature, shape (n_numeric,).
    answering
        `regimes`, and what answers below the range of an axis (`models.calibration.lower_ends`).
    """

    def __init__(  # noqa: PLR0913 - the parts of an artefact, named once where it is built
        self,
        *,
        encoder: Encoder,
        transfer: LevelTransfer,
        regime_map: RegimeMap,
        members: Mapping[str, PortfolioRegressor],
        regimes: Mapping[str, RegimeModel],
        center: float,
        memory: Memory,
        report: FitReport,
        memory_law: MemoryLaw | None,
        convergence: ConvergenceLaw | None,
        phases: PhaseLaw | None,
        jitter: Jitter | None,
        placement: Placement | None,
        noise_tails: NoiseTails | None,
    ) -> None:
        self.encoder, self.transfer, self.regime_map = encoder, transfer, regime_map
        self.members, self.regimes = dict(members), dict(regimes)
        self.center, self.memory, self.report = center, memory, report
        self.memory_law, self.convergence, self.phases = memory_law, convergence, phases
        self.jitter, self.placement, self.noise_tails = jitter, placement, noise_tails
        self._influences: Influences | None = None
        n_configurations = report.n_configurations
        self.trend_breaks = _trend_breaks(encoder, regime_map, n_configurations)
        lower_ends = LowerEnds(encoder, self.regimes, regime_map.kinds, n_configurations)
        self.answering = self.regimes | lower_ends.models
        self._grounds = Grounds(
            encoder=encoder,
            transfer=transfer,
            regime_map=regime_map,
            lower_ends=lower_ends,
            lopsided=AsymmetricIntervals(encoder),
            regimes=self.regimes,
            center=center,
            memory=memory,
            squared_breaks=self.trend_breaks**2 if self.trend_breaks.any() else None,
            epochs=Epochs.of(encoder),
            bounds=MeasuredBounds(encoder, memory.known_columns),
            supports=SupportGrounds(encoder, transfer, memory, regime_map),
            mixtures=Mixtures(encoder.layout, self.members, self.answering),
            jitter=jitter,
            placement=placement,
            noise_tails=noise_tails,
        )

    def ask(self, features: FeatureTable) -> Inquiry:
        """Return the answers to a table of questions; each part is computed at first access."""
        return Inquiry(self._grounds, features, self.phases)

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
            Of durations, shape (n_rows,): positive and finite, wider with the distance from the
            measured range; the median of a repeated configuration lies within its repetitions.

        Raises
        ------
        DamagedForecastError
            If a forecast is not finite: a bug or a damaged artefact, never clipped in silence.
        """
        return self.ask(features).forecast

    def noise_factors(self, log_duration: FloatArray) -> FloatArray:
        """Return the noise variance of runs at each log duration over the usual one, shape (n,).

        The usual one is the square of the report's noise floor. All factors are 1 without jitter.
        """
        if self.jitter is None:
            return np.ones(len(log_duration))
        return self.jitter.factor(log_duration - self.center)

    def support(self, features: FeatureTable) -> list[Support]:
        """Return how well the runs support each row: ranges, levels, nearest runs, basis."""
        return self.ask(features).support

    def feasibility(self, features: FeatureTable) -> Feasibility:
        """Return the probability that each row fits into GPU memory, NaN without evidence."""
        if self.memory_law is None:
            n = features.n_rows
            return Feasibility(np.full(n, np.nan), (NO_MEMORY_EVIDENCE,) * n, is_tested=False)
        return self.memory_law.feasibility(self._grounds.filled(features))

    def explain(self, features: FeatureTable) -> list[dict[str, float]]:
        """Return for each row the named shares that make up its duration, the largest first.

        The shares are those of the measured phases if runs reported any, otherwise those of the
        terms of the laws that answer the question, weighted as in the forecast. They sum to 1 and
        leave out what is below 0.1 %. Without phases, a question that no law answers has none.
        Corrections by the processes multiply all terms alike and have no share.
        """
        return self.ask(features).explanation

    def taught_by(self, features: FeatureTable) -> list[tuple[Lesson, ...]]:
        """Return for each row the configurations with most influence on its forecast, and how much.

        A forecast by trees alone names none.
        """
        if features.n_rows == 0:
            return []
        if self._influences is None:
            # An outlier without repetitions was moved to what the other runs imply.
            outlier_ids = {outlier.run_id for outlier in self.report.evidence.outliers}
            excluded = self.memory.names.rows_with_one_of(outlier_ids)
            self._influences = Influences(
                self.encoder.layout, self.members, self.memory.X, excluded
            )
        inquiry, n = self.ask(features), features.n_rows
        X, source, shares = inquiry.encoded.X, np.arange(n), np.ones(n)
        if (expansion := inquiry.expansion) is not None:
            X, source, shares = expansion.X, expansion.source, expansion.weights
        regimes = np.array(inquiry.answering)[source]
        size = self._influences.questions_at_once(len(X) / n)
        lessons: list[tuple[Lesson, ...]] = []
        for start in range(0, n, size):
            influence = np.zeros((min(size, n - start), *self._influences.shape))
            is_here = (source >= start) & (source < start + size)
            for regime in np.unique(regimes[is_here]).tolist():
                rows = np.flatnonzero(is_here & (regimes == regime))
                derivatives = self._influences.of(X[rows], self.answering[regime].weights)
                np.add.at(influence, source[rows] - start, shares[rows, None, None] * derivatives)
            lessons += [name_lessons(of_row, self.memory.names) for of_row in influence]
        return lessons


def _trend_breaks(encoder: Encoder, regime_map: RegimeMap, n_configurations: int) -> FloatArray:
    """Return what a break in the trend adds along each feature, shape (n_numeric,).

    A log standard deviation per log unit: larger where at most two levels were measured (except for
    the batch size), since no held-out set tests such a trend; zero where all runs have the same
    value, since no trend is known there.
    """
    breaks = trend_breaks([feature.role for feature in encoder.numeric], n_configurations)
    for index, feature in enumerate(encoder.numeric):
        kind = regime_map.kinds[feature.column]
        if not feature.used:
            breaks[index] = 0.0
        elif kind == IRRELEVANT_AXIS:
            breaks[index] *= IRRELEVANT
        elif breaks[index] and kind in UNTESTED_AXES and feature.role != "local_batch":
            breaks[index] = _SHORT_AXIS_BREAK
    return breaks
