"""Priors learned from other workloads: exponents and shares of laws, effects of category levels."""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from models.features.aliases import aliased_columns, without_columns
from models.features.encoded import Encoded
from models.features.encoder import Encoder
from models.features.hardware import UNKNOWN_SD, HardwareDescription
from models.features.layout import Layout
from models.laws.law_priors import TEMPLATES
from models.laws.power_laws import FittedLaw
from models.laws.scaling_laws import LogLinearLaw
from models.pooling.level_effects import LevelEffects, pool_levels, specification_effects
from models.pooling.summaries import (
    WorkloadSummary,
    feature_names,
    parameter_names,
)
from models.reports import PoolingReport
from models.tables import BoolArray, FloatArray
from models.threads import single_thread

_EM_ROUNDS = 30
_NU = 4.0
"""Degrees of freedom of the template's spread, to which that between workloads is shrunk."""

_T_DOF = 4.0
"""Degrees of freedom of Student's t between workloads, so that an outlier counts for less."""

ARITHMETIC = ("gpu_type", "param.precision")
"""Categories that change the speed of arithmetic."""

_ARITHMETIC_CORRELATION = 0.7
"""Correlation of a workload's responses to two of them: both show how much of it is arithmetic."""

_COMMON_SD = 0.3
"""Log standard deviation of the common effect of a category's levels, which beta expresses."""

Estimates = tuple[FloatArray, FloatArray]
"""Locations and informations of one parameter, one of each per workload."""

_LawEstimates = Mapping[tuple[tuple[str, ...], str], Mapping[str, Estimates]]
"""By family and template, then by parameter: what each workload of a group found."""


