"""The joint distribution of many forecasts: what a run of one would tell about another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.calibration.intervals import tempered, variance_of_levels
from models.distribution import AT_90, NORMAL_90
from models.features.encoder import UNSEEN, Encoded
from models.members.mixture import RegimeModel
from models.members.transfer import Expansion
from models.portfolio import FittedPortfolio
from models.regressor import PortfolioRegressor
from models.runs.jitter import Jitter
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray

_LEAST_NOISE = 1e-6
_AT_ONCE = 4_000_000
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
    >>> asked = FeatureTable({"workers": np.array([64.0])}, {}, 1)
    >>> joint = joint_forecast(portfolio, table.features, asked)[0]
    >>> bool(joint.covariance[3, 3] > joint.covariance[0, 0])
    True
    """
    if not (candidates.n_rows and targets.n_rows):
        raise ValueError("A joint forecast needs a candidate and a target.")
    inquiry = portfolio.ask(candidates.above(targets))
    rows, encoded = inquiry.features, inquiry.encoded
    n, answering = candidates.n_rows, inquiry.answering[candidates.n_rows :]
    distinct = list(dict.fromkeys(answering))
    weights = [portfolio.answering[each].weights for each in distinct]
    spread = _Spread.of(portfolio, rows, encoded, np.max(weights, axis=0) > 0)
    joints = []
    for regime in distinct:
        which = np.flatnonzero([each == regime for each in answering])
        kept = np.concatenate([np.arange(n), n + which])
        model = portfolio.answering[regime]
        width = float(model.curve[AT_90])
        covariance, noise = spread.of_mixture(model, kept, portfolio.jitter)
        joints.append(JointForecast(covariance, noise, np.full(len(which), width), which))
    return joints


