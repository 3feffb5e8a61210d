"""The joint distribution of many forecasts: what a run of one would tell about another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.calibration.intervals import tempered, variance_of_levels
from models.distribution import AT_90, NORMAL_90
from models.features.encoded import Encoded
from models.features.encoder import UNSEEN
from models.features.numeric import NumericFeature, apply_transform, quotient_of, snapped
from models.members.regime_model import RegimeModel
from models.members.transfer import Expansion
from models.portfolio import FittedPortfolio
from models.regressor import PortfolioRegressor
from models.runs.jitter import Jitter
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray

_MAX_COVARIANCES = 4_000_000
"""How many covariances of stand-ins are held in memory at once."""


@dataclass(frozen=True, slots=True)
class JointForecast:
    """The joint normal distribution of the log durations of candidates and targets.

    Targets of one kind of question share the weights of the portfolio's members, hence one
    covariance.

    Parameters
    ----------
    covariance
        Covariance of candidates, then targets, without the noise of a run, shape (n, n).
    noise
        Noise variance of one run of each candidate and target, which no measurement removes,
        shape (n,).
    half_width
        Calibrated half width at 90 % of each target, in tempered standard deviations, shape
        (n_targets,).
    targets
        Indices of these targets among all asked ones, shape (n_targets,).
    """

    covariance: FloatArray
    noise: FloatArray
    half_width: FloatArray
    targets: IntArray

    @property
    def n_candidates(self) -> int:
        """How many configurations may be measured."""
        return len(self.covariance) - len(self.half_width)

    def calibration(self, variance: FloatArray) -> FloatArray:
        """Return the factors that make the deviations of rows agree with calibrated intervals.

        Parameters
        ----------
        variance
            Variance of each row's log duration, shape (n,), positive.
        """
        deviation = np.sqrt(variance)
        return np.asarray(self.half_width[0] / NORMAL_90 * tempered(deviation) / deviation)


def joint_forecast(
    portfolio: FittedPortfolio, candidates: FeatureTable, targets: FeatureTable
) -> list[JointForecast]:
    """Return the joint distributions of candidates and targets, one per kind of question asked.

    The covariance of the mixture is the mean of the members' covariances plus the covariance of
    their means, so that a run where the members disagree also removes the disagreement. What the
    runs could not identify (an unseen level, a constant parameter, a trend beyond the measured
    batches) is one unknown, shared by all rows that it affects.

    Parameters
    ----------
    portfolio
        The fitted portfolio.
    candidates
        Configurations that may be measured.
    targets
        Configurations whose forecasts should become certain.

    Raises
    ------
    ValueError
        If there is no candidate or no target.

    References
    ----------
    Rasmussen and Williams (2006), Gaussian processes for machine learning, ch. 2. Hoeting, Madigan,
    Raftery, Volinsky (1999), Bayesian model averaging: a tutorial, Statistical Science 14(4).

    Examples
    --------
    >>> from models.fitting import fit_portfolio
    >>> from models.tables import RunTable
    >>> workers = np.array([1.0, 2.0, 4.0])
    >>> table = RunTable(FeatureTable({"workers": workers}, {}, 3), 800 / workers, list("abc"))
    >>> portfolio = fit_portfolio(table, seed=0, time_budget_s=10)
    >>> target = FeatureTable({"workers": np.array([64.0])}, {}, 1)
    >>> joint = joint_forecast(portfolio, table.features, target)[0]
    >>> bool(joint.covariance[3, 3] > joint.covariance[0, 0])
    True
    """
    if not (candidates.n_rows and targets.n_rows):
        raise ValueError("A joint forecast needs a candidate and a target.")
    inquiry = portfolio.ask(candidates.above(targets))
    rows, encoded = inquiry.features, inquiry.encoded
    n, answering = candidates.n_rows, inquiry.answering[candidates.n_rows :]
    regimes = list(dict.fromkeys(answering))
    weights = [portfolio.answering[regime].weights for regime in regimes]
    moments = _MemberMoments.of(portfolio, rows, encoded, np.max(weights, axis=0) > 0)
    joints = []
    for regime in regimes:
        indices = np.flatnonzero([name == regime for name in answering])
        kept = np.concatenate([np.arange(n), n + indices])
        model = portfolio.answering[regime]
        width = float(model.curve[AT_90])
        covariance, noise = moments.of_mixture(model, kept, portfolio.jitter)
        joints.append(JointForecast(covariance, noise, np.full(len(indices), width), indices))
    return joints


@dataclass(frozen=True, slots=True)
class _MemberMoments:
    """Means, covariances and noises of the members for all rows, and their shared covariance."""

    means: list[FloatArray]
    covariances: list[FloatArray | None]
    noises: list[float | None]
    shared: FloatArray

    @classmethod
    def of(
        cls, portfolio: FittedPortfolio, rows: FeatureTable, encoded: Encoded, has_weight: BoolArray
    ) -> "_MemberMoments":
        """Return the members' moments of rows, with covariances only for members with weight."""
        expansion = portfolio.transfer.expand(encoded, rows)
        members = list(portfolio.members.values())
        noises = [member.run_variance for member in members]
        shared = _common_unknowns(portfolio, rows, encoded)
        if expansion is None:
            means = [member.predict(encoded.X) for member in members]
            indices = np.arange(rows.n_rows)
            stand_ins = _StandIns(encoded.X, np.ones(rows.n_rows), indices, indices)
            return cls(means, stand_ins.covariances(members, has_weight), noises, shared)
        X = expansion.X
        stand_ins = _StandIns.of(expansion, rows.n_rows)
        forecasts = [member.predict(X) + expansion.shift for member in members]
        mean = np.mean(forecasts, axis=0)
        between = stand_ins.mean(mean**2) - stand_ins.mean(mean) ** 2
        level_variance = variance_of_levels(
            np.maximum(between, 0.0), stand_ins.mean(expansion.unknown)
        )
        level_sd = np.sqrt(stand_ins.mean(expansion.variance) + level_variance)
        shared = shared + np.outer(level_sd, level_sd) * _same_levels(portfolio, rows, encoded)
        means = [stand_ins.mean(forecast) for forecast in forecasts]
        return cls(means, stand_ins.covariances(members, has_weight), noises, shared)

    def of_mixture(
        self, model: RegimeModel, kept: IntArray, jitter: Jitter | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return covariance and noise of the rows `kept` under the weights of a regime.

        Members without a joint distribution count by their means, and also by their held-out errors
        where no other member has weight.
        """
        weights = model.weights
        means = np.array(self.means)[:, kept]
        deviations = means - weights @ means
        within, known_weight = np.zeros((len(kept),) * 2), 0.0
        for weight, member_covariance in zip(weights, self.covariances, strict=True):
            if member_covariance is not None and weight > 0:
                within += weight * member_covariance[np.ix_(kept, kept)]
                known_weight += weight
        between = (weights[:, None] * deviations).T @ deviations
        if known_weight > 0:
            within = within / known_weight
        noises = np.full(len(kept), model.noise(self.noises))
        if jitter is not None:
            noises = jitter.with_noise(noises, weights @ means)
        return within + between + self.shared[np.ix_(kept, kept)], noises


@dataclass(frozen=True, slots=True)
class _StandIns:
    """The stand-ins of questions, sorted by question.

    Question i is the weighted sum of the rows of `X` from ``starts[i]`` up to the next start.
    `order` gives their positions in the expansion.
    """

    X: FloatArray
    weights: FloatArray
    starts: IntArray
    order: IntArray

    @classmethod
    def of(cls, expansion: Expansion, n: int) -> "_StandIns":
        """Return the stand-ins of n questions."""
        order = np.argsort(expansion.source, kind="stable")
        starts = np.searchsorted(expansion.source[order], np.arange(n))
        return cls(expansion.X[order], expansion.weights[order], starts, order)

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the weighted mean for each question, given values of the expansion's rows."""
        weighted = self.weights * values[self.order]
        return np.asarray(np.add.reduceat(weighted, self.starts), dtype=np.float64)

    def covariances(
        self, members: Sequence[PortfolioRegressor], has_weight: BoolArray
    ) -> list[FloatArray | None]:
        """Return the covariance of the questions by each member with weight."""
        return [
            self._covariance(member) if is_needed else None
            for member, is_needed in zip(members, has_weight, strict=True)
        ]

    def _covariance(self, member: PortfolioRegressor) -> FloatArray | None:
        """Return the covariance of the questions by one member, computed in parts.

        Six stand-ins per question have 36 times as many covariances: gigabytes for 2,000 questions.
        """
        n, ends = len(self.starts), np.append(self.starts[1:], len(self.X))
        covariance = np.empty((n, n))
        for rows in np.array_split(
            np.arange(n), min(n, -(-(len(self.X) ** 2) // _MAX_COVARIANCES))
        ):
            first, last = self.starts[rows[0]], ends[rows[-1]]
            block = member.covariance(self.X[first:last], self.X)
            if block is None:
                return None
            by_row = np.add.reduceat(block * self.weights, self.starts, axis=1)
            weighted = by_row * self.weights[first:last, None]
            covariance[rows] = np.add.reduceat(weighted, self.starts[rows] - first, axis=0)
        return covariance


def _common_unknowns(
    portfolio: FittedPortfolio, rows: FeatureTable, encoded: Encoded
) -> FloatArray:
    """Return the covariance from unidentified parameters and from breaks in trends.

    These are shared by all rows: the exponents of constant parameters, those of columns that went
    together in all runs, and what is unknown of other epochs. What a row leaves open is its own.
    """
    loadings = portfolio.transfer.companions.unknowns(rows, encoded)
    total = loadings @ loadings.T
    for index, feature in enumerate(portfolio.encoder.numeric):
        if not feature.used:
            exponent = feature.exponent_sd * _signed_excess(feature, rows, encoded.excess[:, index])
            total += np.outer(exponent, exponent)
    own_variance = np.maximum(encoded.variance - np.diag(total), 0.0)
    total += np.diag(own_variance)
    # What is unknown of other epochs is not part of the encoded variance.
    epochs_correction = portfolio.ask(rows).epochs_correction
    if epochs_correction is not None:
        total += epochs_correction[1] @ epochs_correction[1].T
    for index, deviation in enumerate(portfolio.trend_breaks.tolist()):
        loading = deviation * encoded.excess[:, index]
        total = total + np.outer(loading, loading)
    return total


def _signed_excess(feature: NumericFeature, rows: FeatureTable, excess: FloatArray) -> FloatArray:
    """Return how far rows are from the value of a constant column, negative below it.

    An exponent that lengthens runs above that value shortens those below it.
    """
    column, workers = rows.numeric.get(feature.column), rows.numeric.get("workers")
    if column is None:
        return excess
    known_workers = None if workers is None else snapped(workers)
    values = quotient_of(snapped(column), known_workers, feature.quotient)
    return np.copysign(excess, apply_transform(feature, values))


def _same_levels(portfolio: FittedPortfolio, rows: FeatureTable, encoded: Encoded) -> FloatArray:
    """Return 1 where two rows leave the same levels open, by the same names; shape (n, n)."""
    names = [category.column for category in portfolio.encoder.categories]
    keys: list[tuple[tuple[str, str | None], ...]] = []
    for row, codes in enumerate(encoded.codes.tolist()):
        keys.append(
            tuple(
                (name, rows.categorical[name][row] if code == UNSEEN else None)
                for name, code in zip(names, codes, strict=True)
                if code < 0
            )
        )
    index_of = {key: position for position, key in enumerate(dict.fromkeys(keys))}
    groups = np.array([index_of[key] for key in keys])
    return np.asarray(np.equal.outer(groups, groups), dtype=np.float64)
