"""How much parameters matter, as the runs show it: factors on the priors of laws and processes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.features.layout import Layout
from models.laws.law_priors import TERMS
from models.laws.power_laws import FittedLaw
from models.laws.scaling_laws import LogLinearLaw, ScalingLaw
from models.members.epochs import with_tight_epochs
from models.questions.regimes import FEW_CONFIGURATIONS
from models.tables import FloatArray

IRRELEVANT = 0.1
"""Factor on the deviations of an irrelevant parameter's exponents and on its part of a kernel."""

STRONG = 3.0
"""Factor on the deviations of a strong parameter's exponents, for which 1 to 3 are common."""

_MIN_LOG_ODDS = 1.0
_MIN_LOG_ODDS_OF_FEW = 3.0
"""Fewer than 12 configurations confuse parameters by chance, and so need strong evidence
(20 to 1; Kass and Raftery 1995, J. Am. Statist. Assoc. 90(430), 773-795)."""

_MIN_UNEXPLAINED_SHARE = 0.01
"""Least share of a parameter's variance not explained by others for the runs to show its effect."""


def with_relevance(layout: Layout, X: FloatArray, y: FloatArray, seed: int) -> Layout:
    """Return the layout with each parameter's relevance, as the runs show it.

    A parameter is strong (layers, rounds, the sequence length: durations proportional to it or its
    square) where the runs contradict the usual prior, under which it changes a duration little. In
    a power law fitted with prior deviations three times as wide, a parameter is strong if its Bayes
    factor for them is above e; if the factor for all parameters together is, also if its own is
    above 1 / e. With fewer than 12 configurations, both thresholds of e become e^3.

    From 12 configurations on, a parameter counts as irrelevant where the Bayes factor for exponents
    of zero in all terms, by the Savage-Dickey ratio under the most plausible template of the full
    law, is above e. A parameter with more than 99 % of its variance explained by the other features
    does not: it is then the prior, not the runs, that attributes its effect to them.

    Epochs that never varied are neither: their exponents are known (`models.members.epochs`).

    Parameters
    ----------
    layout
        How to read the columns of X.
    X, y
        Encoded configurations and their log durations.
    seed
        Seed for the choice of a subset of large sets.

    References
    ----------
    Verdinelli and Wasserman (1995), Computing Bayes factors using a generalization of the
    Savage-Dickey density ratio, J. Am. Statist. Assoc. 90(430), 614-618.
    """
    layout = with_tight_epochs(layout, X)
    columns = [index for index, role in enumerate(layout.roles) if role == "parameter"]
    if not columns:
        return layout
    layout = _with_strong(layout, columns, X, y, seed)
    if len(y) < FEW_CONFIGURATIONS:
        return layout
    try:
        best = ScalingLaw(layout, TERMS, 1.0, seed=seed).fit(X, y).laws_[0]
    except (ValueError, np.linalg.LinAlgError):
        return layout
    factors = np.array(layout.relevances)
    for column in columns:
        if _unexplained_share(layout.numeric(X), column) < _MIN_UNEXPLAINED_SHARE:
            continue
        if _log_odds_of_zero(best, _exponents(best, layout.n_numeric, column)) > _MIN_LOG_ODDS:
            factors[column] = IRRELEVANT
    return replace(layout, relevance=tuple(factors.tolist()))


def _with_strong(
    layout: Layout, columns: Sequence[int], X: FloatArray, y: FloatArray, seed: int
) -> Layout:
    """Return the layout with wider priors on the parameters for which the runs call for them."""
    factors = np.array(layout.relevances)
    factors[list(columns)] = STRONG
    wide = replace(layout, relevance=tuple(factors.tolist()))
    try:
        usual_law, wide_law = (
            LogLinearLaw(trial, seed=seed).fit(X, y).laws_[0] for trial in (layout, wide)
        )
    except (ValueError, np.linalg.LinAlgError):
        return layout
    threshold = _MIN_LOG_ODDS if len(y) >= FEW_CONFIGURATIONS else _MIN_LOG_ODDS_OF_FEW
    are_jointly_strong = wide_law.evidence - usual_law.evidence > threshold
    for column in columns:
        log_odds = _log_odds_of_wide(wide_law, 1 + column)
        is_strong = log_odds > threshold or (are_jointly_strong and log_odds > -_MIN_LOG_ODDS)
        factors[column] = STRONG if is_strong else 1.0
    return replace(layout, relevance=tuple(factors.tolist())) if factors.max() > 1 else layout


def _log_odds_of_wide(law: FittedLaw, index: int) -> float:
    """Return the log Bayes factor for a parameter's wide prior against the usual one.

    The inverse of the mean of ``N(t; 0, w) / N(t; 0, W)`` under N(m, S), with m and S the
    exponent's posterior mean and variance under the wide prior N(0, W), and w the usual variance.
    """
    wide_sd, mean = float(law.prior.sds[index]), float(law.theta[index])
    usual_sd, variance = wide_sd / STRONG, float(law.covariance[index, index])
    gain = usual_sd**-2 - wide_sd**-2
    ratio = 1 + gain * variance
    return float(0.5 * (np.log(ratio) + mean**2 * gain / ratio) - np.log(STRONG))


def _unexplained_share(numeric: FloatArray, column: int) -> float:
    """Return the share of a feature's variance that is not a linear function of the others."""
    centred = numeric - numeric.mean(axis=0)
    others = np.delete(centred, column, axis=1)
    explained = others @ np.linalg.lstsq(others, centred[:, column])[0]
    total = float(centred[:, column] @ centred[:, column])
    residuals = centred[:, column] - explained
    return float(residuals @ residuals) / total if total > 0 else 1.0


def _exponents(law: FittedLaw, n_numeric: int, column: int) -> Sequence[int]:
    """Return the places in theta of a feature's exponents, one per term."""
    n_terms = len(law.prior.terms)
    return [n_terms + term * n_numeric + column for term in range(n_terms)]


def _log_odds_of_zero(law: FittedLaw, indices: Sequence[int]) -> float:
    """Return the log of posterior over prior density at exponents of zero."""
    prior = law.prior.full_covariance()[np.ix_(indices, indices)]
    posterior = law.covariance[np.ix_(indices, indices)]
    means = law.prior.means[list(indices)]
    return _log_density(law.theta[list(indices)], posterior) - _log_density(means, prior)


def _log_density(offset: FloatArray, covariance: FloatArray) -> float:
    """Return the log density of a normal distribution, `offset` from its mean, up to a constant."""
    _, log_determinant = np.linalg.slogdet(covariance)
    return float(-(offset @ np.linalg.solve(covariance, offset) + log_determinant) / 2)