class PooledPrior:
    """Priors of a workload's laws, learned from summaries of other workloads; immutable.

    Made by `from_summaries`.

    Parameters
    ----------
    estimates
        What the public workloads found, then what the project's own workloads found.
    template_weights
        Log prior probability of each template per family, up to a constant.
    effects
        Effects of levels by category.
    report
        What it was learned from.
    """

    def __init__(
        self,
        estimates: Sequence[_LawEstimates],
        template_weights: Mapping[tuple[tuple[str, ...], str], float],
        effects: Mapping[str, LevelEffects],
        report: PoolingReport,
    ) -> None:
        self._estimates, self._template_weights = estimates, template_weights
        self.effects, self.report = effects, report

    @classmethod
    @single_thread
    def from_summaries(
        cls,
        summaries: Sequence[WorkloadSummary],
        specifications: Mapping[str, HardwareDescription],
        factory: Sequence[WorkloadSummary] | None = None,
    ) -> "PooledPrior":
        """Learn from the summaries of a project's other workloads and of public ones.

        Parameters
        ----------
        summaries
            At most one per workload, never that of the workload whose prior this becomes.
        specifications
            Data sheets of accelerators by GPU type.
        factory
            Summaries of public workloads.

        Notes
        -----
        For exponents and shares, the project's own workloads vary around a mean that itself varies
        as public workloads do: a few workloads of the same project tell more than any number of
        others. The effects of levels, above all of GPU types, are the same everywhere, so there all
        workloads count the same.

        Raises
        ------
        ValueError
            If a workload comes twice.

        Examples
        --------
        >>> PooledPrior.from_summaries([], {}).report.contributors
        ()
        """
        names = [summary.workload for summary in summaries]
        if len(set(names)) < len(names):
            raise ValueError("A workload contributes one summary.")
        own = sorted(summaries, key=lambda summary: summary.workload)
        public = sorted(factory or (), key=lambda summary: summary.workload)
        # Where there are too many for one pool, the project's own take precedence.
        all_summaries = [
            *sorted(own, key=lambda summary: -summary.n_configurations),
            *sorted(public, key=lambda summary: -summary.n_configurations),
        ]
        document = {
            "own": [summary.to_document() for summary in own],
            "factory": [summary.to_document() for summary in public],
            "specifications": {name: asdict(item) for name, item in sorted(specifications.items())},
        }
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        return cls(
            (_gather(public), _gather(own)),
            _template_weights(all_summaries),
            _pool_effects(all_summaries, specifications),
            PoolingReport(tuple(sorted(names)), len(public), hashlib.sha256(text).hexdigest()),
        )

    def numeric(
        self,
        template: str,
        terms: tuple[str, ...],
        names: Sequence[str | None],
        template_prior: tuple[FloatArray, FloatArray],
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of named parameters, given those of the template."""
        means, sds = template_prior[0].copy(), template_prior[1].copy()
        for estimates in self._estimates:
            by_parameter = estimates.get((terms, template), {})
            for index, name in enumerate(names):
                if name is not None and name in by_parameter:
                    means[index], sds[index] = pool_parameter(
                        *by_parameter[name], float(means[index]), float(sds[index])
                    )
        return means, sds

    def log_weight(self, template: str, terms: tuple[str, ...]) -> float:
        """Return the log prior probability of a template, up to a constant."""
        return self._template_weights.get((terms, template), 0.0)


def pool_parameter(
    locations: FloatArray, informations: FloatArray, mean: float, sd: float
) -> tuple[float, float]:
    """Return mean and standard deviation of a parameter of a new workload.

    ``th_w ~ N(t_w, 1 / lam_w)``, ``t_w ~ N(mu, tau^2 / q_w)``, ``q_w ~ Gamma(k/2, k/2)``
    (Student's t with k = 4), ``mu ~ N(m0, sd^2)`` and tau^2 shrunk to sd^2, fitted by 30 rounds of
    EM; the new prior is ``N(mu, tau^2 + 1 / (sum q_w / tau^2 + 1 / sd^2))``.

    Parameters
    ----------
    locations, informations
        What each workload found, and how certainly (inverse variance), shape (n_workloads,).
    mean, sd
        The template's own prior.

    References
    ----------
    Dempster, Laird, Rubin (1977), J. R. Statist. Soc. B 39(1), 1-38. Lange, Little, Taylor (1989),
    Robust statistical modeling using the t distribution, JASA 84(408). Gelman and Hill (2007), Data
    analysis using regression and multilevel models, ch. 12.

    Examples
    --------
    >>> locations = np.full(20, -0.9)
    >>> mean, sd = pool_parameter(locations, np.full(20, 1e4), -1.0, 0.4)
    >>> round(mean, 2), bool(sd < 0.25)
    (-0.9, True)
    """
    mu, tau2, weights = mean, sd**2, np.ones(len(locations))
    for _ in range(_EM_ROUNDS):
        variances = 1 / (informations + weights / tau2)
        posterior_means = variances * (informations * locations + weights * mu / tau2)
        precision = float(weights.sum()) / tau2 + 1 / sd**2
        mu = (float(weights @ posterior_means) / tau2 + mean / sd**2) / precision
        second_moments = (posterior_means - mu) ** 2 + variances
        tau2 = (_NU * sd**2 + float(weights @ second_moments)) / (_NU + len(weights))
        weights = (_T_DOF + 1) / (_T_DOF + second_moments / tau2)
    return mu, float(np.sqrt(tau2 + 1 / (float(weights.sum()) / tau2 + 1 / sd**2)))


def _gather(
    summaries: Sequence[WorkloadSummary],
) -> _LawEstimates:
    pairs_by_law: dict[tuple[tuple[str, ...], str], dict[str, list[tuple[float, float]]]] = {}
    for summary in summaries:
        for law in summary.laws:
            by_parameter = pairs_by_law.setdefault((law.terms, law.template), {})
            for name, pair in law.estimates.items():
                by_parameter.setdefault(name, []).append(pair)
    gathered: dict[tuple[tuple[str, ...], str], dict[str, Estimates]] = {}
    for key, by_parameter in pairs_by_law.items():
        gathered[key] = {}
        for name, pairs in by_parameter.items():
            columns = np.array(pairs)
            gathered[key][name] = columns[:, 0], columns[:, 1]
    return gathered


def _template_weights(
    summaries: Sequence[WorkloadSummary],
) -> dict[tuple[tuple[str, ...], str], float]:
    total: dict[tuple[tuple[str, ...], str], float] = {}
    for summary in summaries:
        for law in summary.laws:
            key = (law.terms, law.template)
            total[key] = total.get(key, 0.5) + law.weight
    scale = 0.5 * len(TEMPLATES) + len(summaries)
    return {key: float(np.log(weight / scale)) for key, weight in total.items()}


def _pool_effects(
    summaries: Sequence[WorkloadSummary], hardware: Mapping[str, HardwareDescription]
) -> dict[str, LevelEffects]:
    categories = sorted({item.category for summary in summaries for item in summary.levels})
    return {
        category: pool_levels(
            category,
            [item for summary in summaries for item in summary.levels if item.category == category],
            hardware,
        )
        for category in categories
    }


class EncodedPrior:
    """A pooled prior for the layout of one workload.

    Parameters
    ----------
    pooled
        What other workloads say.
    encoder
        The encoder of the workload's fit.
    encoded
        Its configurations.
    """

    has_deviations = True

    def __init__(self, pooled: PooledPrior, encoder: Encoder, encoded: Encoded) -> None:
        self._pooled, self.report = pooled, pooled.report
        self._features = feature_names(encoder)
        self._aliased = aliased_columns(encoder, encoded.X, encoded.codes)
        self._levels, self._responses = _level_prior(pooled, encoder, encoded)
        self._is_informed = _informed_levels(pooled, encoder)
        self._cache: dict[tuple[str, tuple[str, ...], bytes], tuple[FloatArray, FloatArray]] = {}

    def numeric(
        self, template: str, terms: tuple[str, ...], means: FloatArray, sds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of log shares and exponents."""
        key = template, terms, sds.tobytes()
        if key not in self._cache:
            names = parameter_names(terms, self._features)
            pooled = self._pooled.numeric(template, terms, names, (means, sds))
            width = len(self._features)
            self._cache[key] = without_columns(pooled, len(terms), width, self._aliased)
        return self._cache[key]

    def log_weight(self, template: str, terms: tuple[str, ...]) -> float:
        """Return the log prior probability of a template, up to a constant."""
        return self._pooled.log_weight(template, terms)

    def levels(self, spreads: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the effects of all levels.

        `spreads` widen those of levels that neither other workloads nor data sheets know.
        """
        mean, covariance = self._levels
        factors = np.where(self._is_informed, 1.0, spreads)
        return mean, covariance * factors[:, None] * factors

    def effects(self, layout: Layout, X: FloatArray, y: FloatArray) -> dict[str, LevelEffects]:
        """Return what is known of any level's effect on this workload, measured or not.

        If the workload responds more strongly than others to the levels that its runs measured, it
        will also do so to levels without runs. With m the effects of the measured levels in a power
        law under this prior, S their covariance, c their prior covariance with the response z and
        ``g = cov(m)^-1 c``: ``E z = g . (m - mean)`` and ``var z = s_z^2 - g . c + g' S g``.

        Parameters
        ----------
        layout
            Columns of X.
        X, y
            Configurations and log durations.
        """
        law = LogLinearLaw(replace(layout, prior=self)).fit(X, y).laws_[0]
        return {
            column: effects.at_response(*self._response(column, effects.response, law))
            for column, effects in self._pooled.effects.items()
        }

    def _response(self, column: str, sd: float, law: FittedLaw) -> tuple[float, float]:
        mean, covariance = self._levels
        cross = self._responses[column]
        gain = np.linalg.solve(covariance, cross)
        first = len(law.theta) - len(mean)
        variance = float(sd**2 - gain @ cross + gain @ law.covariance[first:, first:] @ gain)
        return float(gain @ (law.theta[first:] - mean)), max(variance, 0.0) ** 0.5


def _level_prior(
    pooled: PooledPrior, encoder: Encoder, encoded: Encoded
) -> tuple[tuple[FloatArray, FloatArray], Mapping[str, FloatArray]]:
    """Return mean and covariance of all levels' effects, centred on the runs of each category.

    Also return, by category, the covariance of its response z with the effects of all levels.
    """
    means: list[FloatArray] = []
    size = sum(encoder.layout.levels)
    total = np.zeros((size, size))
    patterns: dict[str, FloatArray] = {}
    for index, category in enumerate(encoder.categories):
        if not category.used:
            continue
        effects = pooled.effects.get(category.column)
        if effects is None and category.column == "gpu_type":
            effects = specification_effects(category.column)
        n = len(category.levels)
        first = sum(len(part) for part in means)
        if effects is None:
            mean, covariance = np.zeros(n), np.diag(np.full(n, UNKNOWN_SD**2))
        else:
            mean, covariance = effects.joint(category.levels, encoder.hardware)
            mean, covariance = _centred(mean, covariance, encoded.codes[:, index])
            patterns[category.column] = np.zeros(size)
            patterns[category.column][first : first + n] = effects.response * mean
        total[first : first + n, first : first + n] = covariance
        means.append(mean)
    for one, other in itertools.permutations(sorted(patterns), 2):
        total += _response_correlation(one, other) * np.outer(patterns[one], patterns[other])
    responses = {
        column: effects.response * _correlated_effects(column, patterns, size)
        for column, effects in pooled.effects.items()
    }
    return (np.concatenate([np.empty(0), *means]), total), responses


def _informed_levels(pooled: PooledPrior, encoder: Encoder) -> BoolArray:
    """Return whether other workloads or data sheets know each level of the used categories."""
    is_informed: list[bool] = []
    for category in encoder.categories:
        if category.used:
            effects = pooled.effects.get(category.column)
            is_informed += [
                effects is not None
                and level is not None
                and effects.is_known(level, encoder.hardware)
                for level in category.levels
            ]
    return np.array(is_informed, dtype=np.bool_)


def _correlated_effects(column: str, patterns: Mapping[str, FloatArray], size: int) -> FloatArray:
    """Return the effects correlated with a category's response: its own and related ones."""
    effects = np.zeros(size)
    for other, pattern in patterns.items():
        effects += _response_correlation(column, other) * pattern
    return effects


def _response_correlation(one: str, other: str) -> float:
    """Return the correlation of a workload's responses to two categories."""
    if one == other:
        return 1.0
    return _ARITHMETIC_CORRELATION if {one, other} <= set(ARITHMETIC) else 0.0


def _centred(
    mean: FloatArray, covariance: FloatArray, codes: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[FloatArray, FloatArray]:
    n = len(mean)
    share = np.bincount(codes[codes >= 0], minlength=n) / max(1, int((codes >= 0).sum()))
    contrast = np.eye(n) - share
    return contrast @ mean, contrast @ covariance @ contrast.T + _COMMON_SD**2