@dataclass(frozen=True, slots=True)
class _Spread:
    """Means, covariances and noises of the members for all rows, and their shared covariance."""

    means: list[FloatArray]
    covariances: list[FloatArray | None]
    noises: list[float | None]
    shared: FloatArray

    @classmethod
    def of(
        cls, portfolio: FittedPortfolio, rows: FeatureTable, encoded: Encoded, counts: BoolArray
    ) -> "_Spread":
        """Return the members' moments of rows, with covariances only for members with weight."""
        expansion = portfolio.transfer.expand(encoded, rows)
        members = list(portfolio.members.values())
        noises = [member.run_variance for member in members]
        shared = _common_unknowns(portfolio, rows, encoded)
        if expansion is None:
            means = [member.predict(encoded.X) for member in members]
            each = np.arange(rows.n_rows)
            stands = _Stands(encoded.X, np.ones(rows.n_rows), each, each)
            return cls(means, stands.covariances(members, counts), noises, shared)
        X = expansion.X
        stands = _Stands.of(expansion, rows.n_rows)
        told = [member.predict(X) + expansion.shift for member in members]
        logs = np.mean(told, axis=0)
        between = stands.mean(logs**2) - stands.mean(logs) ** 2
        of_levels = variance_of_levels(np.maximum(between, 0.0), stands.mean(expansion.unknown))
        level_sd = np.sqrt(stands.mean(expansion.variance) + of_levels)
        shared = shared + np.outer(level_sd, level_sd) * _same_levels(portfolio, rows, encoded)
        means = [stands.mean(each) for each in told]
        return cls(means, stands.covariances(members, counts), noises, shared)

    def of_mixture(
        self, model: RegimeModel, kept: IntArray, jitter: Jitter | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return covariance and noise of the rows `kept` under the weights of a regime.

        Members without a joint distribution count by their means, and also by their held-out errors
        where no other member has weight.
        """
        weights = model.weights
        means = np.array(self.means)[:, kept]
        off = means - weights @ means
        within, noise, known = np.zeros((len(kept),) * 2), 0.0, 0.0
        for weight, own, variance in zip(weights, self.covariances, self.noises, strict=True):
            if own is not None and variance is not None and weight > 0:
                within += weight * own[np.ix_(kept, kept)]
                noise += weight * variance
                known += weight
        between = (weights[:, None] * off).T @ off
        if known > 0:
            within, noise = within / known, noise / known
        else:
            noise = max(float(weights @ model.residual_variances), _LEAST_NOISE)
        noises = np.full(len(kept), noise)
        if jitter is not None:
            noises = jitter.told(noises, weights @ means)
        return within + between + self.shared[np.ix_(kept, kept)], noises


@dataclass(frozen=True, slots=True)
class _Stands:
    """The stand-ins of questions, sorted by question.

    Question i is the weighted sum of the rows of `X` from ``starts[i]`` up to the next start.
    `order` gives their positions in the expansion.
    """

    X: FloatArray
    weights: FloatArray
    starts: IntArray
    order: IntArray

    @classmethod
    def of(cls, expansion: Expansion, n: int) -> "_Stands":
        """Return the stand-ins of n questions."""
        order = np.argsort(expansion.source, kind="stable")
        starts = np.searchsorted(expansion.source[order], np.arange(n))
        return cls(expansion.X[order], expansion.weights[order], starts, order)

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the weighted mean for each question, given values of the expansion's rows."""
        weighted = self.weights * values[self.order]
        return np.asarray(np.add.reduceat(weighted, self.starts), dtype=np.float64)

    def covariances(
        self, members: Sequence[PortfolioRegressor], counts: BoolArray
    ) -> list[FloatArray | None]:
        """Return the covariance of the questions by each member with weight."""
        return [
            self._covariance(member) if is_asked else None
            for member, is_asked in zip(members, counts, strict=True)
        ]

    def _covariance(self, member: PortfolioRegressor) -> FloatArray | None:
        """Return the covariance of the questions by one member, computed in parts.

        Six stand-ins per question have 36 times as many covariances: gigabytes for 2,000 questions.
        """
        n, ends = len(self.starts), np.append(self.starts[1:], len(self.X))
        found = np.empty((n, n))
        for rows in np.array_split(np.arange(n), min(n, -(-(len(self.X) ** 2) // _AT_ONCE))):
            first, last = self.starts[rows[0]], ends[rows[-1]]
            own = member.covariance(self.X[first:last], self.X)
            if own is None:
                return None
            by_row = np.add.reduceat(own * self.weights, self.starts, axis=1)
            weighted = by_row * self.weights[first:last, None]
            found[rows] = np.add.reduceat(weighted, self.starts[rows] - first, axis=0)
        return found


def _common_unknowns(
    portfolio: FittedPortfolio, rows: FeatureTable, encoded: Encoded
) -> FloatArray:
    """Return the covariance from unidentified parameters and from breaks in trends.

    These are shared by all rows: the exponents of constant parameters, those of columns that went
    together in all runs, and what is unknown of other epochs. What a row leaves open is its own.
    """
    parted = portfolio.transfer.companions.unknowns(rows, encoded)
    total = parted @ parted.T
    for index, feature in enumerate(portfolio.encoder.numeric):
        if not feature.used:
            exponent = feature.exponent_sd * encoded.excess[:, index]
            total += np.outer(exponent, exponent)
    left = np.maximum(encoded.variance - np.diag(total), 0.0)
    total += np.diag(left)
    # What is unknown of other epochs is not part of the encoded variance.
    epochs_correction = portfolio.ask(rows).epochs_correction
    if epochs_correction is not None:
        total += epochs_correction[1] @ epochs_correction[1].T
    for index, deviation in enumerate(portfolio.trend_breaks.tolist()):
        beyond = deviation * encoded.excess[:, index]
        total = total + np.outer(beyond, beyond)
    return total


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
    index = {key: position for position, key in enumerate(dict.fromkeys(keys))}
    which = np.array([index[key] for key in keys])
    return np.asarray(np.equal.outer(which, which), dtype=np.float64)
