"""One table of questions to a portfolio; what their answers share is computed once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from models.answers.departures import MeasuredBounds
from models.answers.memory import Memory, row_signatures
from models.answers.standing import Standing
from models.answers.support import SupportColumns, SupportGrounds
from models.calibration.intervals import tempered, variance_of_levels
from models.calibration.lopsided import AsymmetricIntervals
from models.calibration.lower_ends import LowerEnds
from models.distribution import LEVELS, ForecastDistribution
from models.explanations.explanation import TERM_NAMES, ranked
from models.explanations.phases import PhaseLaw
from models.features.encoded import Encoded
from models.features.encoder import Encoder
from models.features.placement import Placement
from models.members.epochs import Epochs, start_up_sd
from models.members.mixture import Evaluation, Mixture, Mixtures
from models.members.regime_model import RegimeModel
from models.members.transfer import Expansion, LevelTransfer
from models.once import once
from models.questions.regimes import RegimeMap
from models.reports import Support
from models.runs.jitter import Jitter
from models.runs.noise_tails import NoiseTails
from models.tables import FeatureTable, FloatArray, IntArray

MAX_LOG_DISTANCE = 15.0
"""No forecast is further from the median duration of the runs than this, in log units."""

MAX_LOG_SCALE = 10.0
"""No forecast's standard deviation is larger than this, in log units.

A question may lie any number of measured widths beyond a parameter's range, where the uncertainty
of the trend grows without limit. Ten already says that nothing is known, and keeps the widest
calibrated bounds, those of a single configuration, finite.
"""

_MIN_VARIANCE = 1e-8
"""No forecast is more certain than a hundredth of a percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What every answer of a portfolio rests on; see `FittedPortfolio` for the parts."""

    encoder: Encoder
    transfer: LevelTransfer
    regime_map: RegimeMap
    lower_ends: LowerEnds
    lopsided: AsymmetricIntervals
    regimes: Mapping[str, RegimeModel]
    center: float
    memory: Memory
    squared_breaks: FloatArray | None
    epochs: Epochs | None
    bounds: MeasuredBounds
    supports: SupportGrounds
    mixtures: Mixtures
    jitter: Jitter | None
    placement: Placement | None
    noise_tails: NoiseTails | None

    def filled(self, questions: FeatureTable) -> FeatureTable:
        """Return the questions with everything filled in that they leave open and imply."""
        told = self.transfer.implied.filled(questions)
        return told if self.placement is None else self.placement.filled(told)

    def encode(self, questions: FeatureTable, filled: FeatureTable) -> Encoded:
        """Return encoded questions, given what `filled` returned for them."""
        encoded = self.encoder.encode(filled)
        if filled is not questions:
            implied, placement = self.transfer.implied, self.placement
            encoded = replace(encoded, variance=encoded.variance + implied.variance(questions))
            if placement is not None and not placement.is_regular:
                # The workers may be placed less densely than that, as some runs were.
                open_rows = placement.open_rows(implied.filled(questions))
                encoded = self.encoder.with_missing(encoded, "nodes", open_rows)
        return self.transfer.adjust(encoded, filled)


@dataclass(frozen=True, slots=True)
class _RegimeAnswer:
    """Rows of one regime with the answers of its mixture."""

    rows: slice | IntArray
    mixture: Mixture
    evaluation: Evaluation


class Inquiry:
    """The answers to one table of questions, each part computed when it is first used.

    Forecast, explanation and support share the encoded rows, the stand-ins of open levels and the
    evaluation of the members.

    Parameters
    ----------
    grounds
        What the portfolio knows.
    features
        The questions. A column that the fit knows and the table lacks counts as missing; one that
        the fit does not know is ignored (`support` names it).
    phase_law
        Shares of the measured phases in the duration, None if no run told phases.
    """

    def __init__(
        self, grounds: Grounds, features: FeatureTable, phase_law: PhaseLaw | None
    ) -> None:
        self._grounds, self._questions, self._phase_law = grounds, features, phase_law
        self.features = grounds.filled(features)
        """The questions, with open nodes and columns that others imply filled in."""

    @once
    def encoded(self) -> Encoded:
        """The encoded rows."""
        return self._grounds.encode(self._questions, self.features)

    @once
    def regimes(self) -> tuple[str, ...]:
        """The kind of question that each row asks."""
        return self._grounds.regime_map.of_rows(self.encoded)

    @once
    def answering(self) -> Sequence[str]:
        """What answers each row, named as in `FittedPortfolio.answering`."""
        return self._grounds.lower_ends.of_rows(self.regimes, self.encoded.X)

    @once
    def expansion(self) -> Expansion | None:
        """The stand-ins of open levels, None if every level was measured."""
        return self._grounds.transfer.expand(self.encoded, self.features)

    @once
    def forecast(self) -> ForecastDistribution:
        """The distributions of new runs; see `FittedPortfolio.predict`."""
        n = self.features.n_rows
        if n == 0:
            return ForecastDistribution(np.empty(0), np.empty(0), (), np.empty((0, len(LEVELS))))
        grounds, encoded = self._grounds, self.encoded
        mean, variance = self._moments_of_runs
        (median, scale), curves = _bounded(mean, variance, grounds.center), self._curves()
        if grounds.memory.repeated:
            median, scale = grounds.memory.limited_by_repetitions(
                encoded, self._signatures, median, scale, curves
            )
        below, above = self._half_widths(median, scale, curves)
        return ForecastDistribution(median, scale, self.regimes, below, above)

    @once
    def noise_shares(self) -> FloatArray:
        """The share of each variance that is the noise of a run, shape (n,).

        The rest is what the fit does not know, which its forecasts have in common.
        """
        if self.features.n_rows == 0:
            return np.empty(0)
        mean, variance = self._moments_of_runs
        noise = self._averages(
            [
                np.full((len(answer.evaluation.mean), 1), answer.mixture.noise)
                for answer in self._answers
            ]
        )[:, 0]
        if self._grounds.jitter is not None:
            noise = self._grounds.jitter.with_noise(noise, mean)
        return np.minimum(noise / np.maximum(variance, _MIN_VARIANCE), 1.0)

    @once
    def _moments_of_runs(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each row's log duration, with all that is not known of it."""
        grounds, encoded = self._grounds, self.encoded
        mean, variance = self._moments()
        mean = mean + encoded.shift
        epochs_correction = None if grounds.epochs is None else self.epochs_correction
        if epochs_correction is not None:
            mean = mean + epochs_correction[0]
        if grounds.jitter is not None:
            variance = grounds.jitter.with_noise(variance, mean)
        variance = variance + encoded.variance
        if epochs_correction is not None:
            variance = variance + np.vecdot(epochs_correction[1], epochs_correction[1])
        if grounds.squared_breaks is not None:
            variance = variance + encoded.excess**2 @ grounds.squared_breaks
        return mean, variance

    def _half_widths(
        self, median: FloatArray, scale: FloatArray, curves: FloatArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return half widths in scales below the medians, and above them (None if the same)."""
        grounds = self._grounds
        below, above = grounds.lopsided.curves(self.encoded, scale, curves)
        if grounds.noise_tails is None:
            return below, above
        noise = np.ones(len(scale))
        if grounds.jitter is not None:
            noise = np.sqrt(grounds.jitter.factor(median - grounds.center))
        return grounds.noise_tails.widened(noise / scale, below, above)

    @once
    def standing(self) -> Standing:
        """Where the rows leave what was measured."""
        return Standing(self._grounds.bounds, self.features, self.encoded)

    @once
    def supports(self) -> SupportColumns:
        """How well the runs support the rows, in columns."""
        return self._grounds.supports.describe(
            self.features, self.encoded, self._signatures, self.standing.departures
        )

    @once
    def support(self) -> list[Support]:
        """How well the runs support each row."""
        return self.supports.rows()

    @once
    def explanation(self) -> list[dict[str, float]]:
        """What each duration is made of; see `FittedPortfolio.explain`."""
        if self.features.n_rows == 0:
            return []
        names, order, shares = self.ranked
        return [
            {names[column]: share for column, share in zip(*row, strict=True) if share > 0}
            for row in zip(order.tolist(), shares.tolist(), strict=True)
        ]

    @once
    def ranked(self) -> tuple[Sequence[str], IntArray, FloatArray]:
        """The phases, or the terms where no run told phases, as columns: names, order and shares.

        There must be at least one question. See `models.explanations.explanation.ranked`.
        """
        law = self._phase_law
        if law is None:
            return list(TERM_NAMES.values()), *ranked(self._shares)
        shares = law.shares(self._grounds.encoder.layout, self.encoded.X)
        return law.names, *ranked(shares)

    @once
    def epochs_correction(self) -> tuple[FloatArray, FloatArray] | None:
        """Correction for rows with other epochs than the runs, None without such a row.

        It consists of a shift of the log durations, shape (n,), and two deviations, shape (n, 2):
        from a start-up and from the fixed part. Each is one unknown for all rows; a start-up makes
        more epochs shorter and fewer ones longer than in proportion. See `Epochs`.
        """
        epochs = self._grounds.epochs
        if epochs is None or not self.encoded.excess[:, epochs.feature].any():
            return None
        deviations = np.zeros((self.features.n_rows, 2))
        from_start_up = start_up_sd(self.encoded.excess[:, epochs.feature])
        deviations[:, 0] = np.copysign(from_start_up, self.encoded.X[:, epochs.place])
        if not epochs.is_one:
            return np.zeros(len(deviations)), deviations
        expansion = self.expansion
        X = self.encoded.X if expansion is None else expansion.X
        readings = self._averages(
            [
                epochs.readings(X[answer.rows], answer.mixture, answer.evaluation.shares)
                for answer in self._answers
            ]
        )
        deviations[:, 1] = (readings[:, 1] - readings[:, 0]) / 2
        return readings.mean(axis=1), deviations

    @once
    def _signatures(self) -> list[bytes]:
        return row_signatures(self.encoded)

    @once
    def _answers(self) -> list[_RegimeAnswer]:
        """The mixtures' answers to the rows or to their stand-ins, by regime."""
        expansion, regimes = self.expansion, self.answering
        X = self.encoded.X
        if expansion is not None:
            X, regimes = expansion.X, [regimes[row] for row in expansion.source]
        answers = []
        for name, rows in _rows_by_regime(regimes).items():
            mixture = self._grounds.mixtures.of(name)
            answers.append(_RegimeAnswer(rows, mixture, mixture.evaluate(X[rows])))
        return answers

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of each row's log duration relative to the centre."""
        expansion = self.expansion
        means = self._in_row_order([answer.evaluation.mean for answer in self._answers])
        variances = self._in_row_order([answer.evaluation.variance for answer in self._answers])
        if expansion is None:
            return means, variances
        means, variances = means + expansion.shift, variances + expansion.variance
        n, source, weights = self.features.n_rows, expansion.source, expansion.weights
        mean, variance, between, unknown = np.zeros((4, n))
        np.add.at(mean, source, weights * means)
        np.add.at(variance, source, weights * variances)
        np.add.at(between, source, weights * (means - mean[source]) ** 2)
        np.add.at(unknown, source, weights * expansion.unknown)
        return mean, variance + variance_of_levels(between, unknown)

    @once
    def _shares(self) -> FloatArray:
        """The shares of `TERMS` in each row, shape (n, n_terms)."""
        return self._averages(
            [answer.mixture.term_shares(answer.evaluation.shares) for answer in self._answers]
        )

    def _averages(self, parts: Sequence[FloatArray]) -> FloatArray:
        """Return the results of all regimes, averaged over each row's stand-ins; (n, n_columns)."""
        values, expansion = self._in_row_order(parts), self.expansion
        if expansion is None:
            return values
        averages = np.zeros((self.features.n_rows, values.shape[1]))
        np.add.at(averages, expansion.source, expansion.weights[:, None] * values)
        return averages

    def _in_row_order(self, parts: Sequence[FloatArray]) -> FloatArray:
        """Return the results of all regimes in the order of the rows."""
        if len(parts) == 1:
            return parts[0]
        gathered: FloatArray = np.empty((sum(map(len, parts)), *parts[0].shape[1:]))
        for answer, part in zip(self._answers, parts, strict=True):
            gathered[answer.rows] = part
        return gathered

    def _curves(self) -> FloatArray:
        """Return the calibrated half widths of each row, shape (n, n_levels)."""
        names, regimes = self.regimes, self._grounds.regimes
        index_of = {name: index for index, name in enumerate(dict.fromkeys(names))}
        if len(index_of) == 1:
            curve = regimes[names[0]].curve[None]
            return curve if len(names) == 1 else curve.repeat(len(names), axis=0)
        table = np.array([regimes[name].curve for name in index_of])
        curves: FloatArray = table[[index_of[name] for name in names]]
        return curves


def _bounded(
    mean: FloatArray, variance: FloatArray, center: float
) -> tuple[FloatArray, FloatArray]:
    """Return log medians and tempered scales, both within their bounds."""
    # The bounds let NaN pass; the distribution refuses it.
    if len(mean) == 1:
        bounded = min(max(mean.item(), -MAX_LOG_DISTANCE), MAX_LOG_DISTANCE)
        scale = tempered(sqrt(max(variance.item(), _MIN_VARIANCE)))
        return np.array([bounded + center]), np.array([min(scale, MAX_LOG_SCALE)])
    bounded_mean = np.minimum(np.maximum(mean, -MAX_LOG_DISTANCE), MAX_LOG_DISTANCE)
    scales = tempered(np.sqrt(np.maximum(variance, _MIN_VARIANCE)))
    return bounded_mean + center, np.minimum(scales, MAX_LOG_SCALE)


def _rows_by_regime(regimes: Sequence[str]) -> dict[str, slice | IntArray]:
    """Return the rows of each regime."""
    first = regimes[0]
    if len(set(regimes)) == 1:
        return {first: slice(None)}
    rows: dict[str, list[int]] = {}
    for row, regime in enumerate(regimes):
        rows.setdefault(regime, []).append(row)
    return {name: np.array(indices, dtype=np.int64) for name, indices in rows.items()}
